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

from tilewright.dialects.scf import For
from tilewright.dialects.traits import Atomic, Loop
from tilewright.dialects.tt_descriptors import BlockWrite, DescriptorReduce, DescriptorScatter, DescriptorWrite
from tilewright.ir.attributes import UNIT, Attribute, Keyword, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Value, tile_type
from tilewright.ir.types import MemDescType, TensorType, Type, i32
from tilewright.transforms.gpu.pipelining.descriptors import lower_descriptors
from tilewright.transforms.gpu.pipelining.schedule import Schedule
from tilewright.transforms.gpu.pipelining.writer import Writer
from tilewright.transforms.gpu.tma_lowering import Lowering, buffer_layout, wide_rows

STAGES = 3
"""The number of stages assumed for the loop: two descriptors are used in turn."""


def pipeline_stores(loop: Loop) -> None:
    """Let the stores by descriptor in `loop`, but not in loops inside, run on."""
    stores = _stores(loop.regions[-1].block)
    if not stores or any(isinstance(op, Atomic) and op.sem != "relaxed" for op in loop.walk()):
        return
    makes_descriptors = any(store.descriptor.op is not None for store in stores)
    buffers: dict[tuple[object, Type], Value] = {}
    for store in stores:
        tile = tile_type(store.value)
        key = tile.shape, tile.element
        if key not in buffers:
            buffers[key] = _buffer(loop, store, tile)
        _store(store, buffers[key])
    behind = Writer.behind(loop)
    behind.op("ttng.async_tma_store_wait", (), (), {"pendings": Number(0, i32)})
    for buffer in buffers.values():
        behind.op("ttg.local_dealloc", [[buffer]])
    if makes_descriptors and isinstance(loop, For):
        lower_descriptors(loop, Schedule(STAGES))


def _stores(block: Block) -> list[DescriptorWrite]:
    found = []
    for op in block:
        if isinstance(op, DescriptorWrite):
            found.append(op)
        elif not isinstance(op, Loop):
            found += [store for region in op.regions for inner in region.blocks for store in _stores(inner)]
    return found


def _buffer(loop: Loop, store: DescriptorWrite, tile: TensorType) -> Value:
    layout = buffer_layout(store.descriptor.type, tile)
    type = MemDescType(tile.shape, tile.element, layout.text, mutable=True)
    return Writer(loop).op("ttg.local_alloc", [[]], (type,)).result


def _store(store: DescriptorWrite, buffer: Value) -> None:
    at, descriptor = Writer(store), store.descriptor
    at.op("ttng.async_tma_store_wait", (), (), {"pendings": Number(0, i32), "read_only": UNIT})
    at.op("ttg.local_store", [[store.value], [buffer]])
    at.op("ttng.fence_async_shared", (), (), {"bCluster": False})
    if isinstance(store, DescriptorReduce):
        attributes: dict[str, Attribute] = {"kind": Keyword(store.operation)}
        at.op("ttng.async_tma_reduce", [[descriptor], store.indices, [buffer]], (), attributes)
    elif isinstance(store, BlockWrite):
        at.op("ttng.async_tma_copy_local_to_global", [[descriptor], store.indices, [buffer]])
    elif isinstance(store, DescriptorScatter):
        assert store.block is not None, "a store is in a loop"
        rows = wide_rows(Lowering(store, ConstantPool(store.block)), store.rows)
        at.op("ttng.async_tma_scatter", [[descriptor], [rows], [store.column], [buffer]])
    store.erase()
