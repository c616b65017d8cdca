"""The copies behind a nest whose stores may have gone to buffers, as the loops would have disturbed each other.

if %overlaps:  for each store: copy its buffer to where it belongs, in program order
"""

from __future__ import annotations

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import Index, Lane, Offsets, Uniform
from tilewright.backends.cpu.nest.loads import read_buffer
from tilewright.backends.cpu.nest.stores import write
from tilewright.dialects.cpu import GuardedStore, tile_of
from tilewright.ir.core import Value, tile_type


def copy_back(c: Context, stores: list[GuardedStore]) -> None:
    """After the nest: where stores were redirected, copy each buffer to where it belongs, one store after the other."""
    redirected = c.redirected
    assert redirected is not None
    c.redirected = None
    with c.b.branch(redirected, unlikely=True) as branch, branch.then():
        for store in stores:
            _copy(c, store)
    c.redirected = redirected


def _copy(c: Context, store: GuardedStore) -> None:
    """Copy element by element: it is rare, and this is short."""
    tile, buffer = tile_type(store.value), store.buffer
    lanes, extent, lane_level, position = c.lanes, c.extent, c.lane_level, c.position
    c.lanes, c.extent, c.lane_level = 1, 1, 1
    c.forget(0)
    with c.b.loop(0, tile.numel) as loop:
        c.depth = 1
        c.blocks.append(c.b.block)
        index = _index_of(c, loop.index, tile.shape)
        read = read_buffer(c, c.buffer(buffer), tile_of(buffer.type), index)
        lane = _mask(c, store, index)
        write(c, evaluate(c, store.pointer, index), read, lane, tile.element)()
    c.blocks.pop()
    c.depth = 0
    c.forget(0)
    c.lanes, c.extent, c.lane_level, c.position = lanes, extent, lane_level, position


def _mask(c: Context, store: GuardedStore, index: Index) -> Lane | None:
    """The mask of `store`, from the buffer that keeps it if it may have changed."""
    kept = store.kept_mask
    if kept is None:
        return None if store.mask is None else evaluate(c, store.mask, index)
    return read_buffer(c, c.buffer(kept), tile_of(kept.type), index)


def _index_of(c: Context, linear: Value, shape: tuple[int, ...]) -> Index:
    found: list[Offsets] = []
    rest: Offsets = Uniform(linear, 1)
    for extent in reversed(shape[1:]):
        rest, low = c.divided(rest, extent)
        found.append(low)
    return (rest, *reversed(found))
