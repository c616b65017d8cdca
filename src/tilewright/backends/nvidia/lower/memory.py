"""Loads and stores of global memory.

    %x = tt.load %p, %m, %o : tensor<1024x!tt.ptr<f32>, #blocked>      four neighbouring registers are one access:

    mov.u32 $0, $6; mov.u32 $1, $7; …            values of masked-off elements
    @$5 ld.global.v4.b32 { $0, $1, $2, $3 }, [ $4 + 0 ];

How many registers form one access follows from the axis info of the pointers and from the length of equal runs of the
mask. Registers that hold copies are loaded once; of threads that hold copies, one stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import same_as
from tilewright.backends.nvidia.lower.cache_hints import Hints, access_hints
from tilewright.backends.nvidia.lower.lowerer import GLOBAL_POINTER, WARP, Lowerer, Lowering, layout_of
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.dialects.tt_memory import Load, Store, pointee_type
from tilewright.ir.core import Value
from tilewright.ir.types import TensorType, Type
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.memory_access import MAX_BITS
from tilewright.layouts.queries import order

LOAD_CACHES = ("ca", "cg", "cs", "cv")
STORE_CACHES = ("wb", "cg", "cs", "wt")


def access_bits(pointers: Type) -> int:
    """The bits in memory of what a pointer, or each of a tile of pointers, points to."""
    return max(8, pointee_type(pointers.scalar).bits)


def vector_of(lowerer: Lowerer, pointers: Value, mask: Value | None) -> int:
    """Max elements of one access that addresses and the mask permit."""
    if not isinstance(pointers.type, TensorType):
        return 1
    axis, info, bits = fast_axis(pointers.type), lowerer.axis_info(pointers), access_bits(pointers.type)
    if info is None:
        return 1
    aligned = max(1, (info.divisibility[axis] & -info.divisibility[axis]) * 8 // bits)
    most = min(MAX_BITS // bits, info.contiguity[axis] & -info.contiguity[axis], aligned)
    if mask is not None:
        known = lowerer.axis_info(mask)
        most = min(most, known.constancy[axis] & -known.constancy[axis] if known is not None else 1)
    return max(1, most)


def fast_axis(type: TensorType) -> int:
    """The axis along which the registers of a tile walk first."""
    first, *_ = order(layout_of(type), type.shape)
    return first


@cache
def groups_of(layout: LinearLayout, axis: int, most: int) -> list[list[int]]:
    """The registers of each access of at most `most` elements along `axis`, in the order of addresses.

    Registers whose elements are in others are left out; see `same_as`.
    """
    columns = layout.columns["register"]
    shift, _ = layout.shifts[axis]
    everything = layout.all_columns
    inner: list[int] = []
    while 1 << len(inner) < most:
        wanted = 1 << (shift + len(inner))
        if wanted not in columns or sum(bool(column & wanted) for column in everything) > 1:
            break
        inner.append(columns.index(wanted))
    copies = layout.free_masks()["register"]
    outer = [bit for bit in range(len(columns)) if bit not in inner and not copies >> bit & 1]
    return [[start | inside for inside in _numbers(inner)] for start in _numbers(outer)]


def _numbers(bits: Sequence[int]) -> list[int]:
    """All numbers that have only these bits, counted with the first bit fastest."""
    return [sum(1 << bit for k, bit in enumerate(bits) if index >> k & 1) for index in range(1 << len(bits))]


class Access(NamedTuple):
    """The instructions that move a tile, or a scalar, between registers and global memory.

    Attributes:
        groups: the registers of each instruction.
        words: how they are packed.
        same: per register of the tile the one whose access moves it.
    """

    groups: list[list[int]]
    words: PackedWords
    same: list[int]


def access_of(lowerer: Lowerer, pointers: Value, mask: Value | None) -> Access:
    """The accesses to the memory behind `pointers`."""
    type, bits = pointers.type, access_bits(pointers.type)
    if not isinstance(type, TensorType):
        return Access([[0]], PackedWords.of(bits, 1), [0])
    layout = lowerer.layout(type)
    groups = groups_of(layout, fast_axis(type), vector_of(lowerer, pointers, mask))
    return Access(groups, PackedWords.of(bits, len(groups[0])), same_as(layout))


def only_once(lowerer: Lowerer, pointers: Type, *, per_block: bool = False) -> str | None:
    """A condition that holds for one of all threads that have the same elements; None: all threads differ.

    Args:
        pointers: a tile, or a scalar that all threads have.
        per_block: in each block of a cluster there is to be one.
    """
    if isinstance(pointers, TensorType):
        masks = lowerer.layout(pointers).free_masks()
    else:
        masks = {"lane": WARP - 1, "warp": lowerer.target.num_warps - 1, "block": lowerer.target.num_ctas - 1}
    if per_block:
        masks = {**masks, "block": 0}
    sources = {"lane": lowerer.lane, "warp": lowerer.warp, "block": lowerer.block_in_cluster}
    if masks.get("lane") == WARP - 1 and masks.get("warp") == lowerer.target.num_warps - 1 and not masks.get("block"):
        return lowerer.once("first", lambda: lowerer.w.emit(f"icmp eq i32 {lowerer.thread()}, 0"))
    found: str | None = None
    for name, source in sources.items():
        mask = masks.get(name, 0)
        if mask:
            found = both(lowerer, found, _clear(lowerer, source(), mask))
    return found


def _clear(lowerer: Lowerer, value: str, mask: int) -> str:
    """Whether these bits are all 0."""
    w = lowerer.w
    return lowerer.once(("clear", value, mask), lambda: w.emit(f"icmp eq i32 {w.emit(f'and i32 {value}, {mask}')}, 0"))


def both(lowerer: Lowerer, first: str | None, second: str | None) -> str | None:
    """Both conditions, where None always holds."""
    needed = [condition for condition in (first, second) if condition not in (None, "true")]
    if len(needed) < 2:
        return needed[0] if needed else None
    return lowerer.w.emit(f"and i1 {first}, {second}")


# --- instructions -----------------------------------------------------------------------------------------------


def _load(lowerer: Lowerer, op: Load) -> None:
    pointers, mask, other = op.pointer, op.mask, op.other
    access, element = access_of(lowerer, pointers, mask), lowerer.element(op.result.type)
    addresses = lowerer.registers(pointers)
    masks = lowerer.registers(mask) if mask is not None else None
    others = lowerer.registers(other) if other is not None else None
    hints, policy = Hints("", []) if op.is_volatile else access_hints(lowerer, op, LOAD_CACHES)
    instruction = f"ld{'.volatile' if op.is_volatile else ''}.global{hints}{access.words.suffix}"
    found: dict[int, str] = {}
    for group in access.groups:
        start = access.words.pack(lowerer.w, element, [others[r] for r in group]) if others is not None else None
        condition = both(lowerer, None, masks[group[0]] if masks is not None else None)
        words = load_words(lowerer, instruction, access.words, addresses[group[0]], condition, start, policy)
        found.update(zip(group, access.words.unpack(lowerer.w, element, words), strict=True))
    lowerer.bind(op.result, [found[number] for number in access.same])


def load_words(
    lowerer: Lowerer,
    instruction: str,
    words: PackedWords,
    address: str,
    mask: str | None,
    start: Sequence[str] | None,
    policy: Sequence[Typed] = (),
) -> list[str]:
    """Read words from global memory by one instruction.

    Args:
        lowerer: writes the instruction.
        instruction: PTX's name of it, with its qualifiers.
        words: their number and width.
        address: of the first word.
        mask: an i1 that says whether to read; None: it is always on.
        start: what the words are where `mask` is off; None: 0.
        policy: the operands of a cache policy.
    """
    operands, count = [(GLOBAL_POINTER, address), *policy], words.number
    hint = "".join(f", ${count + 1 + number}" for number in range(len(policy)))
    lines, predicate = [], ""
    if mask is not None:
        width = max(16, words.width)
        for number, word in enumerate(start or ["0"] * count):
            given = word
            if word.startswith("%"):
                given = f"${count + len(operands)}"
                operands.append((words.type, word))
            lines.append(f"mov.u{width} ${number}, {given};\n\t")
        predicate = f"@${count + len(operands)} "
        operands.append(("i1", mask))
    results = ", ".join(f"${number}" for number in range(count))
    lines.append(f"{predicate}{instruction} {{ {results} }}, [ ${count} + 0 ]{hint};")
    return lowerer.assembly_results([words.type] * count, "".join(lines), operands)


def _store(lowerer: Lowerer, op: Store) -> None:
    pointers, value, mask = op.pointer, op.value, op.mask
    access, element = access_of(lowerer, pointers, mask), lowerer.element(value.type)
    addresses, values = lowerer.registers(pointers), lowerer.registers(value)
    masks = lowerer.registers(mask) if mask is not None else None
    (hints, policy), once = access_hints(lowerer, op, STORE_CACHES), only_once(lowerer, pointers.type)
    instruction = f"st.global{hints}{access.words.suffix}"
    for group in access.groups:
        words = access.words.pack(lowerer.w, element, [values[number] for number in group])
        condition = both(lowerer, once, masks[group[0]] if masks is not None else None)
        store_words(lowerer, instruction, access.words, addresses[group[0]], words, condition, policy)


def store_words(
    lowerer: Lowerer,
    instruction: str,
    words: PackedWords,
    address: str,
    values: Sequence[str],
    mask: str | None,
    policy: Sequence[Typed] = (),
) -> None:
    """Write words to global memory by one instruction; arguments as for `load_words`."""
    operands = [(GLOBAL_POINTER, address), *((words.type, value) for value in values), *policy]
    given = ", ".join(f"${number}" for number in range(1, words.number + 1))
    hint = f", ${words.number + 1}" if policy else ""
    predicate = ""
    if mask is not None:
        predicate = f"@${len(operands)} "
        operands.append(("i1", mask))
    lowerer.assembly(f"{predicate}{instruction} [ $0 + 0 ], {{ {given} }}{hint};", operands)


LOWERINGS: dict[str, Lowering] = {"tt.load": _load, "tt.store": _store}
