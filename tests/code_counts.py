"""How much code a kernel becomes on a processor: ops by name, the numbers in them, and LLVM's instructions.

    summary(module)                     "arith.addi 3, …; 0 1 64"
    instructions(text)                  "add 3, llvm.fma.v16f32 8, …"
    ttir(kernel, {"x": …, "B": 64})     the kernel behind the passes of TTIR
    code_of(module, target)             both, behind all passes from TTIR to vector loops, and a digest of the text

A choice that changes shows in them where results stay what they are: in the digest at least.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from tilewright.backends.cpu.emit_calls import shared_by
from tilewright.backends.cpu.emit_control import UNBOUNDED_LOOPS
from tilewright.backends.cpu.emit_function import emit_functions
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.compiler.parameters import front_end_parameters
from tilewright.frontends import EvaluateOptions
from tilewright.frontends.choice import make_ttir
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.verifier import verify
from tilewright.runtime.specialize import argument_spec, specialize
from tilewright.transforms.pipeline import PASSES

INSTRUCTION = re.compile(r"^ +(?:%\S+ = )?(?:tail )?(?!ret|br|label)([a-z]+) (?:.*?@([\w.]+)\()?", re.MULTILINE)
"""An instruction of LLVM, and what it calls."""


def ttir(kernel: Any, arguments: Mapping[str, Any]) -> Op:
    """The TTIR of a kernel for such arguments."""
    specs = [argument_spec(p.name, specialize(arguments[p.name], p)) for p in kernel.params]
    parameters, options = front_end_parameters(specs), EvaluateOptions()
    module = make_ttir(kernel.fn, parameters, name="kernel", options=options, frontend="ast")
    run_passes(module, PASSES)
    return module


def shown(counts: Counter[str]) -> str:
    """Names with their numbers, by the alphabet."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def summary(module: Op) -> str:
    """Ops by name, and the integers that stand in the code."""
    numbers = {
        attribute.value
        for op in module.walk()
        for attribute in op.attributes.values()
        if isinstance(attribute, Number) and isinstance(attribute.value, int)
    }
    return f"{shown(Counter(op.name for op in module.walk()))}; {' '.join(map(str, sorted(numbers)))}"


def code_of(module: Op, target: Target) -> str:
    """How much code a kernel becomes (TTIR, which is consumed)."""
    run_passes(module, (*cpu_passes(target), *loop_passes(target)))
    verify(module)
    return counts_and_digest(module, target)


def counts_and_digest(module: Op, target: Target) -> str:
    """How much code vector loops are, and a digest of the LLVM IR that they become."""
    counts, text = summary(module), llvm_ir(module, target)
    return f"{counts}; {instructions(text)}; {crc32(text.encode()):08x}"


def llvm_ir(module: Op, target: Target) -> str:
    """The text that vector loops become, before LLVM optimises it."""
    writer = LlvmWriter(target, fuse=True)
    emit_functions(writer, module, shared_by(module, UNBOUNDED_LOOPS))
    return writer.render()


def instructions(text: str) -> str:
    """The instructions of LLVM IR: by name, or by what they call."""
    found: Counter[str] = Counter()
    for name, called in INSTRUCTION.findall(text):
        found[called or name] += 1
    return shown(found)
