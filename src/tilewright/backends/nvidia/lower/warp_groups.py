"""`ttg.warp_specialize`: different warps of the CTA run different code.

    entry:      br i1 %is_worker, label %wait, label %main
    main:       …                                                   the kernel, run by the first warps
                store what partitions capture, and the op's number; barrier of all
                the default region
                barrier of all; …
                store NO_MORE; barrier of all
    wait:       barrier of all; %number = load; switch on it and the warp: to a partition, %idle or %leave
    partition:  load what is captured; its code, by its own warps; br %idle
    idle:       barrier of all; br %wait

A barrier of all warps of a cluster can only be outside of partitions; the waiting warps are woken up to take part in
it. Inside, warps synchronise with those of the same group in the other CTAs, by an mbarrier that each CTA has for the
group:

    bar.sync %group;  @%others mbarrier.arrive.release.cluster.shared::cluster.b64 _, [ %mbarrier ^ %thread << 24 ];
    @%first: arrive at this CTA's mbarrier, and wait for it;  bar.sync %group

The warps of a partition count from 0, as do their threads, and have a barrier of their own; so have those of the
kernel. Partitions with more warps come first, so that groups of four warps stay warp groups of the hardware. If
partitions request register counts, each such group takes its count on entry to its part and releases it at the end
(`register_reallocation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.analysis.shared_memory import MEETING_BYTES, first_meeting
from tilewright.backends.llvm.sections import Section
from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, WARP, Group, Lowerer, Lowering, scratch_offset
from tilewright.backends.nvidia.lower.mbarriers import RANK
from tilewright.backends.nvidia.lower.register_reallocation import GROUP, reallocates, reallocation, specializations
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, partitions_of
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType

ALL_WARPS, FIRST_OF_PARTITIONS = 1, 2
"""Numbers of barriers: of the whole block, and from which on partitions have theirs; the kernel's warps have 0."""
NO_MORE = 255
CLUSTER_STEPS = {("arrive", "wait"): 254, ("arrive",): 253, ("wait",): 252}
"""The numbers that make all warps take part in a cluster barrier."""
MEET_OTHERS = """{
	.reg .b64 state;
	.reg .pred complete;
	mbarrier.arrive.release.cluster.shared::cta.b64 state, [ $0 ];
	meetingLoop:
	mbarrier.try_wait.acquire.cluster.shared::cta.b64 complete, [ $0 ], state;
	@!complete bra.uni meetingLoop;
}"""
WARPS_IN_KEY = 32
SIZES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, SHARED_POINTER: 4}
"""Bytes of a captured value by its LLVM type; others have eight."""


def first_warps(counts: Sequence[int], own: int) -> list[int]:
    """The first warp of each partition, behind the kernel's own warps."""
    order = sorted(range(len(counts)), key=lambda number: -counts[number])
    found, start = [0] * len(counts), own
    for number in order:
        found[number], start = start, start + counts[number]
    return found


def warps_of_block(functions: Sequence[Func], own: int, capability: int) -> int:
    """The number of warps that a block needs for all partitions of its functions."""
    ops = specializations(functions)
    warps = own + max((sum(op.partition_warps) for op in ops), default=0)
    return -(-warps // GROUP) * GROUP if reallocates(ops, own, capability) else warps


@dataclass
class Way:
    """How warps come to a partition, and where they go behind it.

    Attributes:
        cases: the cases of the choice among partitions.
        after: the label behind partitions.
        before: the label before the choice, if the way has a choice of its own.
        choice: the place where that choice will stand.
    """

    cases: list[str]
    after: str
    before: str = ""
    choice: Section | None = None


class WarpGroups:
    """The groups of a kernel while it is written.

    Attributes:
        are_waiting: the other warps wait for work where code is written now.

    `registers` is the number that each thread has at entry, if groups of four warps take others; else 0.
    """

    def __init__(self, lowerer: Lowerer, warps: int, registers: int) -> None:
        self._lowerer, self._warps, self._registers = lowerer, warps, registers
        self.are_waiting = True
        self._own = lowerer.target.num_warps
        self._numbers: dict[Op, int] = {}
        self._cases: list[str] = []
        self._asked: dict[tuple[str, ...], str] = {}
        self._meeting: dict[int, int] = {}
        w = lowerer.w
        self._wait, self._idle, self._leave = map(w.fresh_label, ("wait", "idle", "leave"))
        lowerer.group = Group(0, 0)
        is_worker = w.emit(f"icmp uge i32 {lowerer.special('tid.x')}, {self._own * WARP}")
        main = w.fresh_label("main")
        w.do(f"br i1 {is_worker}, label %{self._wait}, label %{main}")
        self._choice = self._waiting()
        w.start_block(main)
        self._setup = w.open_section()
        lowerer.at_exit.append(self._end)

    def _waiting(self) -> Section:
        """The code of warps that wait for work; gives where the choice goes, once all of it is known."""
        w = self._lowerer.w
        w.start_block(self._wait)
        self._sync()
        number = w.emit(f"load volatile i8, {SHARED_POINTER} {self._state()}")
        warp = w.emit(f"lshr i32 {w.call('i32', 'llvm.nvvm.read.ptx.sreg.tid.x', [])}, 5")
        self._key = w.emit(f"mul i32 {w.emit(f'zext i8 {number} to i32')}, {WARPS_IN_KEY}")
        self._key = w.emit(f"add i32 {self._key}, {warp}")
        choice = w.open_section()
        w.start_block(self._idle)
        self._sync()
        w.do(f"br label %{self._wait}")
        w.start_block(self._leave)
        w.do("ret void")
        return choice

    def _state(self) -> str:
        lowerer = self._lowerer
        offset = scratch_offset(lowerer.function)
        return f"getelementptr (i8, {SHARED_POINTER} {lowerer.shared_base}, i32 {offset})"

    def _sync(self) -> None:
        self._lowerer.barrier_of(ALL_WARPS, self._warps * WARP)

    def _post_step(self, number: int) -> None:
        """Let the waiting warps know what to do."""
        self._lowerer.w.do(f"store volatile i8 {number}, {SHARED_POINTER} {self._state()}")

    def _end(self) -> None:
        self._post_step(NO_MORE)
        self._sync()

    def finish(self) -> None:
        """All code is known: write where waiting warps go."""
        if self._meeting:
            with self._lowerer.w.at(self._setup):
                self._set_up_meetings()
        for steps, label in self._asked.items():
            self._lowerer.w.start_block(label)
            self._cluster_steps(steps)
            self._lowerer.w.do(f"br label %{self._idle}")
            self._for_all_workers(CLUSTER_STEPS[steps], label)
        self._for_all_workers(NO_MORE, self._leave)
        cases = " ".join(self._cases)
        self._choice.lines.append(f"  switch i32 {self._key}, label %{self._idle} [ {cases} ]")

    def _for_all_workers(self, number: int, label: str) -> None:
        keys = (number * WARPS_IN_KEY + warp for warp in range(self._own, self._warps))
        self._cases += [f"i32 {key}, label %{label}" for key in keys]

    def meet_cluster(self, *steps: str) -> None:
        """All warps of the block, the waiting ones too, arrive at the cluster's barrier, or wait there, or both."""
        self._asked.setdefault(steps, self._lowerer.w.fresh_label("cluster"))
        self._post_step(CLUSTER_STEPS[steps])
        self._sync()
        self._cluster_steps(steps)
        self._sync()

    def sync_group(self) -> None:
        """A barrier of the current warp group with the same group in the other CTAs."""
        lowerer, w = self._lowerer, self._lowerer.w
        group, ctas = lowerer.group, lowerer.target.num_ctas
        assert group is not None, "only groups meet inside of partitions"
        own = self._group_mbarrier(group.barrier)
        lowerer.barrier()
        thread = lowerer.thread()
        is_other = w.emit(f"icmp ult i32 {w.emit(f'sub i32 {thread}, 1')}, {ctas - 1}")
        number = w.emit(f"ptrtoint {SHARED_POINTER} {own} to i32")
        theirs = w.emit(f"xor i32 {number}, {w.emit(f'shl i32 {thread}, {RANK}')}")
        text = "@$0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [ $1 ];"
        lowerer.assembly(text, [("i1", is_other), ("i32", theirs)])
        with lowerer.where(w.emit(f"icmp eq i32 {thread}, 0")):
            lowerer.assembly(MEET_OTHERS, [(SHARED_POINTER, own)])
        lowerer.barrier()

    def _group_mbarrier(self, barrier: int) -> str:
        """The mbarrier of the group that has this barrier of the CTA."""
        lowerer, group = self._lowerer, max(barrier - FIRST_OF_PARTITIONS + 1, 0)
        start = scratch_offset(lowerer.function) + first_meeting(self._warps - self._own)
        place = self._meeting.setdefault(barrier, start + group * MEETING_BYTES)
        return lowerer.shared(place)

    def _set_up_meetings(self) -> None:
        lowerer, w = self._lowerer, self._lowerer.w
        is_first = w.emit(f"icmp eq i32 {lowerer.special('tid.x')}, 0")
        text = f"@$0 mbarrier.init.shared::cta.b64 [ $1 ], {lowerer.target.num_ctas};"
        for place in self._meeting.values():
            lowerer.assembly(text, [("i1", is_first), (SHARED_POINTER, lowerer.shared(place))])
        lowerer.assembly("@$0 fence.mbarrier_init.release.cluster;", [("i1", is_first)])
        self.meet_cluster("arrive", "wait")

    def _cluster_steps(self, steps: Sequence[str]) -> None:
        for step in steps:
            self._lowerer.w.call_void(f"llvm.nvvm.barrier.cluster.{step}.aligned", [])

    def specialize(self, op: WarpSpecialize) -> None:
        """Write an op and the code of its partitions."""
        lowerer, w = self._lowerer, self._lowerer.w
        number = self._numbers.setdefault(op, len(self._numbers))
        assert number < min(CLUSTER_STEPS.values()), "numbers are bytes"
        partitions = partitions_of(op)
        for value in partitions.captures:
            if isinstance(value.type, TensorType):
                raise refused(op, f"capturing {value.type}", "other warps hold other parts of a tile: store it")
        handed = self._hand_over(op, partitions.captures)
        self._post_step(number)
        default = w.fresh_label("default")
        self.are_waiting = False
        self._sync()
        w.do(f"br label %{default}")
        starts = first_warps(op.partition_warps, self._own)
        own, ways = self._reallocate(op, number, starts)
        for index, first in enumerate(starts):
            label, count = w.fresh_label("partition"), op.partition_warps[index]
            way = ways.get(first // GROUP, Way(self._cases, self._idle))
            way.cases += [f"i32 {number * WARPS_IN_KEY + warp}, label %{label}" for warp in range(first, first + count)]
            w.start_block(label)
            group = Group(first * WARP, FIRST_OF_PARTITIONS + index)
            with lowerer.acting(group, replace(lowerer.target, num_warps=count)):
                body = partitions.regions[index].block
                self._take(body.args, partitions.captures, handed, scratch_offset(op) if partitions.captures else 0)
                lowerer.block(body)
            w.do(f"br label %{way.after}")
        self._finish_choices(ways)
        w.start_block(default)
        self._change_registers(self._registers, own)
        lowerer.block(op.default)
        self._sync()
        self._change_registers(own, self._registers)
        self.are_waiting = True
        for result, value in zip(op.results, op.default.terminator.operands, strict=True):
            lowerer.alias(result, value)

    def _reallocate(self, op: WarpSpecialize, number: int, starts: Sequence[int]) -> tuple[int, dict[int, Way]]:
        """Let groups take the registers for their parts; returns the number for the kernel, and the ways of others.

        All warps of a group come to one instruction that changes the number, and to another one at the end.
        """
        w, at_entry = self._lowerer.w, self._registers
        if not at_entry or not op.registers:
            return at_entry, {}
        new = reallocation(op, starts, self._own, self._warps, at_entry)
        ways: dict[int, Way] = {}
        found: dict[int, Way] = {}
        for place, count in enumerate(new.others):
            if count == at_entry:
                continue
            if count not in ways:
                ways[count] = way = Way([], w.fresh_label("enough"), w.fresh_label("registers"))
                w.start_block(way.before)
                self._change_registers(at_entry, count)
                way.choice = w.open_section()
                w.start_block(way.after)
                self._sync()
                self._change_registers(count, at_entry)
                w.do(f"br label %{self._wait}")
            group = self._own // GROUP + place
            found[group] = ways[count]
            keys = (number * WARPS_IN_KEY + warp for warp in range(group * GROUP, (group + 1) * GROUP))
            self._cases += [f"i32 {key}, label %{ways[count].before}" for key in keys]
        return new.own, found

    def _finish_choices(self, ways: Mapping[int, Way]) -> None:
        """Write where the warps go that have their registers; all partitions are known by now."""
        for way in {id(way): way for way in ways.values()}.values():
            assert way.choice is not None, "ways of groups that take other registers have a choice"
            way.choice.lines.append(f"  switch i32 {self._key}, label %{way.after} [ {' '.join(way.cases)} ]")

    def _change_registers(self, before: int, after: int) -> None:
        """Take as many registers for each thread, or give them back; all four warps of a group come here."""
        if before != after:
            name = f"llvm.nvvm.setmaxnreg.{'inc' if after > before else 'dec'}.sync.aligned.u32"
            self._lowerer.w.call_void(name, [("i32", str(after))])

    def _hand_over(self, op: Op, captures: Sequence[Value]) -> list[int | None]:
        """Store what partitions capture; the offset of each part, None for what they know anyway."""
        lowerer = self._lowerer
        parts = [part for value in captures for part in lowerer.parts(value)]
        offsets: list[int | None] = [None] * len(parts)
        place = 0
        for number in sorted(range(len(parts)), key=lambda number: -_size(parts[number])):
            type, value = parts[number]
            if value.startswith("%") and not value.startswith("%arg"):
                offsets[number] = place
                address = lowerer.shared(scratch_offset(op) + place)
                lowerer.w.do(f"store {type} {value}, {SHARED_POINTER} {address}")
                place += _size(parts[number])
        return offsets

    def _take(
        self, arguments: Sequence[Value], captures: Sequence[Value], offsets: Sequence[int | None], start: int
    ) -> None:
        """Load what was stored from byte `start` on."""
        lowerer, rest = self._lowerer, iter(offsets)
        for argument, capture in zip(arguments, captures, strict=True):
            names = [self._loaded(part, next(rest), start) for part in lowerer.parts(capture)]
            lowerer.bind_parts(argument, capture, names)

    def _loaded(self, part: Typed, offset: int | None, start: int) -> str:
        type, value = part
        if offset is None:
            return value
        lowerer = self._lowerer
        address = lowerer.shared(start + offset)
        return lowerer.w.emit(f"load {type}, {SHARED_POINTER} {address}")


def _size(part: Typed) -> int:
    return SIZES.get(part[0], 8)


def _specialize(lowerer: Lowerer, op: WarpSpecialize) -> None:
    if lowerer.groups is None:
        raise refused(op, "ttg.warp_specialize in a function of its own", "a kernel itself gives work to other warps")
    lowerer.groups.specialize(op)


LOWERINGS: dict[str, Lowering] = {"ttg.warp_specialize": _specialize}
