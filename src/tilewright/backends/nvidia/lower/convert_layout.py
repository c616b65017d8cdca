"""`ttg.convert_layout`: registers are renumbered, lanes exchange values, or the tile goes through shared memory.

%b = ttg.convert_layout %a : tensor<32xf32, #blocked> -> tensor<32xf32, #blocked1>

%v3 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %v2, i32 16, i32 31)         where lanes exchange values
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from tilewright.analysis.scratch_memory import LDMATRIX_SINCE, STMATRIX_SINCE
from tilewright.backends.nvidia.lower.access_plan import WORD, Plan, Unit, plan_of
from tilewright.backends.nvidia.lower.cross_lane import ALL_LANES, joined_integer, shuffled_word, split_integer
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, layout_of, scratch_offset
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.backends.nvidia.lower.shared_tiles import Bytes, cluster_barrier, load_tile, memory_bits, store_tile
from tilewright.backends.nvidia.lower.shuffle_plan import Parity, ShufflePlan, shuffle_plan
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, tile_type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Distributed
from tilewright.layouts.linear_layout import LinearLayout, log2
from tilewright.layouts.movement import Movement, movement
from tilewright.layouts.swizzle import MATRIX, PLAIN, MemoryInstruction, SwizzledBuffer, conversion_buffer
from tilewright.transforms.gpu.membar import stays_in_warp


def convert_layout(lowerer: Lowerer, op: ConvertLayout) -> None:
    """Give the result's registers their values."""
    type = tile_type(op.result)
    source, result = layout_of(tile_type(op.source)), layout_of(type)
    values, element = lowerer.registers(op.source), lowerer.element(type)
    match movement(source, result, type.shape):
        case Movement.NOTHING | Movement.REGISTERS:
            found = renamed(values, lowerer.layout(op.source), lowerer.layout(op.result))
        case Movement.LANES:
            plan = shuffle_plan(lowerer.layout(op.source), lowerer.layout(op.result), memory_bits(element))
            found = Shuffles(lowerer, plan, element).of(values)
        case Movement.SHARED:
            found = _through_memory(lowerer, op, source, result)
    lowerer.bind(op.result, found)


# Within threads


def renamed(values: Sequence[str], before: LinearLayout, after: LinearLayout) -> list[str]:
    """The registers of a tile in another layout, for which no value leaves its thread."""
    if after.outs != before.outs:
        after = after.transpose_outs(before.out_names)
    first: dict[int, str] = {}
    for register, value in enumerate(values):
        first.setdefault(before.image({"register": register}), value)
    return [first[after.image({"register": register})] for register in range(after.in_size("register"))]


# Within warps


class Shuffles:
    """A tile that lanes exchange.

    Args:
        plan: the registers that each lane sends and receives.
        element: the LLVM type of a register.
    """

    def __init__(self, lowerer: Lowerer, plan: ShufflePlan, element: str) -> None:
        self.lowerer, self.plan, self.element = lowerer, plan, element
        self.words = PackedWords.of(memory_bits(element), plan.packed)
        self.odd_sender, self.odd_receiver = self._odd(plan.sender), self._odd(plan.receiver)

    def of(self, values: Sequence[str]) -> list[str]:
        """The registers of the result."""
        plan, size = self.plan, self.plan.packed
        received: list[list[list[str]]] = []
        for start in range(0, len(plan.groups), size):
            groups = plan.groups[start : start + size]
            received.append([self._round(number, groups, values) for number in range(len(plan.rounds))])
        chosen: dict[tuple[int, int, int], list[str]] = {}
        found = []
        for group, rounds in plan.taken:
            key = group // size, *rounds
            if key not in chosen:
                chosen[key] = self._taken(received[key[0]], rounds)
            found.append(chosen[key][group % size])
        return found

    def _odd(self, parity: Parity | None) -> str:
        if parity is None:
            return ""
        bit = self.lowerer.linear(parity.columns)
        return self.lowerer.w.emit(f"icmp ne i32 {bit}, 0")

    def _round(self, number: int, groups: Sequence[int], values: Sequence[str]) -> list[str]:
        """The words that arrive."""
        round = self.plan.rounds[number]
        even, odd = ([values[group ^ register] for group in groups] for register in round.registers)
        if self.words.width > WORD:  # one choice of 64 bits, not two
            even = [self._choose(self.odd_sender, a, b, self.element) for a, b in zip(even, odd, strict=True)]
            odd = even
        sent = self._words(even)
        if even != odd:
            sent = [self._choose(self.odd_sender, a, b) for a, b in zip(sent, self._words(odd), strict=True)]
        return sent if self.plan.stays(number) else [self._shuffle(word, round.lane) for word in sent]

    def _taken(self, received: Sequence[Sequence[str]], rounds: tuple[int, int]) -> list[str]:
        """The elements that a group brings to registers that get them in these rounds."""
        even, odd = (received[round] for round in rounds)
        if even != odd and self.words.width > WORD:
            pairs = zip(self._elements(even), self._elements(odd), strict=True)
            return [self._choose(self.odd_receiver, a, b, self.element) for a, b in pairs]
        return self._elements([self._choose(self.odd_receiver, a, b) for a, b in zip(even, odd, strict=True)])

    def _choose(self, odd: str, if_even: str, if_odd: str, type: str = "i32") -> str:
        if if_even == if_odd:
            return if_even
        return self.lowerer.w.emit(f"select i1 {odd}, {type} {if_odd}, {type} {if_even}")

    def _shuffle(self, word: str, lane: int) -> str:
        w, asked = self.lowerer.w, self.plan.asked
        own = tuple(1 << bit for bit in range(len(asked["lane"])))
        if asked["lane"] == own and not any(asked["warp"]):
            kind, place = "bfly", str(lane)
        else:
            kind, place = "idx", self.lowerer.linear(asked)
            if lane:
                place = w.emit(f"xor i32 {place}, {lane}")
        return shuffled_word(self.lowerer, kind, word, place)

    # Words: elements below 32 bits share one, those of 64 bits take two.

    def _words(self, values: Sequence[str]) -> list[str]:
        w = self.lowerer.w
        (word,) = self.words.pack(w, self.element, values)
        return split_integer(w, word, self.words.width)

    def _elements(self, received: Sequence[str]) -> list[str]:
        w = self.lowerer.w
        return self.words.unpack(w, self.element, [joined_integer(w, received, self.words.width)])


# Through shared memory


class Part(NamedTuple):
    """The registers that go through the scratch memory at once.

    Attributes:
        stored: registers before, in the order of the plan.
        loaded: registers after.
    """

    stored: tuple[int, ...]
    loaded: tuple[int, ...]


class Conversion(NamedTuple):
    """A conversion through shared memory.

    Attributes:
        store: how registers go into memory.
        load: how they come out.
        parts: one after the other.
    """

    store: Plan
    load: Plan
    parts: tuple[Part, ...]


UNITS = {PLAIN: Unit.VECTOR, MATRIX: Unit.MATRIX}


def _unit(instruction: MemoryInstruction) -> Unit:
    return UNITS.get(instruction, Unit.TRANSPOSED)


@cache
def conversion_plan(
    source: Distributed, result: Distributed, shape: tuple[int, ...], bits: int, capability: int
) -> Conversion:
    """The way of a tile through shared memory.

    Args:
        source: the layout before.
        result: the layout after.
        shape: of the tile.
        bits: bits of one element in memory.
        capability: of the device.
    """
    buffer = conversion_buffer(
        source, result, shape, bits, stores=capability >= STMATRIX_SINCE, loads=capability >= LDMATRIX_SINCE
    )
    return plan_through(to_linear_layout(source, shape), to_linear_layout(result, shape), buffer, bits)


def plan_through(before: LinearLayout, after: LinearLayout, buffer: SwizzledBuffer, bits: int) -> Conversion:
    """The way of a tile from one layout to another through a buffer that was made for both."""
    columns = buffer.layout.columns
    memory = LinearLayout(
        {
            "offset": (*columns["vector"], *columns["bank"], *columns["segment"]),
            "block": columns["block"],
            "reps": columns["reps"],
        },
        buffer.layout.outs,
    )
    store, stored = _half(before, memory, bits, buffer.store)
    load, loaded = _half(after, memory, bits, buffer.load)
    return Conversion(store, load, tuple(map(Part, stored, loaded)))


def _half(
    layout: LinearLayout, memory: LinearLayout, bits: int, instruction: MemoryInstruction
) -> tuple[Plan, list[tuple[int, ...]]]:
    """The plan by which one of the two layouts uses the memory, and its registers of each part."""
    offsets = layout.invert_and_compose(memory)
    kept, registers = _split(offsets, log2(memory.in_size("reps")))
    plan = plan_of(kept, bits, units=(_unit(instruction),))
    assert plan.unit is _unit(instruction), "the buffer was made for this instruction"
    return plan, registers


def _split(offsets: LinearLayout, reps: int) -> tuple[LinearLayout, list[tuple[int, ...]]]:
    """The layout of the registers of one part, and per part its registers in the tile."""
    place, _ = offsets.shifts[offsets.out_names.index("reps")]
    own = offsets.columns["register"]
    places = [own.index(1 << (place + number)) for number in range(reps)]
    kept = [bit for bit in range(len(own)) if bit not in places]
    parts = []
    for part in range(1 << reps):
        start = sum(1 << bit for number, bit in enumerate(places) if part >> number & 1)
        inside = (
            sum(1 << bit for place, bit in enumerate(kept) if index >> place & 1) for index in range(1 << len(kept))
        )
        parts.append(tuple(start | register for register in inside))
    return offsets.with_columns(register=tuple(own[bit] for bit in kept)), parts


def _through_memory(lowerer: Lowerer, op: ConvertLayout, source: Distributed, result: Distributed) -> list[str]:
    type = tile_type(op.result)
    element = lowerer.element(type)
    plan = conversion_plan(source, result, type.shape, memory_bits(element), lowerer.target.capability)
    where = Bytes(str(scratch_offset(op)))
    values = lowerer.registers(op.source)
    found: dict[int, str] = {}
    wait = _wait_for(lowerer, op, plan)
    for index, part in enumerate(plan.parts):
        if index:
            wait()
        store_tile(lowerer, [values[register] for register in part.stored], element, plan.store, where)
        wait()
        found.update(zip(part.loaded, load_tile(lowerer, element, plan.load, where), strict=True))
    if plan.load.block is not None:
        wait()  # what follows may write, or end the block
    return [found[register] for register in range(len(found))]


def _wait_for(lowerer: Lowerer, op: Op, plan: Conversion) -> Callable[[], None]:
    """A function that writes the wait until the others have written, or read."""
    if plan.load.block is not None:
        return lambda: cluster_barrier(lowerer)
    if stays_in_warp(op):
        return lambda: lowerer.w.call_void("llvm.nvvm.bar.warp.sync", [("i32", ALL_LANES)])
    return lowerer.barrier


LOWERINGS: dict[str, Lowering] = {"ttg.convert_layout": convert_layout}
