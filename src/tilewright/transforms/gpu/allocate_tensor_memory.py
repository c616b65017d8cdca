"""Write into each allocation in tensor memory where it is.

%m = ttng.tmem_alloc {tensor_memory_col_offset = 0 : i32, tensor_memory_row_offset = 0 : i32} : …

    module attributes {ttg.tensor_memory_size = 128 : i32}        columns, as many as the hardware deals out at once

A buffer has all rows of its columns. The hardware writes to shared memory where a program's part begins, so a program
that uses tensor memory has some shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.buffer_aliases import CARRIERS
from tilewright.analysis.live_ranges import Interval, LiveRanges
from tilewright.analysis.placement import Request, place
from tilewright.analysis.value_flow import Edge, flow_edges, propagate
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttg_attributes import SHARED_BYTES, TENSOR_MEMORY_COLUMNS
from tilewright.dialects.ttg_memory import MemDescView
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemSubslice
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, buffer_type
from tilewright.ir.types import i32
from tilewright.layouts.encodings import TensorMemory, TensorMemoryScales, encoding
from tilewright.layouts.tensor_memory import allocated
from tilewright.support.diagnostics import OutOfResources

ALIGNMENT = 4
"""The alignment of a buffer in tensor memory, in columns."""
MIN_COLUMNS, MAX_COLUMNS = 32, 512
"""Min and max number of columns that a program can have."""
ADDRESS_BYTES = 4


def allocate_tensor_memory(module: Op) -> bool:
    """Place all buffers in tensor memory.

    Returns:
        False: there are none.

    Raises:
        OutOfResources: there is not enough tensor memory.
    """
    allocations = [op for op in module.walk() if isinstance(op, TmemAlloc)]
    if not allocations:
        return False
    needed = 0
    for function in [op for op in module.walk() if isinstance(op, Func)]:
        needed = max(needed, _allocate(function))
    if needed > MAX_COLUMNS:
        raise OutOfResources(needed, MAX_COLUMNS, "tensor memory")
    dealt_out = max(MIN_COLUMNS, 1 << (needed - 1).bit_length())
    module.attributes[TENSOR_MEMORY_COLUMNS] = Number(dealt_out, i32)
    shared = module.attributes.get(SHARED_BYTES)
    used = int(shared.value) if isinstance(shared, Number) else 0
    module.attributes[SHARED_BYTES] = Number(max(used, ADDRESS_BYTES), i32)
    return True


def _allocate(function: Op) -> int:
    """Place the buffers of one function; the columns that it needs."""
    allocations = [op for op in function.walk() if isinstance(op, TmemAlloc)]
    lives = _lives(function, allocations)
    sizes = [_columns(op) for op in allocations]
    requests = [Request(size, ALIGNMENT, lives[op]) for op, size in zip(allocations, sizes, strict=True)]
    offsets = place(requests)
    for op, offset in zip(allocations, offsets, strict=True):
        op.attributes.update(tensor_memory_col_offset=Number(offset, i32), tensor_memory_row_offset=Number(0, i32))
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


def _lives(function: Op, allocations: list[TmemAlloc]) -> dict[TmemAlloc, Interval]:
    """The live range of each buffer, under any of its names."""
    behind = propagate(function.walk(), {op.results[0]: {op} for op in allocations}, _carried)
    ranges = LiveRanges(function)
    lives: dict[TmemAlloc, Interval] = {}
    for value, owners in behind.items():
        live = ranges.of(value)
        for owner in owners:
            lives[owner] = lives[owner].joined(live) if owner in lives else live
    return lives


def _carried(op: Op) -> Iterator[Edge]:
    if isinstance(op, (MemDescView, TmemSubslice)):
        yield op.source, op.result
    elif isinstance(op, CARRIERS):
        yield from flow_edges(op)


def _columns(op: TmemAlloc) -> int:
    type = buffer_type(op.results[0])
    layout = encoding(type.encoding)
    assert isinstance(layout, TensorMemory | TensorMemoryScales), "a buffer in tensor memory"
    _, columns = allocated(layout, type.shape, type.element.bits)
    return columns
