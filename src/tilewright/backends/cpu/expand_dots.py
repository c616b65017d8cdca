"""Products of matrices in memory become loops: packing, blocks of C in registers, and a remainder; see `dot/lower.py`.

    "cpu.matmul"(%a, %b, %c, …) <{shape = array<i64: 64, 32, 16>}>
                               →
    scf.for %block = … {  scf.for %k = … iter_args(%c0 = …) { … vector.fma … }  … }

The op has everything that decides the form: extents, types, known strides and counts, what is read next.
"""

from __future__ import annotations

from tilewright.backends.cpu.dot.lower import dot_workspace_bytes, lower_dot
from tilewright.backends.cpu.dot.spec import DotSpec, MergedProducts, spec_of_matmul
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import Matmul, buffer_type
from tilewright.dialects.scf import For
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import TensorType, i8, i64
from tilewright.transforms.functions import functions_of


def expand_dots(module: Op, target: Target) -> bool:
    """Replace the products in `module` by loops for `target`; returns whether there were any."""
    found = False
    for function in functions_of(module):
        products = function.ops_of(Matmul)
        b = LoopBuilder(Block(), entry=function.body)
        for op in products:
            with b.in_place_of(op):
                spec, soon = spec_of_matmul(op)
                left, right, sums = (b.pointing(value, i8) for value in (op.a, op.b, op.sums))
                space = _workspace(b, spec, target, sums)
                kept = None if op.panels is None or op.kept is None else (b.pointing(op.panels, i8), op.kept)
                goes_on = _goes_on(b, op) if 2 in op.asked_operands or (soon and spec.columns is not None) else None
                merged = MergedProducts(*op.waiting) if op.waits else None
                lower_dot(
                    b, target, spec, left, right, sums, space, kept=kept, prefetch=soon, goes_on=goes_on, merged=merged
                )
        found |= bool(products)
    return found


def _goes_on(b: LoopBuilder, op: Matmul) -> Value | None:
    """Whether the loop around `op`, which prefetches for the next iteration, has one."""
    loop = op.parent
    while loop is not None and not isinstance(loop, For):
        loop = loop.parent
    return None if loop is None else b.compare("sgt", b.sub(loop.high, loop.induction_variable), loop.step)


def _workspace(b: LoopBuilder, spec: DotSpec, target: Target, otherwise: Value) -> Value:
    """The memory that a micro-kernel packs into, the beginning of the arena; any other where it does not pack."""
    size = dot_workspace_bytes(spec, target)
    if not size:
        return otherwise
    return b.pointing(b.emit("cpu.alloc", (), buffer_type(TensorType((size,), i8)), {"offset": Number(0, i64)}), i8)
