"""Stores by descriptor in a loop run on while the loop goes ahead.

    scf.for … {                                    %b = ttg.local_alloc
      tt.descriptor_store %d[%i], %x        ->     scf.for … {
    }                                                ttng.async_tma_store_wait {pendings = 0, read_only}
                                                     ttg.local_store %x, %b
                                                     ttng.fence_async_shared
                                                     ttng.async_tma_copy_local_to_global %d[%i] %b
                                                   }
                                                   ttng.async_tma_store_wait {pendings = 0}

The buffer may be written again as soon as the store before has read it. Stores of tiles of one type share a buffer.
"""

from __future__ import annotations

from tilewright.ir.attributes import UNIT, Keyword, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import MemDescType, TensorType, Type, i32
from tilewright.transforms.gpu.pipelining.descriptors import lower_descriptors
from tilewright.transforms.gpu.pipelining.schedule import Schedule
from tilewright.transforms.gpu.pipelining.writer import Writer
from tilewright.transforms.gpu.tma_lowering import Lowering, buffer_layout, wide_rows

STORES = frozenset(("tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter"))
LOOPS = ("scf.for", "scf.while")
ATOMICS = frozenset(("tt.atomic_rmw", "tt.atomic_cas"))
STAGES = 3
"""As if the loop had so many: two descriptors are used in turn."""


def pipeline_stores(loop: Op) -> None:
    """Let the stores by descriptor in `loop`, but not in loops inside, run on."""
    stores = _stores(loop.regions[-1].block)
    if not stores or any(op.name in ATOMICS and op.attributes["sem"] != Keyword("relaxed") for op in loop.walk()):
        return
    makes_descriptors = any(store.operands[0].op is not None for store in stores)
    buffers: dict[tuple[object, Type], Value] = {}
    for store in stores:
        tile = store.operands[-1].type
        assert isinstance(tile, TensorType), "a tile is stored"
        key = tile.shape, tile.element
        if key not in buffers:
            buffers[key] = _buffer(loop, store, tile)
        _store(store, buffers[key])
    behind = Writer.behind(loop)
    behind.op("ttng.async_tma_store_wait", (), (), {"pendings": Number(0, i32)})
    for buffer in buffers.values():
        behind.op("ttg.local_dealloc", [[buffer]])
    if makes_descriptors and loop.name == "scf.for":
        lower_descriptors(loop, Schedule(STAGES))


def _stores(block: Block) -> list[Op]:
    found = []
    for op in block:
        if op.name in STORES:
            found.append(op)
        elif op.name not in LOOPS:
            found += [store for region in op.regions for inner in region.blocks for store in _stores(inner)]
    return found


def _buffer(loop: Op, store: Op, tile: TensorType) -> Value:
    layout = buffer_layout(store.operands[0].type, tile)
    type = MemDescType(tile.shape, tile.element, layout.text, mutable=True)
    return Writer(loop).op("ttg.local_alloc", [[]], (type,)).result


def _store(store: Op, buffer: Value) -> None:
    at = Writer(store)
    descriptor, *place, tile = store.operands
    at.op("ttng.async_tma_store_wait", (), (), {"pendings": Number(0, i32), "read_only": UNIT})
    at.op("ttg.local_store", [[tile], [buffer]])
    at.op("ttng.fence_async_shared", (), (), {"bCluster": False})
    if store.name == "tt.descriptor_store":
        at.op("ttng.async_tma_copy_local_to_global", [[descriptor], place, [buffer]])
    elif store.name == "tt.descriptor_reduce":
        attributes = {"kind": store.attributes["kind"]}
        at.op("ttng.async_tma_reduce", [[descriptor], place, [buffer]], (), attributes)
    else:
        assert store.block is not None, "a store is in a loop"
        rows = wide_rows(Lowering(store, ConstantPool(store.block)), place[0])
        at.op("ttng.async_tma_scatter", [[descriptor], [rows], place[1:], [buffer]])
    store.erase()
