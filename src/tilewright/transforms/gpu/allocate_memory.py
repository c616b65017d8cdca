"""Memory allocation: writes into each op its offset in shared, tensor, and global scratch memory.

%a = ttg.local_alloc {allocation.offset = 0 : i32} : …       module attributes {ttg.shared = 1024 : i32}
%m = ttng.tmem_alloc {tensor_memory_col_offset = 0 : i32, tensor_memory_row_offset = 0 : i32} : …
    module attributes {ttg.tensor_memory_size = 128 : i32}        columns, rounded up to the unit of allocation
%g = ttg.global_scratch_alloc {nbytes = 128, alignment = 128}       {ttg.global_scratch_memory_offset = 0 : i32}

A buffer in tensor memory has all rows of its columns. The hardware writes the address of a program's tensor memory to
shared memory, so a program that uses tensor memory has some shared memory. A launch gives every program
`ttg.global_scratch_memory_size` bytes of global memory; a called function gets a part of its caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.analysis.buffer_aliases import CARRIERS
from tilewright.analysis.live_ranges import Interval, LiveRanges
from tilewright.analysis.placement import Request, place
from tilewright.analysis.scratch_memory import scratch_bytes
from tilewright.analysis.shared_memory import ScratchSize, allocate, run_together
from tilewright.analysis.value_flow import Edge, flow_edges, propagate
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.ttg_attributes import OFFSET, SHARED_BYTES, TENSOR_MEMORY_COLUMNS
from tilewright.dialects.ttg_memory import MemDescView
from tilewright.dialects.ttg_program import GlobalScratchAlloc
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemSubslice
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Op, buffer_type, integer_in
from tilewright.ir.types import i32
from tilewright.layouts.tensor_memory import allocated, tensor_memory_encoding
from tilewright.support.diagnostics import OutOfResources
from tilewright.transforms.functions import function_around, functions_of, is_public


def allocate_shared_memory(module: Op, scratch: ScratchSize = scratch_bytes) -> bool:
    """Place all buffers; each op with one gets `allocation.offset`, the module the total as `ttg.shared`."""
    allocations = allocate(module, scratch)
    for allocation in allocations.values():
        for buffer in allocation.buffers:
            offsets: tuple[Attribute, ...] = tuple(Number(other.offset, i32) for other in allocation.of(buffer.owner))
            buffer.owner.attributes[OFFSET] = offsets if len(offsets) > 1 else offsets[0]
    # What a function needs includes what those that it calls need.
    needs = max((allocation.size for allocation in allocations.values()), default=0)
    module.attributes[SHARED_BYTES] = Number(needs, i32)
    return True


COLUMN_ALIGNMENT = 4
"""The alignment of a buffer in tensor memory, in columns."""
MIN_COLUMNS, MAX_COLUMNS = 32, 512
"""Min and max number of columns that a program can have."""
ADDRESS_BYTES = 4


def allocate_tensor_memory(module: Op) -> bool:
    """Place all buffers in tensor memory, if there are any.

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
    module.attributes[SHARED_BYTES] = Number(max(integer_in(module, SHARED_BYTES) or 0, ADDRESS_BYTES), i32)
    return True


def _allocate(function: Op) -> int:
    """Place the buffers of one function; the columns that it needs."""
    allocations = [op for op in function.walk() if isinstance(op, TmemAlloc)]
    lives = _lives(function, allocations)
    sizes = [columns_of(op) for op in allocations]
    requests = [Request(size, COLUMN_ALIGNMENT, lives[op]) for op, size in zip(allocations, sizes, strict=True)]
    offsets = place(requests, run_together(allocations))
    for op, offset in zip(allocations, offsets, strict=True):
        op.attributes.update(tensor_memory_col_offset=Number(offset, i32), tensor_memory_row_offset=Number(0, i32))
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


def _lives(function: Op, allocations: list[TmemAlloc]) -> dict[TmemAlloc, Interval]:
    """The live range of each buffer, under any of its names."""
    allocations_of = propagate(function.walk(), {op.results[0]: {op} for op in allocations}, _carried)
    ranges = LiveRanges(function)
    lives: dict[TmemAlloc, Interval] = {}
    for value, owners in allocations_of.items():
        live = ranges.of(value)
        for owner in owners:
            lives[owner] = lives[owner].joined(live) if owner in lives else live
    return lives


def _carried(op: Op) -> Iterator[Edge]:
    if isinstance(op, (MemDescView, TmemSubslice)):
        yield op.source, op.result
    elif isinstance(op, CARRIERS):
        yield from flow_edges(op)


def columns_of(op: TmemAlloc) -> int:
    """The columns of tensor memory that the buffer of `op` takes."""
    type = buffer_type(op.results[0])
    _, columns = allocated(tensor_memory_encoding(type.encoding), type.shape, type.element.bits)
    return columns


def free_columns(op: Op) -> int:
    """The columns of tensor memory that the buffers of the function around `op` leave if all are there at once."""
    return MAX_COLUMNS - sum(map(columns_of, function_around(op).ops_of(TmemAlloc)))


SCRATCH_OFFSET = "ttg.global_scratch_memory_offset"
SCRATCH_SIZE, SCRATCH_ALIGNMENT = "ttg.global_scratch_memory_size", "ttg.global_scratch_memory_alignment"


def allocate_global_scratch(module: Op) -> bool:
    """Place all allocations one after the other; functions and the module get their sizes as attributes."""
    functions = {function.symbol: function for function in functions_of(module)}
    if all(SCRATCH_SIZE in op.attributes for op in (module, *functions.values())):
        return False
    for function in functions.values():
        _place(function, functions)
    kernels = [function for function in functions.values() if is_public(function)]
    for name in (SCRATCH_SIZE, SCRATCH_ALIGNMENT):
        module.attributes[name] = Number(max((integer_in(kernel, name) or 0 for kernel in kernels), default=0), i32)
    return True


def _place(function: Op, functions: Mapping[str, Op]) -> None:
    """Place what one function allocates; those that it calls come first."""
    if SCRATCH_SIZE in function.attributes:
        return
    end, most = 0, 1
    for op in function.walk():
        size, alignment = _need(op, functions)
        if size:
            end = -(-end // alignment) * alignment
            op.attributes[SCRATCH_OFFSET] = Number(end, i32)
            end, most = end + size, max(most, alignment)
    function.attributes[SCRATCH_SIZE] = Number(-(-end // most) * most, i32)
    function.attributes[SCRATCH_ALIGNMENT] = Number(most, i32)


def _need(op: Op, functions: Mapping[str, Op]) -> tuple[int, int]:
    """The bytes that an op takes, and what their address is a multiple of."""
    if isinstance(op, GlobalScratchAlloc):
        return op.size, op.alignment
    if not isinstance(op, Call):
        return 0, 1
    callee = functions[op.callee]
    _place(callee, functions)
    return integer_in(callee, SCRATCH_SIZE) or 0, integer_in(callee, SCRATCH_ALIGNMENT) or 1
