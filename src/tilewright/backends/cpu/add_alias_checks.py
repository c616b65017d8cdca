"""Stores of a nest that might overlap other memory that the nest touches get a buffer to fall back to.

    cpu.nest { %x = tt.load %p        →    %b = cpu.alloc
               tt.store %q, %x }           cpu.nest { %x = tt.load %p ; cpu.store %q, %x, %b }

A nest interleaves its loads and stores. When the addresses show at run time that the tile at %q overlaps the tile
at %p without being the same tile, or that elements of it have one address, the store goes to the buffer, and the
buffer is copied to %q after the nest. A mask that is computed from loads is kept for that copy too.
"""

from __future__ import annotations

from tilewright.backends.cpu.alignment import asked_for
from tilewright.backends.cpu.costs import LOADS, SINKS, is_tile, makers
from tilewright.backends.cpu.strides import may_repeat
from tilewright.dialects.cpu import Nest, buffer_type
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Block, Op, Value, tile_type


def add_alias_checks(module: Op) -> None:
    """Give a buffer to each store of tiles that shares its nest with a load or store at another pointer."""
    for nest in [op for op in module.walk() if isinstance(op, Nest)]:
        stores = [op for op in nest.body if isinstance(op, Store) and is_tile(op.pointer)]
        for store in stores if stores and _may_interfere(nest.body, stores) else ():
            _guard(store, nest)


def _may_interfere(body: Block, stores: list[Store]) -> bool:
    """Whether there are two pointers, or an address is loaded at one index and stored at another."""
    accesses = [op.pointer for op in body if isinstance(op, (Load, Store))]
    if len(set(accesses)) > 1 or (len(accesses) > 1 and may_repeat(accesses[0])):
        return True
    sinks = [op for op in body if isinstance(op, SINKS)]
    return any(isinstance(op, Load) and not straight for sink in sinks for op, straight in asked_for(sink))


def _guard(store: Store, nest: Nest) -> None:
    assert store.block is not None
    mask = store.mask
    operands = [store.pointer, store.value, _buffer(store.value, nest)]
    if mask is not None:
        operands.append(mask)
    if mask is not None and _may_change(mask):
        kept = _buffer(mask, nest)
        store.block.insert(Op.create("cpu.write", (mask, kept), location=store.location), store)
        operands.append(kept)
    guarded = Op.create("cpu.store", operands, (), dict(store.attributes), location=store.location)
    store.block.insert(guarded, store)
    store.erase()


def _buffer(value: Value, nest: Nest) -> Value:
    assert nest.block is not None
    alloc = Op.create("cpu.alloc", (), (buffer_type(tile_type(value)),), location=nest.location)
    return nest.block.insert(alloc, nest).result


def _may_change(mask: Value) -> bool:
    """Whether `mask` depends on memory or on a reduction, so that it is not the same any more after the nest."""
    return is_tile(mask) and any(isinstance(op, (*LOADS, *SINKS)) for op in makers(mask))
