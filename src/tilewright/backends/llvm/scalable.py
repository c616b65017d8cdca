"""Vectors of a fixed length on AArch64's scalable vectors (SVE), where LLVM's own way goes through memory.

LLVM keeps a vector of a fixed length in the first lanes of a scalable one if the function says how long those are
(`vscale_range`), and has instructions for most of what is done to them. Not for:

    lanes of two vectors, but for trn, zip, uzp     built lane by lane on the stack     tbl, tbl, sel
    a number from memory in all lanes               ldr, dup                            ld1rw
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.spelling import bits_of, suffix, vector

NEON_BITS = 128
"""Vectors of so many bits or fewer are NEON's, whose instructions are there, too."""


class Emitter(Protocol):
    """What is needed of a writer."""

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


def is_shuffled_here(target: Target, type: str, count: int) -> bool:
    """Whether `shuffle_of_two` can take `count` lanes of two vectors of `type`."""
    if not target.has_sve:
        return False
    lanes, element = type[1:-1].split(" x ")
    return int(lanes) == count and is_scalable(target, element, count)


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
