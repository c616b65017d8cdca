"""Run by the interpreter of an environment with Triton 3.9: reads TTIR as JSON, writes what Triton's passes make of it.

Input, a line for each module: `[text, target, warps, passes]`. Output, a line for each: the text, without locations.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir, nvidia, passes

ADD = {
    "convert_to_ttgir": lambda pm, target, warps: passes.ttir.add_convert_to_ttgpuir(pm, target, warps, 32, 1),
    "coalesce": lambda pm, target, warps: passes.ttgpuir.add_coalesce(pm),
    "f32_dot_tc": lambda pm, target, warps: passes.ttgpuir.add_f32_dot_tc(pm, False),
    "optimize_descriptor_encoding": lambda pm, target, warps: nvidia.passes.ttnvgpuir.add_optimize_descriptor_encoding(
        pm
    ),
    "remove_layout_conversions": lambda pm, target, warps: passes.ttgpuir.add_remove_layout_conversions(pm, False),
    "optimize_thread_locality": lambda pm, target, warps: passes.ttgpuir.add_optimize_thread_locality(pm),
    "accelerate_matmul": lambda pm, target, warps: passes.ttgpuir.add_accelerate_matmul(pm),
    "optimize_dot_operands": lambda pm, target, warps: passes.ttgpuir.add_optimize_dot_operands(pm, True),
    "assign_latencies": lambda pm, target, warps: passes.ttgpuir.add_assign_latencies(pm, 3),
    "schedule_loops": lambda pm, target, warps: passes.ttgpuir.add_schedule_loops(pm),
    "pipeline_loops": lambda pm, target, warps: passes.ttgpuir.add_pipeline(pm, 3, False),
    "canonicalize": lambda pm, target, warps: passes.common.add_canonicalizer(pm),
    "cse": lambda pm, target, warps: passes.common.add_cse(pm),
}


def transformed(path: Path, target: str, warps: int, steps: list[str]) -> str:
    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    module: Any = ir.parse_mlir_module(str(path), context)
    module.context = context
    manager = ir.pass_manager(context)
    for step in steps:
        ADD[step](manager, target, warps)
    manager.run(module, "oracle")
    return str(module.str_nodebug())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ttir"
        for line in sys.stdin:
            text, target, warps, steps = json.loads(line)
            path.write_text(text)
            sys.stdout.write(json.dumps(transformed(path, target, warps, steps)) + "\n")


main()
