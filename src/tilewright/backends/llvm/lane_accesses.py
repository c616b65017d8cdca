"""Loads and stores of vectors by one address per lane: by numbers of elements, or through a vector of pointers.

    vector.gather %p[%i], %m, %o      →      %a = getelementptr float, ptr %p, <16 x i64> %i
                                             %v = call <16 x float> @llvm.masked.gather.…(<16 x ptr> align 4 %a, …)

Where the processor's own instruction is slower, each lane is a scalar load. Lanes that a mask turns off get the address
of a slot on the stack then, by one selection of vectors: as many flags and selections as there are lanes were twice the
code. Stores go lane by lane, in order.
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
    element, lanes = element_of(op.result.type), lanes_of(op.result.type)
    mask, other = (None if value is None else names[value] for value in (op.mask, op.other))
    if _gathers(w.target, element, lanes):
        return _gathered(w, _places(w, names, op.base, op.indices), element, lanes, op.alignment, mask, other)
    pointers, is_safe = _numbered(w, names, op.base, op.indices, mask)
    return gather(w, pointers, element, align=op.alignment, mask=mask, other=other, is_safe=is_safe)


def store_numbered(w: LlvmWriter, names: Names, op: Scatter) -> None:
    """Store elements by number."""
    mask = None if op.mask is None else names[op.mask]
    element, value = element_of(op.value.type), names[op.value]
    pointers, is_safe = _numbered(w, names, op.base, op.indices, mask)
    scatter(w, pointers, element, value, align=op.alignment, mask=mask, is_safe=is_safe)


def load_each(w: LlvmWriter, names: Names, op: Load) -> str:
    """The elements that a vector of pointers points at."""
    element, lanes = element_of(op.result.type), lanes_of(op.result.type)
    mask, other = (None if value is None else names[value] for value in (op.mask, op.other))
    if mask is not None and other is None:
        other = constant(0, element, lanes)
    align = _size(element)
    if _gathers(w.target, element, lanes):
        return _gathered(w, names[op.pointer], element, lanes, align, mask, other)
    pointers, is_safe = _pointers(w, names[op.pointer], lanes, mask)
    return gather(w, pointers, element, align=align, mask=mask, other=other, is_safe=is_safe)


def store_each(w: LlvmWriter, names: Names, op: Store) -> None:
    """Store elements where a vector of pointers points."""
    element, mask = element_of(op.value.type), None if op.mask is None else names[op.mask]
    pointers, is_safe = _pointers(w, names[op.pointer], lanes_of(op.pointer.type), mask)
    scatter(w, pointers, element, names[op.value], align=_size(element), mask=mask, is_safe=is_safe)


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


def _numbered(w: LlvmWriter, names: Names, base: Value, indices: Value, mask: str | None) -> tuple[list[str], bool]:
    """The addresses of elements by number, and whether those of masked-off lanes are the stack's already."""
    lanes = lanes_of(indices.type)
    if mask is not None and lanes > 1 and _selects_vectors(w.target):
        return safe_pointers(w, _places(w, names, base, indices), mask, lanes), True
    element = in_memory(pointee_type(base.type))
    return lane_pointers(w, names[base], names[indices], element, lanes), False


def _places(w: LlvmWriter, names: Names, base: Value, indices: Value) -> str:
    """The addresses of elements by number, as a vector."""
    element, numbers = in_memory(pointee_type(base.type)), f"{llvm_type(indices.type)} {names[indices]}"
    return w.emit(f"getelementptr {element}, ptr {names[base]}, {numbers}")


def _pointers(w: LlvmWriter, places: str, lanes: int, mask: str | None) -> tuple[list[str], bool]:
    """The lanes of a vector of pointers, and whether those of masked-off lanes are the stack's already."""
    if lanes == 1:
        return [places], False
    if mask is not None and _selects_vectors(w.target):
        return safe_pointers(w, places, mask, lanes), True
    return [w.extract(vector("ptr", lanes), places, lane) for lane in range(lanes)], False


def _selects_vectors(target: Target) -> bool:
    """Whether vectors of pointers are chosen by a mask in few instructions; AArch64's are as wide as two pointers."""
    return not target.neon


def _size(element: str) -> int:
    """The bytes of an element in memory."""
    return bits_of(element) // 8
