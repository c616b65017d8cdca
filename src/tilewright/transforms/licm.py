"""Loop-invariant code motion: what a loop computes anew each time from unchanged values moves in front of it.

    scf.for %i = … {                            %s = tt.splat %n
      %s = tt.splat %n                    ->    scf.for %i = … {
      %m = arith.cmpi slt, %r, %s                 %m = arith.cmpi slt, %r, %s

Only pure ops move, and only those that can run when the loop runs no step at all: no division but by a constant other
than 0 and -1, and loads (by `licm_with_loads`) under the condition that there is a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.dialects.arithmetic_meaning import DIVISIONS
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure, writes_memory
from tilewright.ir.types import TensorType, Type, i1
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import constant_of

LOOPS = ("scf.for", "scf.while")
FIXED = ("scf.if", "scf.for", "scf.while")
"""Control flow stays where it is."""


def licm(module: Op) -> None:
    """Hoist in every function of `module`, inner loops first."""
    for function in functions_of(module):
        for block in function.regions[0].blocks:
            _hoist_in_block(block, loads=False)


def licm_with_loads(module: Op) -> None:
    """As `licm`; out of `scf.for` loops that write nothing loads move too."""
    for function in functions_of(module):
        for block in function.regions[0].blocks:
            _hoist_in_block(block, loads=True)


def _hoist_in_block(block: Block, *, loads: bool) -> None:
    for op in block:
        for region in op.regions:
            for inner in region.blocks:
                _hoist_in_block(inner, loads=loads)
        if op.name in LOOPS:
            hoist_out_of(op, loads=loads and op.name == "scf.for" and not writes_memory(op))


def hoist_out_of(loop: Op, *, loads: bool = False) -> None:
    """Move what `loop` computes anew each time in front of it, `loads` too."""
    assert loop.block is not None, "a loop is in a block"
    for region in loop.regions:
        varying = set(_values_inside(region.blocks))
        for op in region.block:
            is_load = loads and op.name == "tt.load" and not writes_memory(op)
            if not is_load and not _may_move(op):
                continue
            if varying.isdisjoint(op.operands) and varying.isdisjoint(_captured(op)):
                op.unlink()
                loop.block.insert(op, loop)
                varying.difference_update(op.results)
                if is_load:
                    _guard(op, loop)


def _guard(load: Op, loop: Op) -> None:
    """Let a load in front of a loop take place only if there is a step: load(p, m) -> load(p, splat(low < high) & m)"""
    pointer = load.operands[0].type
    low, high = loop.operands[:2]
    mask = _before(load, "arith.cmpi", (low, high), i1, {"predicate": Keyword("slt")})
    if isinstance(pointer, TensorType):
        mask = _before(load, "tt.splat", (mask,), TensorType(pointer.shape, i1, pointer.encoding))
    if len(load.operands) > 1:
        mask = _before(load, "arith.andi", (mask, load.operands[1]), mask.type)
    load.set_operands([load.operands[0], mask, *load.operands[2:]])


def _before(
    place: Op, name: str, operands: Sequence[Value], type: Type, attributes: dict[str, Attribute] | None = None
) -> Value:
    assert place.block is not None, f"{place.name} is in no block"
    op = Op.create(name, operands, (type,), attributes, location=place.location)
    return place.block.insert(op, place).result


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
