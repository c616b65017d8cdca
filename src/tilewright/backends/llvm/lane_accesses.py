"""Loads and stores of vectors by one address per lane: by numbers of elements, or through a vector of pointers.

    vector.gather %p[%i], %m, %o      →      %a = getelementptr float, ptr %p, <16 x i64> %i
                                             %v = call <16 x float> @llvm.masked.gather.…(<16 x ptr> align 4 %a, …)

Where the processor's own instruction is slower, each lane is a scalar load. Lanes that a mask turns off get the address
of a slot on the stack then, by one selection of vectors: as many flags and selections as there are lanes were twice the
code. Stores go lane by lane, in order, and have these flags: they are 2 % faster with them.
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

Names: TypeAlias = Mapping[Value, str]
"""The LLVM values of values."""

FEWEST_GATHERED = 4
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


def _gathers(target: Target, element: str, lanes: int) -> bool:
    """Whether an instruction of the processor reads such elements here and there, no slower than scalar loads do."""
    return target.costs.gathers and lanes >= FEWEST_GATHERED and element in ("float", "double", "i32", "i64")


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
