"""Loads and stores of vectors with one address per lane: by element offsets, or by a vector of pointers.

    vector.gather %p[%i], %m, %o      →      %a = getelementptr float, ptr %p, <16 x i64> %i
                                             %v = call <16 x float> @llvm.masked.gather.…(<16 x ptr> align 4 %a, …)

Where the processor's gather instruction is slower, each lane is a scalar load. Masked-off lanes then load from a slot
on the stack; one vector select replaces their addresses, because one flag and one select per lane was twice as much
code. Stores go lane by lane, in order, and do use one flag per lane, which makes them 2 % faster.

With AVX-512, a masked load of every other element is two vector loads, whose masks are the given mask with a zero after
each bit. No element in between is read.

    lanes 0 1 2 3 under 1 1 1 0      →      0 1 2 3 under 1 0 1 0, 3 4 5 6 under 0 1 0 0; takes 0 2 | 4 6
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.memory import gather, lane_pointers, safe_pointers, scatter
from tilewright.backends.llvm.spelling import bits_of, constant, element_of, in_memory, llvm_type, suffix, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.tt_memory import Load, Store, pointee_type
from tilewright.dialects.vector import Gather, Scatter, lanes_of
from tilewright.ir.core import Value
from tilewright.transforms.matching import integer_of

Names: TypeAlias = Mapping[Value, str]
"""The LLVM values of values."""

WORDS = ("float", "double", "i32", "i64")
"""The elements that masked instructions read in every way."""

EVERY_OTHER = 0x55555555
"""A mask with every other bit, from the first on."""

MIN_GATHERED = 4
"""Min lanes of a gather by an instruction: LLVM takes one of two lanes apart, into branches."""


def load_numbered(w: LlvmWriter, names: Names, op: Gather) -> str:
    """The elements by number, as a vector."""
    element, lanes, align = element_of(op.result.type), lanes_of(op.result.type), op.alignment
    mask, other = (None if value is None else names[value] for value in (op.mask, op.other))
    if _gathers(w.target, element, lanes):
        return _gathered(w, _places(w, names, op), element, lanes, align, mask, other)
    if mask is None or not _selects_vectors(w.target, lanes):
        return gather(w, _numbered(w, names, op), element, align=align, mask=mask, other=other)
    pointers = safe_pointers(w, _places(w, names, op), mask, lanes)
    return gather(w, pointers, element, align=align, mask=mask, other=other, is_safe=True)


def store_numbered(w: LlvmWriter, names: Names, op: Scatter) -> None:
    """Store elements by number."""
    element, mask = element_of(op.value.type), None if op.mask is None else names[op.mask]
    scatter(w, _numbered(w, names, op), element, names[op.value], align=op.alignment, mask=mask)


def load_each(w: LlvmWriter, names: Names, op: Load) -> str:
    """The elements that a vector of pointers points at."""
    element, lanes, places = element_of(op.result.type), lanes_of(op.result.type), names[op.pointer]
    mask, other = (None if value is None else names[value] for value in (op.mask, op.other))
    if mask is not None and other is None:
        other = constant(0, element, lanes)
    align = _size(element)
    if _gathers(w.target, element, lanes):
        return _gathered(w, places, element, lanes, align, mask, other)
    if mask is None or not _selects_vectors(w.target, lanes):
        return gather(w, _pointers(w, places, lanes), element, align=align, mask=mask, other=other)
    pointers = safe_pointers(w, places, mask, lanes)
    return gather(w, pointers, element, align=align, mask=mask, other=other, is_safe=True)


def store_each(w: LlvmWriter, names: Names, op: Store) -> None:
    """Store elements where a vector of pointers points."""
    element, mask = element_of(op.value.type), None if op.mask is None else names[op.mask]
    pointers = _pointers(w, names[op.pointer], lanes_of(op.pointer.type))
    scatter(w, pointers, element, names[op.value], align=_size(element), mask=mask)


def reads_every_other(target: Target, element: str, lanes: int, stride: Value) -> bool:
    """Whether `load_every_other` loads such elements, in whole registers."""
    size = bits_of(element)
    return target.has_avx512f and element in WORDS and size * lanes == 512 and integer_of(stride) == size // 4


def load_every_other(w: LlvmWriter, first: str, element: str, mask: str, other: str) -> str:
    """Elements 0, 2, 4, … from `first` on, as many as fill a register; lanes that are off give `other`."""
    lanes = 512 // bits_of(element)
    type, flags = vector(element, lanes), vector("i1", lanes)
    bits = w.emit(f"zext i{lanes} {w.convert('bitcast', mask, flags, f'i{lanes}')} to i32")
    spread = w.call("i32", "llvm.x86.bmi.pdep.32", [("i32", bits), ("i32", str(EVERY_OTHER))])
    parts = list[str]()
    for start in (0, lanes - 1):
        part = w.emit(f"lshr i32 {spread}, {start}") if start else spread
        on = w.convert("bitcast", w.emit(f"trunc i32 {part} to i{lanes}"), f"i{lanes}", flags)
        place = w.emit(f"getelementptr {element}, ptr {first}, i64 {start}") if start else first
        operands = [(f"ptr align {_size(element)}", place), (flags, on), (type, "poison")]
        parts.append(w.call(type, f"llvm.masked.load.{suffix(type)}.p0", operands))
    taken = [2 * lane if 2 * lane < lanes else 2 * lane + 1 for lane in range(lanes)]
    low, high = parts
    found = w.shuffle(type, low, high, taken)
    return w.select(mask, type, found, other, lanes=lanes)


def _gathers(target: Target, element: str, lanes: int) -> bool:
    """Whether an instruction of the processor reads such elements here and there, no slower than scalar loads do."""
    return target.costs.gathers and lanes >= MIN_GATHERED and element in WORDS


def _gathered(
    w: LlvmWriter, places: str, element: str, lanes: int, align: int, mask: str | None, other: str | None
) -> str:
    """The elements at `places`, a vector of addresses, by an instruction, which reads nothing on masked-off lanes."""
    type = vector(element, lanes)
    operands = [
        (f"{vector('ptr', lanes)} align {align}", places),
        (vector("i1", lanes), mask or "splat (i1 true)"),
        (type, other or "poison"),
    ]
    return w.call(type, f"llvm.masked.gather.{suffix(type)}.v{lanes}p0", operands)


def _selects_vectors(target: Target, lanes: int) -> bool:
    """Whether pointers are chosen by a mask in few instructions; AArch64's vectors hold two pointers."""
    return lanes > 1 and not target.neon


def _numbered(w: LlvmWriter, names: Names, op: Gather | Scatter) -> list[str]:
    """The addresses of elements by number."""
    element, lanes = in_memory(pointee_type(op.base.type)), lanes_of(op.indices.type)
    return lane_pointers(w, names[op.base], names[op.indices], element, lanes)


def _places(w: LlvmWriter, names: Names, op: Gather) -> str:
    """The addresses of elements by number, as a vector."""
    element, numbers = in_memory(pointee_type(op.base.type)), f"{llvm_type(op.indices.type)} {names[op.indices]}"
    return w.emit(f"getelementptr {element}, ptr {names[op.base]}, {numbers}")


def _pointers(w: LlvmWriter, places: str, lanes: int) -> list[str]:
    """The lanes of a vector of pointers."""
    return [places] if lanes == 1 else [w.extract(vector("ptr", lanes), places, lane) for lane in range(lanes)]


def _size(element: str) -> int:
    """The bytes of an element in memory."""
    return bits_of(element) // 8
