"""Buffers seen as others: the part of a view's memory that lies in a row, and what may be seen there.

m: 64x32xf32 in rows                      8192 bytes in a row
m[32:, :]                                 4096: they may be seen as 32x64xf16, or as less
m[:, 16:]                                 64: the next row begins behind the other half of this one
m[:, 16:], swizzled                       none, where the swizzle moves the start of the part
"""

from __future__ import annotations

from functools import cache
from math import prod

from tilewright.ir.types import MemDescType
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import NvmmaShared, PaddedShared, encoding
from tilewright.layouts.keys import power_of_two
from tilewright.layouts.queries import stored_shape
from tilewright.layouts.tensor_memory import Memory
from tilewright.layouts.tensor_memory import held_bits as held_in_tensor_memory
from tilewright.layouts.walk import dimension_names, shown

PATTERN_BITS = 8 * 1024
"""The size of the largest pattern of the copy engine's swizzles, in bits, at a multiple of which a buffer begins."""


def reason_against_reinterpreting(source: MemDescType, result: MemDescType) -> str | None:
    """Why the memory of `source` cannot be seen as `result`, which begins where it does; None if it can."""
    if not _is_whole(result):
        return f"{result} is a part of an allocation"
    if not all(map(power_of_two, result.shape[-encoding(result.encoding).rank :])):
        return f"every extent that the layout has must be a power of two, not {shown(result.shape)}"
    if _holes(source) != _holes(result):
        return "the layouts leave different holes between the elements"
    given, wanted = unbroken_bits(source), held_bits(result)
    if wanted > given:
        return f"it has {wanted} bits, and what it is made of {given} in a row"
    if isinstance(encoding(result.encoding), NvmmaShared) and start_alignment(source) % PATTERN_BITS:
        return "a part of a buffer begins inside of the swizzling pattern of its layout"
    return None


def _bits(type: MemDescType) -> int:
    """The width of an element in memory."""
    return max(type.bits, 8)


def held_bits(type: MemDescType) -> int:
    """The size of a whole buffer in the memory of one CTA; in tensor memory copies and holes count, too."""
    layout = encoding(type.encoding)
    if isinstance(layout, Memory):
        return held_in_tensor_memory(layout, type.shape, _bits(type))
    return prod(stored_shape(layout, type.shape)) * _bits(type)


def unbroken_bits(type: MemDescType) -> int:
    """The number of bits that a view has in a row from its start on.

    A part of a buffer has them as far as steps in memory stay inside of it. Its start has to be a multiple of them, or
    the swizzle of the whole buffer would order its elements otherwise.
    """
    if _is_whole(type):
        return held_bits(type)
    layout = encoding(type.encoding)
    if layout.rank != len(type.shape) or isinstance(layout, (PaddedShared, Memory)):
        return 0
    steps = to_linear_layout(layout, _whole_shape(type)).bases["offset"]
    inside = [all(place < extent for place, extent in zip(step, type.shape, strict=True)) for step in steps]
    count = inside.index(False) if False in inside else len(inside)
    return min(_bits(type) << count, start_alignment(type))


@cache
def start_alignment(type: MemDescType) -> int:
    """The distance, in bits, of which the start of a part of a buffer is a multiple; 0 for a whole buffer."""
    whole, found = _whole_shape(type), 0
    if _is_whole(type):
        return 0
    places = to_linear_layout(encoding(type.encoding), whole).pseudo_invert()
    for name, size, step in zip(dimension_names(len(whole)), whole, type.shape, strict=True):
        for distance in (step << more for more in range((size // step).bit_length() - 1)):
            found |= dict(zip(places.out_names, places.apply(**{name: distance}), strict=True))["offset"]
    return (found & -found) * _bits(type)


def _whole_shape(type: MemDescType) -> tuple[int, ...]:
    return type.alloc_shape[-len(type.shape) :]


def _is_whole(type: MemDescType) -> bool:
    return type.shape == _whole_shape(type)


def _holes(type: MemDescType) -> tuple[tuple[int, int], ...]:
    """The holes that a layout leaves, in bits."""
    layout = encoding(type.encoding)
    return tuple((a * _bits(type), b * _bits(type)) for a, b in layout.pads) if isinstance(layout, PaddedShared) else ()
