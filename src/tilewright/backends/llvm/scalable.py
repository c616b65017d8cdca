"""Vectors of a fixed length on AArch64's scalable vectors (SVE), for ops that LLVM lowers through memory.

LLVM keeps a vector of a fixed length in the first lanes of a scalable one if the function declares the length of those
(`vscale_range`), and has instructions for most ops on it. The exceptions are lowered here; the table shows LLVM's own
lowering and the one used instead:

    lanes of two vectors, but for trn, zip, uzp     built lane by lane on the stack     tbl, tbl, sel
    a number from memory in all lanes               ldr, dup                            ld1rw
    16 bytes, repeated                              through the stack                   mov z.q
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.spelling import bits_of, suffix, vector

NEON_BITS = 128
"""Vectors of so many bits or fewer are NEON's, whose instructions are there, too."""


class Emitter(Protocol):
    """The part of a writer that this file needs."""

    target: Target

    def emit(self, instruction: str) -> str:
        """Append an instruction; returns its result's name."""

    def call(self, result: str, function: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call a function and declare it; returns the result's name."""


def is_scalable(target: Target, element: str, lanes: int) -> bool:
    """Whether a vector lies in a scalable one."""
    return target.has_sve and element not in ("ptr", "i1") and bits_of(element) * lanes > NEON_BITS


def in_register(w: Emitter, element: str, lanes: int, value: str) -> tuple[str, str]:
    """The scalable vector that begins with `value`, as (type, name): no instruction, as both are in one register."""
    register, given = _register(element), vector(element, lanes)
    name = f"llvm.vector.insert.{_suffix(element)}.{suffix(given)}"
    return register, w.call(register, name, [(register, "poison"), (given, value), ("i64", "0")])


def out_of_register(w: Emitter, element: str, lanes: int, value: str) -> str:
    """The first lanes of a scalable vector."""
    name = f"llvm.vector.extract.{suffix(vector(element, lanes))}.{_suffix(element)}"
    return w.call(vector(element, lanes), name, [(_register(element), value), ("i64", "0")])


def splat(w: Emitter, value: str, element: str, lanes: int) -> str:
    """A scalar in every lane."""
    per_register = min(lanes, w.target.lanes(bits_of(element)))
    register, zeros = _register(element), f"<vscale x {NEON_BITS // bits_of(element)} x i32> zeroinitializer"
    first = w.emit(f"insertelement {register} poison, {element} {value}, i64 0")
    full = w.emit(f"shufflevector {register} {first}, {register} poison, {zeros}")
    part = out_of_register(w, element, per_register, full)
    if per_register == lanes:
        return part
    indices = ", ".join(f"i32 {lane % per_register}" for lane in range(lanes))
    type = vector(element, per_register)
    return w.emit(f"shufflevector {type} {part}, {type} poison, <{lanes} x i32> <{indices}>")


def shuffle(w: Emitter, type: str, first: str, second: str, indices: Sequence[int]) -> str | None:
    """Lanes of two vectors of `type`, by number; `second` may be "poison". None if LLVM's own way is good.

    Args:
        w: writes the text.
        type: LLVM's type of each vector.
        first, second: the vectors.
        indices: the lanes of the result, those of `second` behind those of `first`.
    """
    if second != "poison":
        return shuffle_of_two(w, type, (first, second), indices) if _is_scalable_pair(w, type, indices) else None
    return _repeat(w, type, first, len(indices)) if _is_repeated(w.target, type, indices) else None


def _is_scalable_pair(w: Emitter, type: str, indices: Sequence[int]) -> bool:
    """Whether `shuffle_of_two` can take these lanes of two vectors of `type`."""
    lanes, element = type[1:-1].split(" x ")
    return int(lanes) == len(indices) and is_scalable(w.target, element, len(indices))


def _is_repeated(target: Target, type: str, indices: Sequence[int]) -> bool:
    """Whether `indices` take all lanes of a NEON register again and again, into a scalable one."""
    lanes, element = type[1:-1].split(" x ")
    count = int(lanes)
    if count * bits_of(element) != NEON_BITS or not is_scalable(target, element, len(indices)):
        return False
    fits = len(indices) * bits_of(element) <= target.vector_bits
    return fits and all(index == lane % count for lane, index in enumerate(indices))


def _repeat(w: Emitter, type: str, value: str, lanes: int) -> str:
    """The vector that fills a NEON register, again and again."""
    count, element = type[1:-1].split(" x ")
    register, whole = in_register(w, element, int(count), value)
    name = f"llvm.aarch64.sve.dupq.lane.{_suffix(element)}"
    return out_of_register(w, element, lanes, w.call(register, name, [(register, whole), ("i64", "0")]))


def shuffle_of_two(w: Emitter, type: str, vectors: tuple[str, str], indices: Sequence[int]) -> str:
    """As many lanes of two vectors of `type` as each has, by number."""
    lanes, element = len(indices), type[1:-1].split(" x ")[1]
    if is_one_instruction(indices, bits_of(element)):
        return _shuffle(w, type, *vectors, indices)
    parts = [
        _shuffle(w, type, source, "poison", [i - start if 0 <= i - start < lanes else None for i in indices])
        for source, start in zip(vectors, (0, lanes), strict=True)
    ]
    chosen = ", ".join(f"i1 {int(i < lanes)}" for i in indices)
    return w.emit(f"select <{lanes} x i1> <{chosen}>, {type} {parts[0]}, {type} {parts[1]}")


def is_one_instruction(indices: Sequence[int], bits: int) -> bool:
    """Whether trn1, trn2, zip1, zip2, uzp1 or uzp2 gives these lanes of two vectors, of words of up to 64 bits."""
    lanes = len(indices)
    for group in (1 << n for n in range(4) if bits << n <= 64 and lanes >> n >= 2):
        starts = [i // group for i in indices[::group]]
        if [i * group + k for i in starts for k in range(group)] == list(indices) and starts in _known(lanes // group):
            return True
    return False


def _known(count: int) -> list[list[int]]:
    pairs = range(0, count, 2)
    transposed = [[lane for i in pairs for lane in (i + odd, count + i + odd)] for odd in (0, 1)]
    zipped = [[lane for i in range(half, half + count // 2) for lane in (i, count + i)] for half in (0, count // 2)]
    return [*transposed, *zipped, *(list(range(odd, 2 * count, 2)) for odd in (0, 1))]


def _shuffle(w: Emitter, type: str, first: str, second: str, indices: Sequence[int | None]) -> str:
    mask = ", ".join("i32 poison" if index is None else f"i32 {index}" for index in indices)
    return w.emit(f"shufflevector {type} {first}, {type} {second}, <{len(indices)} x i32> <{mask}>")


def _register(element: str) -> str:
    return f"<vscale x {NEON_BITS // bits_of(element)} x {element}>"


def _suffix(element: str) -> str:
    return f"nxv{NEON_BITS // bits_of(element)}{suffix(element)}"
