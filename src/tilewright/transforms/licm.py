"""Loop-invariant code motion: ops whose operands do not change in a loop move before it.

    scf.for %i = … {                            %s = tt.splat %n
      %s = tt.splat %n                    ->    scf.for %i = … {
      %m = arith.cmpi slt, %r, %s                 %m = arith.cmpi slt, %r, %s

Only pure ops move, and only those that may run if the loop has no iteration: no division but by a constant other than 0
and -1, and loads (in `licm_with_loads`) only under the condition that there is an iteration.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.dialects.arith import Binary
from tilewright.dialects.arithmetic_semantics import DIVISIONS
from tilewright.dialects.scf import For
from tilewright.dialects.traits import ControlFlow, Loop
from tilewright.dialects.tt_memory import Load
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure, writes_memory
from tilewright.ir.types import TensorType, i1, with_element
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import constant_of
from tilewright.transforms.op_builder import OpBuilder


def licm(module: Op) -> bool:
    """Hoist in every function of `module`, inner loops first; returns whether anything has moved."""
    return _hoist(module, loads=False)


def licm_with_loads(module: Op) -> bool:
    """Hoist as `licm` does, and loads out of `scf.for` loops that write nothing."""
    return _hoist(module, loads=True)


def _hoist(module: Op, *, loads: bool) -> bool:
    changed = False
    for function in functions_of(module):
        for block in function.regions[0].blocks:
            if block.is_outer:
                changed |= _hoist_in_block(block, loads=loads)
    return changed


def _hoist_in_block(block: Block, *, loads: bool) -> bool:
    changed = False
    for op in block:
        for region in op.regions:
            for inner in region.blocks:
                if inner.is_outer:
                    changed |= _hoist_in_block(inner, loads=loads)
        if isinstance(op, Loop):
            changed |= hoist_out_of(op, loads=loads and isinstance(op, For) and not writes_memory(op))
    return changed


def hoist_out_of(loop: Op, *, loads: bool = False) -> bool:
    """Move what `loop` computes again each time before it, `loads` too; returns whether there is any."""
    assert loop.block is not None, "a loop is in a block"
    changed = False
    for region in loop.regions:
        varying = set(_values_inside(region.blocks))
        for op in region.block:
            load = op if loads and isinstance(op, Load) and not writes_memory(op) else None
            if load is None and not _may_move(op):
                continue
            if varying.isdisjoint(op.operands) and varying.isdisjoint(_captured(op)):
                op.unlink()
                loop.block.insert(op, loop)
                changed = True
                varying.difference_update(op.results)
                if load is not None and isinstance(loop, For):
                    _guard(load, loop)
    return changed


def _guard(load: Load, loop: For) -> None:
    """Mask a load before a loop for the case without iterations: load(p, m) -> load(p, splat(low < high) & m)"""
    pointer = load.pointer.type
    at = OpBuilder(load)
    mask = at.compare("slt", loop.low, loop.high)
    if isinstance(pointer, TensorType):
        mask = at.emit("tt.splat", (mask,), with_element(pointer, i1))
    if load.mask is not None:
        mask = at.compute("arith.andi", mask, load.mask)
    load.set_operands([load.pointer, mask, *([] if load.other is None else [load.other])])


def _values_inside(blocks: Iterable[Block]) -> Iterable[Value]:
    """Arguments and results at the top of the region: what deeper ops can see of the loop."""
    for block in blocks:
        yield from block.args
        for op in block:
            yield from op.results


def _captured(op: Op) -> Iterable[Value]:
    """The values that the regions of `op` use."""
    for region in op.regions:
        for inner in region.walk():
            yield from inner.operands


def _may_move(op: Op) -> bool:
    if op.definition.terminator or isinstance(op, ControlFlow) or not is_pure(op):
        return False
    return op.name not in DIVISIONS or not isinstance(op, Binary) or constant_of(op.rhs) not in (None, 0, -1)
