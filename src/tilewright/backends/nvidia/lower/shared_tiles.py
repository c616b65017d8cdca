"""Moves of tiles between registers and shared memory, according to a plan of `access_plan`.

store_tile(lowerer, values, "half", plan, Bytes("1024"))

%p = getelementptr i8, ptr addrspace(3) @global_smem, i32 %place        where this thread's elements begin
store <8 x half> %v, ptr addrspace(3) …, align 16                       at constant offsets from there
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright.backends.llvm.spelling import bits_of, vector
from tilewright.backends.nvidia.lower.access_plan import MAX_WORDS, WORD, Move, Place, Plan, Unit
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, struct
from tilewright.backends.nvidia.lower.register_packing import PackedWords

BYTE = 8
CLUSTER_POINTER = "ptr addrspace(7)"


class Bytes(NamedTuple):
    """The start of a buffer in shared memory.

    Attributes:
        base: an i32, in bytes.
        within: an i32 that is added by XOR to the offset inside the buffer: where a part of a swizzled buffer begins.
        span: the bits that `within` may have.
        pads: pairs of shifts (right, left): so much more is added for the holes of a padded buffer.
    """

    base: str
    within: str = "0"
    span: int = 0
    pads: tuple[tuple[int, int], ...] = ()


def side_by_side(elements: Sequence[str], base: int, size_of: Callable[[int], int]) -> list[Bytes]:
    """A buffer for each element type, from byte `base` on: the widest elements first, so that each is aligned.

    Args:
        elements: LLVM types.
        base: where the first buffer begins.
        size_of: bytes of a buffer, by the bits of its elements in memory.
    """
    bits = [memory_bits(element) for element in elements]
    found = [Bytes("0")] * len(bits)
    for index in sorted(range(len(bits)), key=lambda index: -bits[index]):
        found[index] = Bytes(str(base))
        base += size_of(bits[index])
    return found


def memory_bits(element: str) -> int:
    """The size of an element in shared memory, in bits."""
    return 64 if element.startswith("ptr") else max(BYTE, bits_of(element))


# Addresses


def address(lowerer: Lowerer, plan: Plan, register: int, where: Bytes) -> tuple[str, int]:
    """The address of `register`: a pointer, and the bytes that are to be added to it."""
    w, place = lowerer.w, plan.place
    total = sum(place.constant(register))
    running = place.running
    thread = lowerer.linear(place.columns)
    if _is_number(where.within):
        total ^= int(where.within)
    elif thread == "0":
        thread, running = where.within, where.span
    else:
        thread, running = w.emit(f"xor i32 {thread}, {where.within}"), running | where.span
    if fixed := total & running:
        thread = w.emit(f"xor i32 {thread}, {fixed}")
    thread, added = with_holes(lowerer, thread, total & ~running, where.pads)
    pointer = lowerer.shared_base if thread == "0" else offset(lowerer, lowerer.shared_base, thread)
    if _is_number(where.base):
        return pointer, added + int(where.base)
    return offset(lowerer, pointer, where.base), added


def with_holes(lowerer: Lowerer, thread: str, added: int, pads: Sequence[tuple[int, int]]) -> tuple[str, int]:
    """The summands with the holes before the element. They have no bit in common, so each has its own holes.

    Args:
        thread: an i32.
        added: the other summand.
        pads: as in `Bytes`.
    """
    found, w = thread, lowerer.w
    for right, left in pads:
        if thread != "0":
            hole = w.emit(f"shl i32 {w.emit(f'lshr i32 {thread}, {right}')}, {left}")
            found = w.emit(f"add i32 {found}, {hole}")
    return found, added + sum(added >> right << left for right, left in pads)


def offset(lowerer: Lowerer, pointer: str, bytes: str | int) -> str:
    """A pointer to shared memory, moved."""
    if bytes in (0, "0"):
        return pointer
    return lowerer.w.emit(f"getelementptr inbounds i8, {SHARED_POINTER} {pointer}, i32 {bytes}")


def _is_number(value: str) -> bool:
    return not value.startswith("%")


def pointer_to(lowerer: Lowerer, plan: Plan, move: Move, where: Bytes) -> str:
    """The address of one move; of memory of the cluster if the plan leads to other blocks."""
    pointer, added = address(lowerer, plan, move.start, where)
    if plan.block is None:
        return offset(lowerer, pointer, added)
    mapped = in_block(lowerer, pointer, plan.block, move)
    return lowerer.w.emit(f"getelementptr inbounds i8, {CLUSTER_POINTER} {mapped}, i32 {added}")


def in_block(lowerer: Lowerer, pointer: str, block: Place, move: Move) -> str:
    """The address of the same byte in the block that a move goes to."""
    rank, more = lowerer.placed(block, move.start)
    if more:
        rank = str(more) if rank == "0" else lowerer.w.emit(f"or disjoint i32 {rank}, {more}")
    operands = [(SHARED_POINTER, pointer), ("i32", rank)]
    return lowerer.w.call(CLUSTER_POINTER, "llvm.nvvm.mapa.shared.cluster", operands)


def cluster_barrier(lowerer: Lowerer, *steps: str, relaxed: bool = False) -> None:
    """All threads of the cluster wait for each other, and see what the others wrote.

    Args:
        steps: `arrive` or `wait`; both without any.
        relaxed: nothing is seen but what fences order.
    """
    steps = steps or ("arrive", "wait")
    if lowerer.groups is not None and lowerer.groups.are_waiting:
        lowerer.groups.meet_cluster(*steps)
        return
    if lowerer.groups is not None:
        assert steps == ("arrive", "wait"), "inside of partitions the halves of a meeting are refused"
        lowerer.groups.sync_group()
        return
    for step in steps:
        kind = f"{step}.relaxed" if relaxed and step == "arrive" else step
        lowerer.w.call_void(f"llvm.nvvm.barrier.cluster.{kind}.aligned", [])


# Tiles


def store_tile(lowerer: Lowerer, values: Sequence[str], element: str, plan: Plan, where: Bytes) -> None:
    """Write registers to shared memory, of the own block or of others as the plan says.

    Args:
        values: one per register.
        element: their LLVM type.
        where: the buffer.
    """
    store = _store_vector if plan.unit is Unit.VECTOR else _store_matrices
    assert plan.block is None or plan.unit is Unit.VECTOR, "matrices are stored in the own block"
    for move in plan.moves:
        store(
            lowerer,
            [values[register] for register in move.registers],
            element,
            plan,
            pointer_to(lowerer, plan, move, where),
        )


def load_tile(lowerer: Lowerer, element: str, plan: Plan, where: Bytes) -> list[str]:
    """Read registers from shared memory; arguments as for `store_tile`."""
    found = LoadedOnDemand(lowerer, element, plan, where)
    for move in plan.moves:
        found.load(move)
    return [found[register] for register in range(len(plan.same))]


class LoadedOnDemand:
    """Registers that are read from shared memory when one of a move is asked for; arguments as for `store_tile`."""

    def __init__(self, lowerer: Lowerer, element: str, plan: Plan, where: Bytes) -> None:
        self._lowerer, self._element, self._plan, self._where = lowerer, element, plan, where
        self._moves = {register: move for move in plan.moves for register in move.registers}
        self._found: dict[int, str] = {}

    def __getitem__(self, register: int) -> str:
        register = self._plan.same[register]
        if register not in self._found:
            self.load(self._moves[register])
        return self._found[register]

    def load(self, move: Move) -> None:
        """Read the registers of `move`."""
        load = _load_vector if self._plan.unit is Unit.VECTOR else _load_matrices
        pointer = pointer_to(self._lowerer, self._plan, move, self._where)
        values = load(self._lowerer, self._element, len(move.registers), self._plan, pointer)
        self._found.update(zip(move.registers, values, strict=True))


def _store_vector(lowerer: Lowerer, values: Sequence[str], element: str, plan: Plan, pointer: str) -> None:
    w, words = lowerer.w, PackedWords.of(memory_bits(element), len(values))
    packed = words.pack(w, element, values)
    type, found = vector(words.type, words.number), packed[0]
    if words.number > 1:
        found = "poison"
        for place, word in enumerate(packed):
            found = w.insert(type, found, words.type, word, place)
    space = SHARED_POINTER if plan.block is None else CLUSTER_POINTER
    w.do(f"store {type} {found}, {space} {pointer}, align {words.number * words.width // BYTE}")


def _load_vector(lowerer: Lowerer, element: str, count: int, plan: Plan, pointer: str) -> list[str]:
    w, words = lowerer.w, PackedWords.of(memory_bits(element), count)
    type = vector(words.type, words.number)
    space = SHARED_POINTER if plan.block is None else CLUSTER_POINTER
    value = w.emit(f"load {type}, {space} {pointer}, align {words.number * words.width // BYTE}")
    parts = [w.extract(type, value, place) for place in range(words.number)] if words.number > 1 else [value]
    return words.unpack(w, element, parts)


SHAPES = {
    Unit.MATRIX: ("m8n8", "b16"),
    Unit.TRANSPOSED: ("m8n8", "trans.b16"),
    Unit.LOADED_BYTES: ("m16n16", "trans.b8"),
    Unit.STORED_BYTES: ("m16n8", "trans.b8"),
}


def _instruction(name: str, words: int, plan: Plan) -> str:
    assert words <= MAX_WORDS, "an instruction moves four words at most"
    shape, kind = SHAPES[plan.unit]
    matrices = words // 2 if plan.unit is Unit.LOADED_BYTES else words
    return f"llvm.nvvm.{name}.sync.aligned.{shape}.x{matrices}.{kind}.p3"


def _matrix_words(element: str, count: int) -> PackedWords:
    inside = WORD // memory_bits(element)
    return PackedWords(WORD, count // inside, inside)


def _store_matrices(lowerer: Lowerer, values: Sequence[str], element: str, plan: Plan, pointer: str) -> None:
    words = _matrix_words(element, len(values))
    operands = [(SHARED_POINTER, pointer), *(("i32", word) for word in words.pack(lowerer.w, element, values))]
    lowerer.w.call_void(_instruction("stmatrix", words.number, plan), operands)


def _load_matrices(lowerer: Lowerer, element: str, count: int, plan: Plan, pointer: str) -> list[str]:
    words = _matrix_words(element, count)
    type = struct(["i32"] * words.number)
    value = lowerer.w.call(type, _instruction("ldmatrix", words.number, plan), [(SHARED_POINTER, pointer)])
    return words.unpack(lowerer.w, element, lowerer.extract(type, value, words.number))
