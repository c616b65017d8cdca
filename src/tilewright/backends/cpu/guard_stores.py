"""Stores of a nest that might overlap other memory that the nest touches get a buffer to fall back to.

    cpu.nest { %x = tt.load %p        →    %b = cpu.alloc
               tt.store %q, %x }           cpu.nest { %x = tt.load %p ; cpu.store %q, %x, %b }

A nest interleaves its loads and stores. When the addresses show at run time that the tile at %q overlaps the tile
at %p without being the same tile, the store goes to the buffer, and the buffer is copied to %q after the nest.
"""

from __future__ import annotations

from tilewright.dialects.cpu import buffer_type
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType


def guard_stores(module: Op) -> None:
    """Give a buffer to each store of tiles that shares its nest with a load or store at another pointer."""
    for nest in [op for op in module.walk() if op.name == "cpu.nest"]:
        body = nest.regions[0].block
        stores = [op for op in body if op.name == "tt.store" and isinstance(op.operands[0].type, TensorType)]
        pointers: set[Value] = {op.operands[0] for op in body if op.name in ("tt.load", "tt.store")}
        for store in stores if len(pointers) > 1 else ():
            _guard(store, nest)


def _guard(store: Op, nest: Op) -> None:
    assert nest.block is not None
    assert store.block is not None
    tile = store.operands[1].type
    assert isinstance(tile, TensorType)
    buffer = nest.block.insert(Op.create("cpu.alloc", (), (buffer_type(tile),), location=store.location), nest)
    pointer, value, *mask = store.operands
    operands = [pointer, value, buffer.result, *mask]
    guarded = Op.create("cpu.store", operands, (), dict(store.attributes), location=store.location)
    store.block.insert(guarded, store)
    store.erase()
