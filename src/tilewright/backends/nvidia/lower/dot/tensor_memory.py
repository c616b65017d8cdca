"""Buffers in the tensor memory of sm_100: `ttng.tmem_alloc`, `ttng.tmem_load`, `ttng.tmem_store` and views.

    %m = ttng.tmem_alloc {tensor_memory_col_offset = 0}      the program's columns (allocated on entry) + 0
    %x = ttng.tmem_load %m                                   tcgen05.ld.sync.aligned.32x32b.x64.b32 {$0, …}, [$64 + 0];
                                                             tcgen05.wait::ld.sync.aligned;

A buffer is an address, row << 16 | column.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import WORD
from tilewright.backends.nvidia.lower.dot.operands_in_memory import uniform_bits, uniform_warp
from tilewright.backends.nvidia.lower.dot.tensor_access import ROW, ROWS_OF_A_WARP, Message, Plan, plan_access
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED, SHARED_POINTER, Lowerer, Lowering, constraints_of
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.backends.nvidia.lower.shared_tiles import cluster_barrier
from tilewright.dialects.rules import number
from tilewright.dialects.ttg_attributes import TENSOR_MEMORY_COLUMNS
from tilewright.dialects.ttg_memory import MemDescIndex, MemDescView
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore, TmemSubslice
from tilewright.ir.core import Op, Value, buffer_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.linear_layout import LinearLayout, from_bases
from tilewright.layouts.tensor_memory import allocated, linear_memory, tensor_memory_encoding
from tilewright.transforms.gpu.tile_ops import works_in_pairs

WARPS_OF_A_GROUP = 4


class TensorBuffer:
    """A buffer in tensor memory.

    Attributes:
        address: of its first row and column, an i32.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def parts(self) -> list[Typed]:
        """The values that loops and branches pass on."""
        return [("i32", self.address)]

    def with_parts(self, values: Sequence[str]) -> TensorBuffer:
        """The same kind of buffer, at another address."""
        return TensorBuffer(values[0])

    def viewed(self, lowerer: Lowerer, op: MemDescView) -> TensorBuffer:
        """The buffer that a view gives."""
        if not isinstance(op, MemDescIndex):
            return self
        w, type = lowerer.w, buffer_type(op.result)
        _, columns = allocated(tensor_memory_encoding(type.encoding), type.shape, type.element.bits)
        distance = w.emit(f"mul i32 {lowerer.scalar(op.index)}, {columns}")
        return TensorBuffer(w.emit(f"add i32 {self.address}, {distance}"))


def memory_of(type: MemDescType) -> LinearLayout:
    """The layout from row, col (in elements) and block to the tile.

    A part of an allocation lies as the whole does: further blocks of rows are as far away as all columns are wide.
    """
    shape, whole = type.shape[-2:], type.alloc_shape[-2:]
    memory = linear_memory(tensor_memory_encoding(type.encoding), whole, type.element.bits)
    if shape == whole:
        return memory
    bases = {name: [_within(step, shape) for step in steps] for name, steps in memory.bases.items()}
    return from_bases(bases, zip(memory.out_names, shape, strict=True))


def _within(step: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """A step in a part of this shape: none where the whole goes on to other parts."""
    return tuple(distance if distance < extent else 0 for distance, extent in zip(step, shape, strict=True))


# The program's columns


def _get_columns(lowerer: Lowerer) -> str:
    """The address of the first column that the program has; it gets them on entry and gives them back at the end."""
    w, count, pairs = lowerer.w, _columns_of(lowerer), works_in_pairs(lowerer.function)
    group = f"cta_group::{2 if pairs else 1}.sync.aligned"
    if pairs:
        cluster_barrier(lowerer)
    first = w.emit(f"icmp ult i32 {lowerer.thread()}, 32")
    shared = w.emit(f"ptrtoint {SHARED_POINTER} {SHARED} to i32")
    text = f"@$0 tcgen05.alloc.{group}.shared::cta.b32 [$1], {count};"
    lowerer.assembly(text, [("i1", first), ("i32", shared)])
    lowerer.barrier()
    address = w.emit(f"load i32, {SHARED_POINTER} {SHARED}, align 4")
    lowerer.barrier()
    text = f"@$0 tcgen05.relinquish_alloc_permit.{group};"
    lowerer.assembly(text, [("i1", first)])

    def give_back() -> None:
        (cluster_barrier if pairs else Lowerer.barrier)(lowerer)  # nobody uses the other's columns or memory any more
        text = f"@$0 tcgen05.dealloc.{group}.b32 $1, {count};"
        lowerer.assembly(text, [("i1", first), ("i32", address)])

    lowerer.at_exit.append(give_back)
    return address


def _columns_of(lowerer: Lowerer) -> int:
    module = lowerer.function.parent
    assert module is not None, "a function is in a module"
    return number(module, TENSOR_MEMORY_COLUMNS)


# Ops


def _alloc(lowerer: Lowerer, op: TmemAlloc) -> None:
    w, column = lowerer.w, op.column
    base = lowerer.once_for_all_warps("tensor memory", lambda: _get_columns(lowerer))
    address = w.emit(f"add i32 {base}, {column}") if column else base
    lowerer.bind_buffer(op.result, TensorBuffer(address))
    if op.source is not None:
        _store_tile(lowerer, op, op.source, op.result, "true")


def _store(lowerer: Lowerer, op: TmemStore) -> None:
    _store_tile(lowerer, op, op.value, op.buffer, lowerer.scalar(op.predicate))


def _load(lowerer: Lowerer, op: TmemLoad) -> None:
    source, result = op.buffer, op.result
    plan = _plan(lowerer, op, result, source)
    address = _address(lowerer, plan, source)
    words = [word for message in plan.messages for word in _load_message(lowerer, plan, message, address)]
    words = _after_wait(lowerer, words)
    order = [registers for message in plan.messages for registers in message.registers]
    element, bits = lowerer.element(result.type), result.type.bits
    found: dict[int, str] = {}
    for registers, word in zip(order, words, strict=True):
        found.update(zip(registers, _elements(lowerer, element, bits, word, len(registers)), strict=True))
    lowerer.bind(result, [found[register] for register in plan.first])


def _subslice(lowerer: Lowerer, op: TmemSubslice) -> None:
    type, result = buffer_type(op.source), buffer_type(op.result)
    layout = tensor_memory_encoding(type.encoding)
    places = linear_memory(layout, type.alloc_shape[-2:], type.element.bits).pseudo_invert()
    coordinates = {name: op.offset if axis == op.axis else 0 for axis, name in enumerate(places.ins)}
    row, column, *_ = places.apply(**coordinates)
    distance = row << ROW | column * result.element.bits // WORD
    address = lowerer.buffer(op.source).address
    moved = lowerer.w.emit(f"add i32 {address}, {distance}") if distance else address
    lowerer.bind_buffer(op.result, TensorBuffer(moved))


def _store_tile(lowerer: Lowerer, op: Op, tile: Value, buffer: Value, predicate: str) -> None:
    plan = _plan(lowerer, op, tile, buffer)
    address, registers = _address(lowerer, plan, buffer), lowerer.registers(tile)
    predicate = _of_one_warp(lowerer, plan, predicate)
    held = {first: registers[register] for register, first in enumerate(plan.first)}
    element, bits = lowerer.element(tile.type), tile.type.bits
    suffix = ".unpack::16b" if plan.spread else ""
    for message in plan.messages:
        words = [_word(lowerer, element, bits, [held[one] for one in own]) for own in message.registers]
        names = ", ".join(f"${2 + index}" for index in range(len(words)))
        place = f"[$1 + {message.offset}]{_distance(plan)}"
        text = f"@$0 tcgen05.st.sync.aligned.{plan.shape.name}.x{plan.repeats}{suffix}.b32 {place}, {{{names}}};"
        operands = [("i1", predicate), ("i32", address), *(("i32", word) for word in words)]
        lowerer.assembly(text, operands)
    lowerer.assembly("tcgen05.wait::st.sync.aligned;", [])


def _plan(lowerer: Lowerer, op: Op, tile: Value, buffer: Value) -> Plan:
    type = buffer_type(buffer)
    found = plan_access(lowerer.layout(tile), memory_of(type), type.element.bits)
    if found is None:
        reason = "no instruction moves it there: take the layout that get_reg_layout gives"
        raise refused(op, f"a tile {tile.type} for {type}", reason)
    return found


def _address(lowerer: Lowerer, plan: Plan, buffer: Value) -> str:
    """The address that this warp uses: it has its own rows."""
    w, base = lowerer.w, lowerer.buffer(buffer).address
    warp = w.emit(f"and i32 {uniform_warp(lowerer)}, {WARPS_OF_A_GROUP - 1}")
    rows = w.emit(f"shl i32 {warp}, {ROW + ROWS_OF_A_WARP.bit_length() - 1}")
    address = w.emit(f"add i32 {base}, {rows}")
    if any(plan.warps):
        address = w.emit(f"add i32 {address}, {uniform_bits(lowerer, plan.warps)}")
    return address


def _of_one_warp(lowerer: Lowerer, plan: Plan, predicate: str) -> str:
    """The predicate of a store: of warps that have the same only one stores."""
    if not plan.copies:
        return predicate
    w = lowerer.w
    copy = w.emit(f"and i32 {uniform_warp(lowerer)}, {plan.copies}")
    first = w.emit(f"icmp eq i32 {copy}, 0")
    return first if predicate == "true" else w.emit(f"and i1 {first}, {predicate}")


def _distance(plan: Plan) -> str:
    return f", {plan.distance}" if plan.shape.halves else ""


def _load_message(lowerer: Lowerer, plan: Plan, message: Message, address: str) -> list[str]:
    count = len(message.registers)
    names = ", ".join(f"${index}" for index in range(count))
    suffix = ".pack::16b" if plan.spread else ""
    place = f"[${count} + {message.offset}]{_distance(plan)}"
    text = f"tcgen05.ld.sync.aligned.{plan.shape.name}.x{plan.repeats}{suffix}.b32 {{{names}}}, {place};"
    return lowerer.assembly_results(["i32"] * count, text, [("i32", address)])


def _after_wait(lowerer: Lowerer, words: Sequence[str]) -> list[str]:
    """The words once they have arrived: nothing that reads them can come before."""
    types = ["i32"] * len(words)
    constraints = constraints_of(types, [], tied=len(words))
    given = [("i32", word) for word in words]
    return lowerer.assembly_results(types, "tcgen05.wait::ld.sync.aligned;", given, constraints=constraints)


def _word(lowerer: Lowerer, element: str, bits: int, values: Sequence[str]) -> str:
    """Elements in a word; one that is shorter is in its lowest bits."""
    words = PackedWords.of(bits, len(values))
    (word,) = words.pack(lowerer.w, element, values)
    return lowerer.w.convert("zext", word, words.type, "i32")


def _elements(lowerer: Lowerer, element: str, bits: int, word: str, count: int) -> list[str]:
    words = PackedWords.of(bits, count)
    return words.unpack(lowerer.w, element, [lowerer.w.convert("trunc", word, "i32", words.type)])


LOWERINGS: dict[str, Lowering] = {
    "ttng.tmem_alloc": _alloc,
    "ttng.tmem_load": _load,
    "ttng.tmem_store": _store,
    "ttng.tmem_subslice": _subslice,
}
