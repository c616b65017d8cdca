"""Masks as integers, and workarounds for LLVM 22's miscompilation of masks with AVX-512.

    first, last = lane_flags(w, mask, 4, (0, 3))   i1 each
    found = any_lane(w, mask, 4)                   i1
    value = kept_apart(w, type, value)             the same value, of which LLVM knows nothing

With AVX-512, LLVM combines the instruction that makes a mask of signs (`vpmovd2m`) and the one that moves it to a
general register (`kmovd`) into one (`vmovmskps`). The mask register is then never set, although an instruction that
sets all its bits still reads it (`korb %k2, %k0, %k0`; llvm/llvm-project#198197), and the vector may be in a register
that `vmovmskps` cannot encode (#191304). Therefore no mask that LLVM can analyse is moved to a general register: an
empty inline assembly hides where it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.spelling import bits_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Value

SMALLEST_MASK = 8
"""The number of lanes of the narrowest mask that a register for masks is asked for."""
LARGEST_MASK = 64
"""The number of lanes that a register for masks has room for."""
FLAG = "i32"
"""The type of an element of a mask that goes from block to block, as most elements under masks have 32 bits."""


def lane_flags(w: LlvmWriter, mask: str, lanes: int, wanted: Sequence[int]) -> list[str]:
    """The wanted lanes of a mask, in ascending order, each as an i1."""
    if lanes == 1:
        return [mask] * len(wanted)
    if not w.target.has_avx512f:
        return [w.extract(vector("i1", lanes), mask, lane) for lane in wanted]
    if lanes > LARGEST_MASK:
        half = lanes // 2
        low, high = (w.slice(mask, "i1", lanes, start, half) for start in (0, half))
        below, above = [lane for lane in wanted if lane < half], [lane - half for lane in wanted if lane >= half]
        return lane_flags(w, low, half, below) + lane_flags(w, high, half, above)
    type, number = _as_number(w, mask, lanes)
    shifted = [w.emit(f"lshr {type} {number}, {lane}") if lane else number for lane in wanted]
    return [w.emit(f"trunc {type} {one} to i1") for one in shifted]


def any_lane(w: LlvmWriter, mask: str, lanes: int) -> str:
    """Whether a lane of a mask is set, as an i1."""
    if lanes == 1:
        return mask
    if w.target.has_avx512f and lanes < SMALLEST_MASK:  # masks of more lanes are tested where they are (`kortest`)
        type, number = _as_number(w, mask, lanes)
        return w.emit(f"icmp ne {type} {w.emit(f'and {type} {number}, {(1 << lanes) - 1}')}, 0")
    return w.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", [(vector("i1", lanes), mask)])


def all_lanes(w: LlvmWriter, mask: str, lanes: int) -> str:
    """Whether all lanes of a mask of several are set, as an i1."""
    return w.call("i1", f"llvm.vector.reduce.and.v{lanes}i1", [(vector("i1", lanes), mask)])


def spread_flag(w: LlvmWriter, flag: str, lanes: int) -> str:
    """An i1 as numbers, one per lane, that are negative where it is set: `flags_of` makes a mask of them.

    Where masks have no registers, LLVM takes a mask of eight lanes that comes from another block for eight numbers of
    16 bits, and widens it before each access of 32-bit elements by five instructions.
    """
    return w.splat(w.convert("sext", flag, "i1", FLAG), FLAG, lanes)


def flags_of(w: LlvmWriter, numbers: str, lanes: int) -> str:
    """The mask of the lanes whose number is negative."""
    return w.emit(f"icmp slt {vector(FLAG, lanes)} {numbers}, zeroinitializer")


def is_known(value: Value) -> bool:
    """Whether `value` is computed of constants alone."""
    waiting, seen = [value], {value}
    while waiting:
        op = waiting.pop().op
        if op is None or op.regions:
            return False
        new = [operand for operand in op.operands if operand not in seen]
        seen.update(new)
        waiting += new
    return True


def kept_apart(w: LlvmWriter, type: str, value: str, register: str = "v") -> str:
    """The same value in a register of a kind, as if another instruction had made it."""
    return w.emit(f'call {type} asm "", "={register},0"({type} {value})')


def vector_kept_apart(w: LlvmWriter, element: str, lanes: int, value: str) -> str:
    """The same for a vector. One of 64 bits, for which LLVM has no register, goes through it as a number."""
    type = vector(element, lanes)
    held = "double" if bits_of(element) * lanes == 64 else type
    return w.convert("bitcast", kept_apart(w, held, w.convert("bitcast", value, type, held)), held, type)


def _as_number(w: LlvmWriter, mask: str, lanes: int) -> tuple[str, str]:
    """An integer whose bits are the lanes, from the lowest on; those beyond may be anything. Its type comes first."""
    width = max(lanes, SMALLEST_MASK)
    if width > lanes:
        mask = w.shuffle(vector("i1", lanes), mask, "poison", [*range(lanes), *[lanes] * (width - lanes)])
    type, held = f"i{width}", vector("i1", width)
    return type, w.convert("bitcast", kept_apart(w, held, mask, "k"), held, type)
