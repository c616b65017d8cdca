"""Left operands that a program computes are stored to tensor memory directly, not through shared memory.

    %a = ttg.local_alloc %x : … -> !ttg.memdesc<128x64xf16, #shared, #smem>
    ttng.tc_gen5_mma %a, %b, %d, …

        %y = ttg.convert_layout %x : … -> tensor<128x64xf16, #linear>
        %a = ttng.tmem_alloc %y : … -> !ttg.memdesc<128x64xf16, #tmem, #ttng.tensor_memory>
        ttng.tc_gen5_mma %a, %b, %d, …

The probabilities of attention are such operands: a thread has a row of the scores, and stores it where the product
reads it. A loaded tile is left alone unless its layout fits, since it may be copied to shared memory without registers.
So are operands from outside of the loop, which would occupy tensor memory all the time, and all operands of a function
that has little tensor memory left. In warp-specialized loops, operands reach products through shared memory.
"""

from __future__ import annotations

from tilewright.dialects.ttg_attributes import TENSOR_MEMORY
from tilewright.dialects.ttg_memory import LocalAlloc
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.dialects.ttng_mma import TensorCoreMma, TensorCoreMmaScaled
from tilewright.ir.core import Op, buffer_type, defining, tile_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import TensorMemory, encoding
from tilewright.layouts.tensor_memory import allocated, compatible_layouts
from tilewright.transforms.gpu.allocate_memory import free_columns
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tensor_memory_accumulators import is_divided
from tilewright.transforms.gpu.tile_ops import TileOps, distributed_of, workers_of
from tilewright.transforms.matching import has_one_use

ROWS = (64, 128)
"""The rows of the instructions, each of which reads a left factor of as many."""
BITS = (8, 16)
"""The sizes of elements that lie in tensor memory as in registers: four or two in a column."""
PACKED = "e2m1"
"""The type of elements that shared memory holds in another way if the other factor has other ones."""


def promote_lhs_to_tmem(module: Op) -> bool:
    """Put left operands that `module` computes into tensor memory; returns whether there were any."""
    found = False
    for product in [op for op in module.walk() if isinstance(op, TensorCoreMma)]:
        found |= not is_divided(product) and _promote(product)
    return found


def _promote(product: TensorCoreMma) -> bool:
    alloc = defining(product.a, LocalAlloc)
    if alloc is None or alloc.source is None or not _may_be_promoted(alloc, product):
        return False
    tile = tile_type(alloc.source)
    memory = TensorMemory(tile.shape[0], tile.shape[1], column_stride=1)
    if allocated(memory, tile.shape, tile.bits)[1] > free_columns(product):
        return False
    layouts = compatible_layouts(memory, tile.shape, bits=tile.bits, warps=warps_of(product))
    held = to_linear_layout(distributed_of(alloc.source), tile.shape)
    fits = any(to_linear_layout(layout, tile.shape) == held for layout in layouts)
    if not layouts or not (fits or _is_computed(alloc)):
        return False
    at = TileOps(alloc)
    source = alloc.source if fits else at.converted(alloc.source, layouts[0])
    type = MemDescType(tile.shape, tile.element, memory.text, TENSOR_MEMORY)
    alloc.replace([at.emit("ttng.tmem_alloc", (source,), type)])
    return True


def _may_be_promoted(alloc: LocalAlloc, product: TensorCoreMma) -> bool:
    """Whether `product` alone reads the buffer of `alloc`, as it lies there, and hardware has such products."""
    tile = buffer_type(alloc.result)
    is_packed = isinstance(product, TensorCoreMmaScaled) and product.a_type == PACKED
    is_plain = not is_packed and workers_of(product).ctas == 1
    is_alone = has_one_use(alloc.result) and alloc.block is product.block
    sums = encoding(buffer_type(product.accumulator).encoding)
    has_rows = len(tile.shape) == 2 and tile.shape[0] in ROWS and tile.element.bits in BITS
    return is_plain and is_alone and has_rows and isinstance(sums, TensorMemory) and sums.block_m == tile.shape[0]


def _is_computed(alloc: LocalAlloc) -> bool:
    source = alloc.source.op if alloc.source is not None else None
    return source is not None and not isinstance(source, LOADS)
