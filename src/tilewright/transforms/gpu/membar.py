"""Barriers between accesses to the same bytes of shared memory by different warps.

    ttg.local_store %x, %a
    ttg.barrier local                 %a is complete for every warp
    %y = ttg.local_load %a

The pass walks the program, through loops and branches, with the set of accesses that no barrier has separated yet.
Before a read after a write, a write after a read, or a write after a write of the same bytes it inserts a barrier,
which clears the set. Two buffers conflict when their ranges in shared memory overlap, not when they are the same value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tilewright.analysis.buffer_aliases import BARRIER_OPS, TMA_LOADS, WAITS, shared_accesses, synchronizes
from tilewright.analysis.gather_distance import linear_layout_of
from tilewright.analysis.live_ranges import Interval
from tilewright.analysis.scratch_memory import scratch_bytes
from tilewright.analysis.shared_memory import Allocation, ScratchSize, SharedBuffer, allocate
from tilewright.dialects.scf import Condition, For, If, While, Yield
from tilewright.dialects.tt_function import Call, Return, called_function
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescIndex, MemDescSubslice, MemDescView
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions, WarpYield
from tilewright.dialects.ttng_barriers import ArriveBarrier, WaitBarrier
from tilewright.dialects.ttng_mma import TensorCoreMma, WarpGroupDot, WarpGroupDotWait
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Block, Op, Value, buffer_type, typed
from tilewright.ir.types import MemDescType
from tilewright.transforms.matching import integer_of

COUNTING = (WaitBarrier, ArriveBarrier)
"""Ops on what a barrier counts."""


class Slice(NamedTuple):
    """Bytes of shared memory, and the part of the buffer there if it is known.

    Attributes:
        span: the bytes.
        type: the type of the view; None for scratch memory.
        offsets: where the view starts in the buffer, per dimension; () if that is not known.
        stage: for one of several buffers that follow each other: the type of all, and which; None if not known.
        owner: what makes the buffer, where accesses to the same buffer do not matter.
    """

    span: Interval
    type: MemDescType | None = None
    offsets: tuple[int, ...] = ()
    stage: tuple[MemDescType, int] | None = None
    owner: Op | None = None

    def overlaps(self, other: Slice) -> bool:
        """Whether the two may share a byte."""
        is_same = self.owner is not None and self.owner is other.owner
        if is_same or not self.span.overlaps(other.span) or self.is_beside(other):
            return False
        if self.type is None or other.type is None or not self.offsets or not other.offsets:
            return True
        if self.type.encoding != other.type.encoding:
            return True
        sides = zip(self.offsets, self.type.shape, other.offsets, other.type.shape, strict=True)
        return all(a < b + b_size and b < a + a_size for a, a_size, b, b_size in sides)

    def is_beside(self, other: Slice) -> bool:
        """Whether the two are different stages of one buffer."""
        if self.stage is None or other.stage is None or self.span != other.span:
            return False
        return self.stage[0] is other.stage[0] and self.stage[1] != other.stage[1]


Pending: TypeAlias = dict[Slice, frozenset[Op]]


@dataclass
class State:
    """The accesses that no barrier has settled.

    Attributes:
        reads: accesses that read.
        writes: accesses that write.
        running: what products of warp groups read that no wait has ended; a barrier does not settle it.
        from_start: there may have been no barrier since the function began.
    """

    reads: Pending = field(default_factory=dict)
    writes: Pending = field(default_factory=dict)
    running: Pending = field(default_factory=dict)
    from_start: bool = False

    def add(self, where: Slice, op: Op, *, is_write: bool) -> None:
        """Add one more access."""
        held = self.writes if is_write else self.reads
        held[where] = held.get(where, frozenset()) | {op}

    def join(self, other: State) -> None:
        """Add all accesses of `other`."""
        self.from_start |= other.from_start
        pairs = ((self.reads, other.reads), (self.writes, other.writes), (self.running, other.running))
        for mine, theirs in pairs:
            for where, ops in theirs.items():
                mine[where] = mine.get(where, frozenset()) | ops

    def settle(self) -> None:
        """A barrier: everything before has happened."""
        self.reads.clear()
        self.writes.clear()
        self.from_start = False

    def settle_waits(self) -> None:
        """Each warp has signalled that it is past the barriers that it waited for."""
        for held in (self.reads, self.writes):
            left = {where: frozenset(op for op in ops if not isinstance(op, COUNTING)) for where, ops in held.items()}
            held.clear()
            held.update((where, ops) for where, ops in left.items() if ops)

    def copy(self) -> State:
        return State(dict(self.reads), dict(self.writes), dict(self.running), self.from_start)

    def end_products(self) -> None:
        """A warp has waited for its own part of all products: what the others read, a barrier settles from now on."""
        self.join(State(reads=self.running))
        self.running.clear()

    def moved(self, by: int) -> State:
        """The same accesses, `by` bytes higher."""

        def up(held: Pending) -> Pending:
            return {w._replace(span=Interval(w.span.start + by, w.span.end + by)): ops for w, ops in held.items()}

        return State(up(self.reads), up(self.writes))

    def conflicts(self, now: State) -> bool:
        """Whether what happens now must wait for what is pending here."""
        return (
            _conflict(self.writes, now.reads) or _conflict(self.reads, now.writes) or _conflict(self.writes, now.writes)
        )


def _conflict(before: Pending, after: Pending) -> bool:
    return any(
        a.overlaps(b) and any(not _in_order(first, second) for first in before[a] for second in after[b])
        for a in before
        for b in after
    )


def _in_order(before: Op, after: Op) -> bool:
    """Whether the hardware orders the two without a barrier."""
    if isinstance(before, BARRIER_OPS) and isinstance(after, BARRIER_OPS):
        return True
    # The wait is for the load or the product, or for another one that signals a barrier beside.
    return isinstance(before, (*TMA_LOADS, TensorCoreMma)) and isinstance(after, WaitBarrier)


class Calls(NamedTuple):
    """The effects of a function's calls on shared memory.

    Attributes:
        first: accesses that no barrier of the function may precede.
        left: accesses that no barrier of the function may follow.
    """

    first: State
    left: State


Place: TypeAlias = "tuple[Block, Op | None]"
"""Straight-line code: from after the op (None: from the start of the block) to the next op with regions, or the end."""


def membar(module: Op, scratch: ScratchSize = scratch_bytes) -> bool:
    """Insert the barriers that shared memory needs if its buffers are placed as `allocate` does."""
    return run_on_functions(Membar, module, scratch)


def run_on_functions(kind: type[Membar], module: Op, scratch: ScratchSize) -> bool:
    """Run `Membar`, or a pass that is made as it is, on each function; returns whether it inserted anything."""
    calls: dict[Op, Calls] = {}
    inserted = False
    for allocation in allocate(module, scratch).values():  # callees first
        inserted |= kind(allocation, calls).run()
    return inserted


class Membar:
    """The pass over one function; `calls` says what those visited before do, and learns this one's effects."""

    def __init__(self, allocation: Allocation, calls: dict[Op, Calls]) -> None:
        self.allocation, self.calls = allocation, calls
        self.first = State()
        self.inserted = False

    def run(self) -> bool:
        region = self.allocation.function.regions[0]
        pending = State()
        self.calls[self.allocation.function] = Calls(self.first, pending)
        entry: dict[Place, State] = {(region.block, None): State(from_start=True)} if region.blocks else {}
        leaving: dict[Place, tuple[State, Op]] = {}
        waiting: deque[Place] = deque([(region.block, None)] if region.blocks else [])
        while waiting:
            place = waiting.popleft()
            state = entry.setdefault(place, State()).copy()
            end = self._follow(place, state)
            if leaving.get(place) == (state, end):
                continue
            leaving[place] = state, end
            for following in _following(end):
                entry.setdefault(following, State()).join(state)
                waiting.append(following)
        for state, end in leaving.values():
            if isinstance(end, Return):
                pending.join(state)
        return self.inserted

    def _follow(self, place: Place, state: State) -> Op:
        """Update `state` over the straight-line code from `place` on; returns the op at its end."""
        block, start = place
        op = block.first if start is None else start.next
        while True:
            assert op is not None, "a block ends with a terminator"
            self.visit(op, state)
            if op.definition.terminator or isinstance(op, (For, If, While, WarpSpecialize)):
                return op
            op = op.next

    def visit(self, op: Op, state: State) -> None:
        """Put a barrier before `op` if it needs one, and add what it does to `state`."""
        if synchronizes(op):
            state.settle()
        elif isinstance(op, ArriveBarrier):
            state.settle_waits()
        if isinstance(op, WAITS) and not synchronizes(op.next):
            self.put_barrier(op, before=op.next)
            state.settle()
            return
        now, left = self.accesses(op)
        scratch = [buffer for buffer in self.allocation.of(op) if buffer.kind == "scratch"]
        for buffer in scratch:
            now.add(Slice(buffer.span), op, is_write=True)
        if state.conflicts(now):
            self.put_barrier(op, before=op)
            state.settle()
        if state.from_start:
            self.first.join(now)
        if scratch and not stays_in_warp(op):
            state.settle()  # between writing and reading its scratch memory the op has a barrier of its own
        for buffer in scratch:
            left.add(Slice(buffer.span), op, is_write=False)
        state.join(left)
        if isinstance(op, WarpGroupDot) and op.is_async:
            state.join(State(running=left.reads))
        elif isinstance(op, WarpGroupDotWait) and op.pendings == 0:
            state.end_products()

    def accesses(self, op: Op) -> Calls:
        """The accesses of `op` while it runs, and those that may be pending behind it; both may be one and the same."""
        called = self.of_called(op)
        if called is not None:
            called.first.join(called.left)
            return called
        now = State()
        for value, is_write in shared_accesses(op):
            for buffer in self.allocation.named_by(value):
                now.add(slice_of(value, buffer), op, is_write=is_write)
        return Calls(now, now)

    def of_called(self, op: Op) -> Calls | None:
        """The accesses of the function that `op` calls, if it was visited, in the memory that it has here."""
        callee = called_function(op) if isinstance(op, Call) else None
        if callee is None or callee not in self.calls:
            return None
        at = next((buffer.offset for buffer in self.allocation.of(op)), 0)
        return Calls(*(state.moved(at) for state in self.calls[callee]))

    def put_barrier(self, op: Op, before: Op | None) -> None:
        """A barrier of the warps, with the location of `op`."""
        assert op.block is not None, "an op of a function is in a block"
        scope = (Keyword("local"),)
        op.block.insert(Op.create("ttg.barrier", attributes={"addrSpace": scope}, location=op.location), before)
        self.inserted = True


def stays_in_warp(op: Op) -> bool:
    """Whether `op` is a conversion between layouts that moves elements between the lanes of a warp only."""
    if not isinstance(op, ConvertLayout):
        return False
    source, result = linear_layout_of(op.source), linear_layout_of(op.result)
    moved = result.invert_and_compose(source)
    # A warp that has copies of another's elements reads what that one wrote.
    copies = source.free_masks()["warp"] or result.free_masks()["warp"]
    return moved.is_trivial_over(("block",)) and moved.is_trivial_over(("warp",)) and not copies


def slice_of(value: Value, buffer: SharedBuffer) -> Slice:
    """The part of `buffer` that `value`, a view of it, names."""
    type, op = buffer_type(value), value.op
    offsets: tuple[int, ...] = ()
    # A part of a part has offsets that count from the first part; a buffer seen as another one, its own coordinates.
    if isinstance(op, MemDescSubslice) and type.alloc_shape == op.source.type.shape and _is_seen_as_made(op.source):
        offsets = op.offsets
    return Slice(buffer.span, type, offsets, _stage(value))


def _is_seen_as_made(value: Value) -> bool:
    """Whether `value` is a buffer, or one of several, in the form in which it was allocated."""
    op = value.op
    while isinstance(op, MemDescIndex):
        op = op.source.op
    return not isinstance(op, MemDescView)


def _stage(value: Value) -> tuple[MemDescType, int] | None:
    """The stage of a buffer that `value` is a view of, if its number is a constant."""
    op = value.op
    while isinstance(op, MemDescView):
        if isinstance(op, MemDescIndex) and isinstance(op.source.op, LocalAlloc):
            number = integer_of(op.index)
            return None if number is None else (buffer_type(op.source), number)
        op = op.source.op
    return None


def _following(op: Op) -> Iterator[Place]:
    """The places where the program may go on after `op`, which ends straight-line code."""
    if op.successors:
        yield from ((block, None) for block in op.successors)
        return
    parent, block = op.parent, op.block
    assert parent is not None, "an op of a function has a parent"
    assert block is not None, "an op of a function has a parent"
    match op:
        case For():
            yield op.body, None
            yield block, op
        case If():
            yield from ((region.block, None) for region in op.arms)
            if not op.otherwise.blocks:
                yield block, op
        case While():
            yield op.before, None
        case WarpSpecialize() | WarpSpecializePartitions():
            yield from ((region.block, None) for region in op.regions)
        case Condition():
            yield typed(parent, While).after, None
            yield from _after(parent)
        case Yield() if isinstance(parent, While):
            yield parent.before, None
        case Yield() if isinstance(parent, For):
            yield block, None
            yield from _after(parent)
        case Yield() | WarpYield():
            yield from _after(parent)


def _after(op: Op) -> Iterator[Place]:
    assert op.block is not None, "an op of a function is in a block"
    yield op.block, op
