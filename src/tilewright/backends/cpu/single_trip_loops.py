"""Versions for loops along rows with a single iteration: kernels are written for tiles that hold most rows.

    A                                                   A
    %r = scf.for %i = %low to %high step %step          scf.if 0 < %high - %low <= %step {
        iter_args(%sum = %zero) {                         A row: body with %i = %low, %sum = %zero, and B behind it
      …                                          →      } else {
    }                                                     scf.for …
    B                                                     B
                                                        }

Without the loop, carried values do not go through memory: body and B are fused, and their loops end where the row ends
(`clip_to_mask.py`). Later loops in B with the same bounds have a single iteration as well. Only loops that carry tiles
too large for registers get a version; others are moved into the loops over elements (`interchange_loops.py`).
"""

from __future__ import annotations

from tilewright.backends.cpu.interchange_loops import goes_along_rows, keeps_rows_in_registers, known_trip_count
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.scf import For
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import i64
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import integer_of
from tilewright.transforms.op_builder import OpBuilder

MAX_OPS = 200
"""Max number of ops that are written twice."""


def version_single_trips(module: Op, target: Target) -> bool:
    """Version the first wide loop of each function for a single iteration; returns whether there is one."""
    found = False
    for function in functions_of(module):
        loops = [op for op in function.body.ops_of(For) if _may_have_a_single_iteration(op)]
        wide = (loop for loop in loops if goes_along_rows(loop) and not keeps_rows_in_registers(loop, target))
        loop = next(wide, None)
        if loop is not None and sum(1 for op in _from(loop) for _ in op.walk()) <= MAX_OPS:
            _add_version(loop)
            found = True
    return found


def _may_have_a_single_iteration(loop: For) -> bool:
    step = integer_of(loop.step)
    return known_trip_count(loop) is None and step is not None and step > 0


def _from(op: Op) -> list[Op]:
    """The ops of a block from `op` on, without its terminator."""
    ops = [op]
    while (following := ops[-1].next) is not None:
        ops.append(following)
    return ops[:-1]


def _add_version(loop: For) -> None:
    block, ops = loop.block, _from(loop)
    assert block is not None
    end = block.terminator
    condition = _has_a_single_iteration(loop)
    single, general = Block(), Block()
    mapping: dict[Value, Value] = {}
    for op in ops:
        if isinstance(op, For) and _has_bounds_of(op, loop):
            _append_iteration(single, op, mapping)
        else:
            single.append(op.clone(mapping))
    arms = [Region([single]), Region([general])]
    types = [value.type for value in end.operands]
    branch = OpBuilder(loop).op("scf.if", (condition,), types, {}, arms)
    for op in ops:
        op.unlink()
        general.append(op)
    handed_on = [mapping.get(value, value) for value in end.operands]
    single.append(Op.create("scf.yield", handed_on, location=end.location))
    general.append(Op.create("scf.yield", end.operands, location=end.location))
    end.set_operands(branch.results)


def _has_bounds_of(loop: For, first: For) -> bool:
    return all(one is other for one, other in zip(loop.bounds, first.bounds, strict=True))


def _append_iteration(block: Block, loop: For, mapping: dict[Value, Value]) -> None:
    """Append the only iteration of `loop`; the mapping learns its results."""
    inside = dict(mapping)
    starts = [mapping.get(value, value) for value in (loop.low, *loop.inits)]
    inside.update(zip(loop.body.args, starts, strict=True))
    *body, end = loop.body
    for op in body:
        block.append(op.clone(inside))
    mapping.update(zip(loop.results, (inside.get(value, value) for value in end.operands), strict=True))


def _has_a_single_iteration(loop: For) -> Value:
    """An i1 before the loop; for bounds of i64 that are farther apart than an i64 says, false."""
    at = OpBuilder(loop)
    low, high, step = (value if value.type is i64 else at.cast("arith.extsi", value, i64) for value in loop.bounds)
    way = at.compute("arith.subi", high, low)
    return at.compute("arith.andi", at.compare("slt", low, high), at.compare("ule", way, step))
