"""The offset of each buffer of a kernel in shared memory.

    %a = ttg.local_alloc : () -> !ttg.memdesc<32x16xf16, …>     offset 0, 1024 bytes
    ttg.local_dealloc %a
    %b = ttg.local_alloc : () -> !ttg.memdesc<16x16xf16, …>     offset 0, 512 bytes: %a is dead

Three kinds of buffers: explicit ones (`ttg.local_alloc`), the scratch memory that single ops need while they run
(`scratch_memory`), and for every call what the callee needs. A buffer lives as long as any of its names
(`buffer_aliases`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from tilewright.analysis.buffer_aliases import allocations_of, is_in_shared_memory
from tilewright.analysis.live_ranges import Interval, LiveRanges
from tilewright.analysis.placement import FOREVER, Request, place
from tilewright.analysis.scratch_memory import scratch_bytes
from tilewright.analysis.value_flow import callees_first
from tilewright.dialects.rules import number
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.ttg_memory import LocalAlloc
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, partition_warps
from tilewright.ir.core import Op, Region, Value
from tilewright.ir.types import MemDescType
from tilewright.layouts.encodings import Encoding, PartitionedShared, Shared, encoding
from tilewright.layouts.queries import padded_elements, stored_shape
from tilewright.support.named_tuple import NamedTuple

SCRATCH_ALIGNMENT = 128
CAPTURE_ALIGNMENT = 8
CTAS = "ttg.num-ctas"
MEETING_BYTES = 8
"""The size of an mbarrier, in bytes."""


class SharedBuffer(NamedTuple):
    """One buffer.

    Attributes:
        kind: `explicit`, `scratch` or `virtual` (of a call).
        owner: the op that makes it, or that needs it.
        size: in bytes.
        alignment: in bytes.
        offset: where it starts.
    """

    kind: str
    owner: Op
    size: int
    alignment: int
    offset: int = 0

    @property
    def span(self) -> Interval:
        """The bytes that it takes."""
        return Interval(self.offset, self.offset + self.size)


class Allocation:
    """The shared memory of one function.

    Attributes:
        function: the function.
        buffers: all buffers, explicit ones first, each kind in program order.
        size: the bytes that the function needs, calls included.
        names: per memory descriptor the places in `buffers` of what it may name.
    """

    def __init__(self, function: Op, callees: Mapping[Func, Allocation], scratch: ScratchSize = scratch_bytes) -> None:
        self.function = function
        wanted = list(_wanted(function, callees, scratch))
        order = ("explicit", "scratch", "virtual")
        wanted.sort(key=lambda buffer: order.index(buffer.kind))
        self.names = _names(function, wanted)
        offsets = place(_requests(function, wanted, self.names), run_together([buffer.owner for buffer in wanted]))
        self.buffers = [buffer._replace(offset=offset) for buffer, offset in zip(wanted, offsets, strict=True)]
        self.size = max((buffer.span.end for buffer in self.buffers), default=0)
        self._of_op: dict[Op, list[SharedBuffer]] = {}
        for buffer in self.buffers:
            self._of_op.setdefault(buffer.owner, []).append(buffer)

    def of(self, op: Op) -> list[SharedBuffer]:
        """The buffers that `op` makes or needs."""
        return self._of_op.get(op, [])

    def named_by(self, value: Value) -> list[SharedBuffer]:
        """The explicit buffers that memory descriptor `value` may name."""
        return [self.buffers[index] for index in sorted(self.names.get(value, ()))]


ScratchSize = Callable[[Op], int]


def allocate(module: Op, scratch: ScratchSize = scratch_bytes) -> dict[Func, Allocation]:
    """The shared memory of every function of `module`, also of modules inside; a function after those that it calls.

    Of a function that calls itself the calls inside need nothing.
    """
    found: dict[Func, Allocation] = {}
    for function in callees_first(module)[0]:
        found[function] = Allocation(function, found, scratch)
    return found


def allocation_remarks(module: Op) -> Iterator[tuple[Op, str]]:
    """The facts about the shared memory of each function, in the words of Triton's `-test-print-allocation`."""
    for function, allocation in allocate(module).items():
        yield function, function.symbol
        for buffer in allocation.buffers:
            prefix = "" if buffer.kind == "explicit" else f"{buffer.kind} "
            yield buffer.owner, f"{prefix}offset = {buffer.offset}, size = {buffer.size}"
        yield function, f"size = {allocation.size}"


# Sizes


def _wanted(function: Op, callees: Mapping[Func, Allocation], scratch: ScratchSize) -> Iterator[SharedBuffer]:
    """The buffers of `function`, not placed yet, in program order."""
    for op in function.walk():
        if isinstance(op, LocalAlloc):
            yield from _explicit(op)
        elif isinstance(op, Call):
            callee = callees.get(op.function) if op.function is not None else None
            if callee is not None and callee.size:
                yield SharedBuffer("virtual", op, callee.size, SCRATCH_ALIGNMENT)
        elif op is function:
            yield from _of_groups(op)
        elif size := scratch(op):
            alignment = CAPTURE_ALIGNMENT if isinstance(op, WarpSpecialize) else SCRATCH_ALIGNMENT
            yield SharedBuffer("scratch", op, size, alignment)


def _of_groups(function: Op) -> Iterator[SharedBuffer]:
    """A byte for each warp that waits for work, and in clusters an mbarrier for each warp group behind them."""
    warps = [partition_warps(op) for op in function.walk() if isinstance(op, WarpSpecialize)]
    size, groups = max(map(sum, warps), default=0), 1 + max(map(len, warps), default=0)
    if size and _ctas_of(function) > 1:
        yield SharedBuffer("scratch", function, first_meeting(size) + MEETING_BYTES * groups, MEETING_BYTES)
    elif size:
        yield SharedBuffer("scratch", function, size, 4)


def _ctas_of(function: Op) -> int:
    """The number of CTAs that share the tiles of a function."""
    module = function.parent
    return number(module, CTAS) if module is not None and CTAS in module.attributes else 1


def first_meeting(waiting: int) -> int:
    """The offset of a function's mbarriers for barriers of warp groups; `waiting` warps wait for work."""
    return -(-waiting // MEETING_BYTES) * MEETING_BYTES


def _explicit(op: LocalAlloc) -> Iterator[SharedBuffer]:
    type = op.result.type
    if not isinstance(type, MemDescType) or not is_in_shared_memory(op.result):
        return
    layout = encoding(type.encoding)
    alignment = op.alignment or _alignment(layout)
    parts = layout.num_partitions if isinstance(layout, PartitionedShared) else 1
    size = buffer_bytes(type, layout) // parts
    for _ in range(parts):
        yield SharedBuffer("explicit", op, size, alignment)


def _alignment(layout: Encoding) -> int:
    return layout.alignment if isinstance(layout, Shared) else 16


def buffer_bytes(type: MemDescType, layout: Encoding) -> int:
    """The bytes that one CTA's part of a buffer of `type` takes, holes of padded layouts included."""
    elements = padded_elements(layout, type.shape) or prod(stored_shape(layout, type.shape))
    return elements * max(8, type.element.bits) // 8


# Names and lives


def _names(function: Op, buffers: list[SharedBuffer]) -> dict[Value, set[int]]:
    parts: dict[Op, list[int]] = {}
    for index, buffer in enumerate(buffers):
        if buffer.kind == "explicit":
            parts.setdefault(buffer.owner, []).append(index)
    found = allocations_of(function)
    return {value: {index for op in allocations for index in parts[op]} for value, allocations in found.items()}


def _requests(function: Op, buffers: list[SharedBuffer], names: dict[Value, set[int]]) -> list[Request]:
    lives = LiveRanges(function)
    spans: dict[int, Interval] = {}
    for value, held in names.items():
        for index in held:
            live = lives.of(value)
            spans[index] = spans[index].joined(live) if index in spans else live
    for index, buffer in enumerate(buffers):
        if buffer.owner is function:
            spans[index] = Interval(0, FOREVER)
        elif buffer.kind != "explicit":
            number = lives.number[buffer.owner]
            spans[index] = Interval(number, number + 1)
    return [Request(buffer.size, buffer.alignment, spans[index]) for index, buffer in enumerate(buffers)]


def run_together(owners: Sequence[Op]) -> Callable[[int, int], bool]:
    """Whether two of the ops that have memory are of different partitions of one `ttg.warp_specialize`.

    Partitions run at the same time. What they capture is read when they begin, while others may be further on.
    """
    places = [_partition(owner) for owner in owners]

    def together(a: int, b: int) -> bool:
        (first, region), (second, other) = places[a], places[b]
        if first is not None and first is second:
            return region is not other
        return owners[a] is second is not None or owners[b] is first is not None

    return together


def _partition(op: Op) -> tuple[Op | None, Region | None]:
    """The `ttg.warp_specialize` around `op`, and the region that `op` stands in."""
    around = op.parent
    while around is not None and not isinstance(around, WarpSpecialize):
        around = around.parent
    return around, op.block.region if op.block is not None else None
