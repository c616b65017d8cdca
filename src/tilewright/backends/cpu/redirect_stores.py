"""Stores get one of two places: their own, or a buffer where the loops of their nest would disturb each other.

    "cpu.nest"(%overlaps) … {                    "cpu.nest"() … {
      "cpu.store"(%p, %x, %buffer, %mask)          %to = "cpu.redirect"(%overlaps, %buffer, %p)
    }                                        →     tt.store %to, %x, %mask
                                                 }
                                                 scf.if %overlaps {
                                                   "cpu.nest"() … { tt.store %p, "cpu.read"(%buffer), %mask } }

Each buffer is copied to where it belongs, one store after the other, in program order. It is rare, and this is short.
"""

from __future__ import annotations

from tilewright.backends.cpu.costs import SINKS
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.dialects.cpu import Clip, GuardedStore, Nest, tile_of
from tilewright.ir.attributes import Attribute, DenseArray, Keyword
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.declare import OPS
from tilewright.ir.types import i64


def redirect_stores(module: Op) -> bool:
    """Choose the places of the guarded stores of `module` (ttcir), and put copies behind their nests.

    Returns whether there is one.
    """
    nests = [op for op in module.walk() if isinstance(op, Nest) and op.overlaps is not None]
    for nest in nests:
        assert nest.block is not None, "it stands in a function"
        assert nest.overlaps is not None, "it says when to use buffers"
        b = LoopBuilder(Block())
        stores = [op for op in nest.body if isinstance(op, GuardedStore)]
        with b.branch(nest.overlaps, unlikely=True) as branch, branch.then():
            for number in range(len(stores)):
                b.append(_copy(nest, number))
        nest.block.splice(b.block, nest.next)
        for store in stores:
            _redirect(store, nest.overlaps)
        nest.set_operands(())
    return bool(nests)


def _copy(nest: Nest, number: int) -> Op:
    """A nest that does a store of `nest`, that after `number` others, from its buffer.

    A mask that the stores may have changed comes from the buffer that keeps it.
    """
    region = Region()
    nest.region.clone_into(region, {}, {})
    body, ops = region.block, list(region.block)
    store = [op for op in ops if isinstance(op, GuardedStore)][number]
    mask, kept = store.mask, store.kept_mask
    tile = _read(store, store.buffer)
    masks = [] if mask is None else [mask if kept is None else _read(store, kept)]
    _store(store, store.pointer, tile, *masks)
    body.terminator.set_operands(())
    for op in reversed(ops[:-1]):
        if isinstance(op, (Clip, *SINKS)) or not any(result.uses for result in op.results):
            op.erase()
    outer = DenseArray(i64, tile_type(tile).shape[:-1])
    attributes: dict[str, Attribute] = {"mode": Keyword("rows"), "outer": outer, "optimize_size": True}
    return Op(OPS["cpu.nest"], (), (), attributes, [region], (), nest.location)


def _read(store: GuardedStore, buffer: Value) -> Value:
    """The tile in `buffer`, in front of `store`."""
    assert store.block is not None, "it stands in a nest"
    read = Op(OPS["cpu.read"], (buffer,), (tile_of(buffer.type),), None, (), (), store.location)
    return store.block.insert(read, store).results[0]


def _redirect(store: GuardedStore, overlaps: Value) -> None:
    """Let `store` go to its buffer where `overlaps` holds, else to its own place."""
    assert store.block is not None, "it stands in a nest"
    pointer, mask = store.pointer, store.mask
    choice = Op(OPS["cpu.redirect"], (overlaps, store.buffer, pointer), (pointer.type,), None, (), (), store.location)
    _store(store, store.block.insert(choice, store).results[0], store.value, *([] if mask is None else [mask]))
    store.erase()


def _store(guarded: GuardedStore, *operands: Value) -> None:
    """An ordinary store in front of a guarded one."""
    assert guarded.block is not None, "it stands in a nest"
    guarded.block.insert(Op(OPS["tt.store"], operands, (), guarded.attributes, (), (), guarded.location), guarded)
