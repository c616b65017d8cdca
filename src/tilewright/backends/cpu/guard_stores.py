"""Stores of a nest that might overlap other memory that the nest touches get a buffer to fall back to.

    cpu.nest { %x = tt.load %p        →    %b = cpu.alloc
               tt.store %q, %x }           cpu.nest { %x = tt.load %p ; cpu.store %q, %x, %b }

A nest interleaves its loads and stores. When the addresses show at run time that the tile at %q overlaps the tile
at %p without being the same tile, or that elements of it have one address, the store goes to the buffer, and the
buffer is copied to %q after the nest. A mask that is computed from loads is kept for that copy too.
"""

from __future__ import annotations

from tilewright.backends.cpu.alignment import asked_for
from tilewright.backends.cpu.costs import LOADS, ROOTS, is_tile, makers
from tilewright.backends.cpu.strides import may_repeat
from tilewright.dialects.cpu import buffer_type
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import TensorType


def guard_stores(module: Op) -> None:
    """Give a buffer to each store of tiles that shares its nest with a load or store at another pointer."""
    for nest in [op for op in module.walk() if op.name == "cpu.nest"]:
        body = nest.regions[0].block
        stores = [op for op in body if op.name == "tt.store" and is_tile(op.operands[0])]
        for store in stores if stores and _may_interfere(body, stores) else ():
            _guard(store, nest)


def _may_interfere(body: Block, stores: list[Op]) -> bool:
    """Are there two pointers, or is an address loaded at one index and stored at another?"""
    accesses = [op.operands[0] for op in body if op.name in ("tt.load", "tt.store")]
    if len(set(accesses)) > 1 or (len(accesses) > 1 and may_repeat(accesses[0])):
        return True
    roots = [op for op in body if op.name in ROOTS]
    return any(op.name == "tt.load" and not straight for root in roots for op, straight in asked_for(root))


def _guard(store: Op, nest: Op) -> None:
    assert store.block is not None
    pointer, value, *mask = store.operands
    operands = [pointer, value, _buffer(value, nest), *mask]
    if mask and _may_change(mask[0]):
        kept = _buffer(mask[0], nest)
        store.block.insert(Op.create("cpu.write", (mask[0], kept), location=store.location), store)
        operands.append(kept)
    guarded = Op.create("cpu.store", operands, (), dict(store.attributes), location=store.location)
    store.block.insert(guarded, store)
    store.erase()


def _buffer(value: Value, nest: Op) -> Value:
    assert nest.block is not None
    assert isinstance(value.type, TensorType)
    alloc = Op.create("cpu.alloc", (), (buffer_type(value.type),), location=nest.location)
    return nest.block.insert(alloc, nest).result


def _may_change(mask: Value) -> bool:
    """Does `mask` depend on memory or on a reduction, so that it is not the same any more after the nest?"""
    return is_tile(mask) and any(op.name in LOADS or op.name in ROOTS for op in makers(mask))
