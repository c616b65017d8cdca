"""Bufferisation: tiles that cross the boundary of a loop or branch are stored in scratch buffers.

    %r = scf.for … iter_args(%acc = %zero) {         %b = cpu.alloc ; cpu.write %zero, %b
      …                                              scf.for … {
      scf.yield %next                          →       %acc = cpu.read %b
    }                                                  … ; cpu.write %next, %b
                                                     }
                                                     %r = cpu.read %b

After this pass the only SSA values that loops and branches carry are scalars.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.backends.cpu.costs import is_tile
from tilewright.backends.cpu.share_buffers import share_buffers
from tilewright.dialects.cpu import Read, buffer_type
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.traits import ControlFlow
from tilewright.ir.core import Block, Op, Region, Value, defining
from tilewright.ir.types import TensorType, Type


def bufferize_carried(module: Op) -> bool:
    """Put the tiles that loops and branches carry into buffers, inner ones first; returns whether there were any."""
    changed = False
    for op in reversed(module.ops_of(ControlFlow)):
        if not any(is_tile(v) for v in [*op.results, *op.operands]):
            continue
        changed = True
        if isinstance(op, For):
            _for(op)
        elif isinstance(op, If):
            _if(op)
        elif isinstance(op, While):
            _while(op)
    if changed:
        share_buffers(module)
    return changed


def _for(loop: For) -> None:
    body, inits, carried = loop.body, loop.inits, loop.carried
    buffers = _buffers(loop, [r.type for r in loop.results])
    yields = body.terminator
    for buffer, init in _tiles(buffers, inits):
        _write(init, buffer, before=loop)
    _read_at_start(body, buffers, carried)
    _write_at_end(yields, buffers, yields.operands)
    scalars = [v for b, v in zip(buffers, inits, strict=True) if b is None]
    counter = loop.induction_variable
    _rebuild(loop, [loop.low, loop.high, loop.step, *scalars], buffers)
    kept = [a for b, a in zip(buffers, carried, strict=True) if b is None]
    body.args = _renumbered([counter, *kept])


def _if(branch: If) -> None:
    buffers = _buffers(branch, [r.type for r in branch.results])
    for arm in branch.arms:
        end = arm.block.terminator
        _write_at_end(end, buffers, end.operands)
    _rebuild(branch, branch.operands, buffers)


def _while(loop: While) -> None:
    before, after = loop.before, loop.after
    carried = _buffers(loop, [v.type for v in loop.operands])
    passed = _buffers(loop, [r.type for r in loop.results])
    for buffer, init in _tiles(carried, loop.operands):
        _write(init, buffer, before=loop)
    _read_at_start(before, carried, before.args)
    _read_at_start(after, passed, after.args)
    condition, end = loop.condition, after.terminator
    for buffer, value in _tiles(passed, condition.values):
        _write(value, buffer, before=condition)
    kept = [v for b, v in zip(passed, condition.values, strict=True) if b is None]
    condition.set_operands([condition.condition, *kept])
    _write_at_end(end, carried, end.operands)
    before.args = _renumbered(a for b, a in zip(carried, before.args, strict=True) if b is None)
    after.args = _renumbered(a for b, a in zip(passed, after.args, strict=True) if b is None)
    scalars = [v for b, v in zip(carried, loop.operands, strict=True) if b is None]
    _rebuild(loop, scalars, passed)


def _buffers(op: Op, types: Iterable[Type]) -> list[Value | None]:
    """A buffer before `op` for each type that is a tile's."""
    return [_alloc(t, op) if isinstance(t, TensorType) else None for t in types]


def _tiles(buffers: list[Value | None], values: list[Value]) -> list[tuple[Value, Value]]:
    return [(b, v) for b, v in zip(buffers, values, strict=True) if b is not None]


def _renumbered(args: Iterable[Value]) -> list[Value]:
    kept = list(args)
    for position, arg in enumerate(kept):
        arg.index = position
    return kept


def _alloc(tile: TensorType, before: Op) -> Value:
    return _insert(Op.create("cpu.alloc", (), (buffer_type(tile),), location=before.location), before).result


def _read(buffer: Value, like: Value, block: Block, before: Op | None) -> Value:
    op = block.insert(Op.create("cpu.read", (buffer,), (like.type,)), before)
    op.result.name = like.name
    return op.result


def _write(value: Value, buffer: Value, before: Op) -> None:
    _insert(Op.create("cpu.write", (value, buffer), location=before.location), before)


def _insert(op: Op, before: Op) -> Op:
    assert before.block is not None
    return before.block.insert(op, before)


def _read_at_start(block: Block, buffers: list[Value | None], args: list[Value]) -> None:
    for buffer, arg in _tiles(buffers, args):
        arg.replace_by(_read(buffer, arg, block, block.first))


def _write_at_end(end: Op, buffers: list[Value | None], values: list[Value]) -> None:
    """Write the tiles of the terminator `end` to their buffers; those that stay as they are need no write."""
    for buffer, value in _tiles(buffers, values):
        read = defining(value, Read)
        if read is None or read.buffer is not buffer:
            _write(value, buffer, before=end)
    end.set_operands([v for b, v in zip(buffers, values, strict=True) if b is None])


def _rebuild(op: Op, operands: list[Value], buffers: list[Value | None]) -> None:
    """Replace `op` by one with `operands` and without the results that have a buffer."""
    kept = [r for b, r in zip(buffers, op.results, strict=True) if b is None]
    regions = [Region(region.blocks) for region in op.regions]
    new = Op(op.definition, operands, [r.type for r in kept], op.attributes, regions, location=op.location)
    _insert(new, op)
    for old, result in zip(kept, new.results, strict=True):
        result.name = old.name
        old.replace_by(result)
    for buffer, old in zip(buffers, op.results, strict=True):
        if buffer is not None:
            assert new.block is not None
            old.replace_by(_read(buffer, old, new.block, new.next))
    op.regions = ()
    op.erase()
