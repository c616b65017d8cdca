"""Stores get one of two addresses: their own, or a buffer if the loops of their nest would disturb each other.

    "cpu.nest"(%overlaps) … {                    "cpu.nest"() … {
      "cpu.store"(%p, %x, %buffer, %mask)          %to = "cpu.redirect"(%overlaps, %buffer, %p)
    }                                        →     tt.store %to, %x, %mask
                                                 }
                                                 scf.if %overlaps {
                                                   "cpu.nest"() … { tt.store %p, "cpu.read"(%buffer), %mask } }

Each buffer is copied to its destination, one store after the other, in program order. This is rare, and short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from tilewright.backends.cpu.costs import inputs
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.dialects.cpu import GuardedStore, Nest, Read, Write, tile_of
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Location
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.declare import OPS
from tilewright.ir.types import i64


def redirect_stores(module: Op) -> bool:
    """Choose between memory and buffers for guarded stores of `module` (ttcir), with copies after their nests.

    Returns whether there is one.
    """
    nests = [op for op in module.ops_of(Nest) if op.overlaps is not None]
    for nest in nests:
        assert nest.block is not None, "it stands in a function"
        assert nest.overlaps is not None, "it says when to use buffers"
        b = LoopBuilder(Block())
        stores = nest.body.ops_of(GuardedStore)
        with b.branch(nest.overlaps, unlikely=True) as branch, branch.then():
            for store in stores:
                b.append(_copy(nest, store))
        nest.block.splice(b.block, nest.next)
        for store in stores:
            _redirect(store, nest.overlaps)
        nest.set_operands(())
    return bool(nests)


def _copy(nest: Nest, store: GuardedStore) -> Op:
    """A nest that does `store`, which stands in `nest`, from its buffer.

    A mask that the stores may have changed comes from the buffer that keeps it. What a buffer of one row has kept of
    an address is recomputed: only the last row is still there.
    """
    mask, kept, location = store.mask, store.kept_mask, store.location
    needed = [store.pointer] if mask is None or kept is not None else [store.pointer, mask]
    body, copies = Block(), dict[Value, Value]()
    rows = {op.buffer: op.value for op in nest.body.ops_of(Write) if op.row}
    for op in _makers(needed, nest.body, rows):
        if _is_row(op):
            copies[op.results[0]] = copies[rows[op.buffer]]
        else:
            body.append(op.clone(copies))
    pointer, *masks = [copies.get(value, value) for value in needed]
    tile = _read(store.buffer, body, location)
    if kept is not None:
        masks = [_read(kept, body, location)]
    body.append(Op(OPS["tt.store"], [pointer, tile, *masks], (), dict(store.attributes), (), (), location))
    body.append(Op(OPS["cpu.yield"], (), (), None, (), (), nest.body.terminator.location))
    outer = DenseArray(i64, tile_type(tile).shape[:-1])
    attributes: dict[str, Attribute] = {"mode": Keyword("rows"), "outer": outer, "optimize_size": True}
    return Op(OPS["cpu.nest"], (), (), attributes, [Region([body])], (), nest.location)


def _is_row(op: Op) -> TypeGuard[Read]:
    """Whether `op` reads a buffer of one row."""
    return isinstance(op, Read) and op.row


def _makers(values: Sequence[Value], body: Block, rows: Mapping[Value, Value]) -> list[Op]:
    """The ops of `body` that `values` are computed from, in order; `rows` has what buffers of one row keep."""
    needed, stack = set[Op](), list(values)
    while stack:
        op = stack.pop().op
        if op is not None and op.block is body and op not in needed:
            needed.add(op)
            stack.extend([rows[op.buffer]] if _is_row(op) else inputs(op))
    return [op for op in body if op in needed]


def _read(buffer: Value, body: Block, location: Location) -> Value:
    """The tile in `buffer`, read at the end of `body`."""
    read = Op(OPS["cpu.read"], (buffer,), (tile_of(buffer.type),), None, (), (), location)
    return body.append(read).results[0]


def _redirect(store: GuardedStore, overlaps: Value) -> None:
    """Let `store` go to its buffer where `overlaps` holds, else to its own place."""
    assert store.block is not None, "it stands in a nest"
    pointer, mask, location = store.pointer, store.mask, store.location
    choice = Op(OPS["cpu.redirect"], (overlaps, store.buffer, pointer), (pointer.type,), None, (), (), location)
    operands = [store.block.insert(choice, store).results[0], store.value, *([] if mask is None else [mask])]
    store.block.insert(Op(OPS["tt.store"], operands, (), store.attributes, (), (), location), store)
    store.erase()
