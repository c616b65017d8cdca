"""Stores that may have gone to buffers, as the loops of their nest would have disturbed each other, are done again.

    "cpu.nest"(%overlaps) … {                    "cpu.nest"(%overlaps) …
      "cpu.store"(%p, %x, %buffer, %mask)    →   scf.if %overlaps {
    }                                              "cpu.nest"() … { tt.store %p, "cpu.read"(%buffer), %mask } }

Each buffer is copied to where it belongs, one store after the other, in program order. It is rare, and this is short.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.costs import inputs
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.dialects.cpu import GuardedStore, Nest, tile_of
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Location
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.declare import OPS
from tilewright.ir.types import i64


def copy_back(module: Op) -> bool:
    """Put the copies behind the nests of `module` (ttcir) that redirect stores; returns whether there is one."""
    nests = [op for op in module.ops_of(Nest) if op.overlaps is not None]
    for nest in nests:
        assert nest.block is not None, "it stands in a function"
        assert nest.overlaps is not None, "it says when to use buffers"
        b = LoopBuilder(Block())
        with b.branch(nest.overlaps, unlikely=True) as branch, branch.then():
            for number in range(sum(isinstance(op, GuardedStore) for op in nest.body)):
                b.append(_copy(nest, number))
        nest.block.splice(b.block, nest.next)
    return bool(nests)


def _copy(nest: Nest, number: int) -> Op:
    """A nest that does a store of `nest`, that after `number` others, from its buffer.

    A mask that the stores may have changed comes from the buffer that keeps it.
    """
    store = [op for op in nest.body if isinstance(op, GuardedStore)][number]
    mask, kept, location = store.mask, store.kept_mask, store.location
    needed = [store.pointer] if mask is None or kept is not None else [store.pointer, mask]
    body, copies = Block(), dict[Value, Value]()
    for op in _makers(needed, nest.body):
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


def _makers(values: Sequence[Value], body: Block) -> list[Op]:
    """The ops of `body` that `values` are computed from, in order."""
    needed, stack = set[Op](), list(values)
    while stack:
        op = stack.pop().op
        if op is not None and op.block is body and op not in needed:
            needed.add(op)
            stack.extend(inputs(op))
    return [op for op in body if op in needed]


def _read(buffer: Value, body: Block, location: Location) -> Value:
    """The tile in `buffer`, read at the end of `body`."""
    read = Op(OPS["cpu.read"], (buffer,), (tile_of(buffer.type),), None, (), (), location)
    return body.append(read).results[0]
