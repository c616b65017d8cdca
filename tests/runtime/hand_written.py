"""A back end whose code is written by hand, so that the runtime can be tested without the compiler's own.

It compiles one kind of kernel: `k(x_ptr, y_ptr, out_ptr, n, BLOCK)` on fp32, as an addition.
"""

from __future__ import annotations

from typing import Any

from tilewright.analysis.value_flow import stored_arguments
from tilewright.backends.base import Language, StageTable
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.backends.llvm.machine import compile_object
from tilewright.ir.core import Op

ADD = """
define i64 @add_entry(ptr %launch, i64 %begin, i64 %end, ptr %scratch) {
  %p0 = getelementptr i8, ptr %launch, i64 24
  %x = load ptr, ptr %p0
  %p1 = getelementptr i8, ptr %launch, i64 32
  %y = load ptr, ptr %p1
  %p2 = getelementptr i8, ptr %launch, i64 40
  %out = load ptr, ptr %p2
  %p3 = getelementptr i8, ptr %launch, i64 48
  %n = load i64, ptr %p3
  %from = mul i64 %begin, BLOCK
  %wide = mul i64 %end, BLOCK
  %past = icmp slt i64 %n, %wide
  %to = select i1 %past, i64 %n, i64 %wide
  br label %head
head:
  %i = phi i64 [ %from, %0 ], [ %next, %body ]
  %more = icmp slt i64 %i, %to
  br i1 %more, label %body, label %done
body:
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %po = getelementptr float, ptr %out, i64 %i
  %a = load float, ptr %px
  %b = load float, ptr %py
  %c = fadd float %a, %b
  store float %c, ptr %po
  %next = add i64 %i, 1
  br label %head
done:
  ret i64 %end
}
"""


class HandWritten(CpuBackend):
    """See the module."""

    compiled = 0

    def add_stages(self, stages: StageTable, options: Any, language: Language = Language.TRITON) -> None:
        stages["llir"] = self.write
        stages["obj"] = lambda text, metadata: compile_object(text, self.machine)

    def write(self, module: Op, metadata: dict[str, Any]) -> str:
        HandWritten.compiled += 1
        metadata |= {"entry": "add_entry", "stored": sorted(stored_arguments(module))}
        block = next(op.attributes["end"] for op in module.walk() if op.name == "tt.make_range")
        return ADD.replace("BLOCK", str(block.value))
