"""Loop-invariant code motion: what a loop computes anew each time from unchanged values moves in front of it.

    scf.for %i = … {                            %s = tt.splat %n
      %s = tt.splat %n                    ->    scf.for %i = … {
      %m = arith.cmpi slt, %r, %s                 %m = arith.cmpi slt, %r, %s

Only pure ops move, and only those that can run when the loop runs no step at all: no loads, and no division but by a
constant other than 0 and -1.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.dialects.arithmetic_meaning import DIVISIONS
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import constant_of

LOOPS = ("scf.for", "scf.while")
FIXED = ("scf.if", "scf.for", "scf.while")
"""Control flow stays where it is."""


def licm(module: Op) -> None:
    """Hoist in every function of `module`, inner loops first."""
    for function in functions_of(module):
        for block in function.regions[0].blocks:
            _hoist_in_block(block)


def _hoist_in_block(block: Block) -> None:
    for op in block:
        for region in op.regions:
            for inner in region.blocks:
                _hoist_in_block(inner)
        if op.name in LOOPS:
            _hoist_out_of(op)


def _hoist_out_of(loop: Op) -> None:
    assert loop.block is not None, "a loop is in a block"
    for region in loop.regions:
        varying = set(_values_inside(region.blocks))
        for op in region.block:
            if _may_move(op) and varying.isdisjoint(op.operands) and varying.isdisjoint(_captured(op)):
                op.unlink()
                loop.block.insert(op, loop)
                varying.difference_update(op.results)


def _values_inside(blocks: Iterable[Block]) -> Iterable[Value]:
    """Arguments and results at the top of the region: what deeper ops can see of the loop."""
    for block in blocks:
        yield from block.args
        for op in block:
            yield from op.results


def _captured(op: Op) -> Iterable[Value]:
    """What the regions of `op` use."""
    for region in op.regions:
        for inner in region.walk():
            yield from inner.operands


def _may_move(op: Op) -> bool:
    if op.definition.terminator or op.name in FIXED or not is_pure(op):
        return False
    return op.name not in DIVISIONS or constant_of(op.operands[1]) not in (None, 0, -1)
