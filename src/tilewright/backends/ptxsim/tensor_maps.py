"""The 128 bytes that describe a tensor to the copy engine, as this simulator writes and reads them.

    map = TensorMap(address, "f16", shape=(64, 128), strides=(256,), box=(64, 64), swizzle=128)   # innermost first
    map.encode()                                # 128 bytes, which a launch passes by value
    decode(raw).box                             # as the device reads it, also after `tensormap.replace`

NVIDIA does not publish the format, so this one is the simulator's own: every field that `tensormap.replace` can change
has its bytes, and 128 zeros are a valid map to start from. Dimensions are listed innermost first everywhere.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.ptxsim.matrix_descriptors import swizzled

SIZE = 128
DIMENSIONS = 5
AXES = 3
"""The most axes of an image."""
_FORMAT = struct.Struct("<QBBBBB?2x5I5I5I4x4Q3h3h")
ELEMENTS = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32ftz", "f64", "bf16", "tf32", "tf32ftz",
    "b4x16", "b4x16_p64", "b6x16_p32",
)
"""Types of elements by their number in a map."""
BITS = {
    "u8": 8, "u16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64, "f16": 16, "f32": 32, "f32ftz": 32, "f64": 64,
    "bf16": 16, "tf32": 32, "tf32ftz": 32, "b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6,
}
SWIZZLES = {0: 0, 1: 32, 2: 64, 3: 128}
FIELDS: dict[str, tuple[int, int, int]] = {
    "global_address": (0, 8, 1),
    "rank": (8, 1, 1),
    "elemtype": (9, 1, 1),
    "interleave_layout": (10, 1, 1),
    "swizzle_mode": (11, 1, 1),
    "fill_mode": (12, 1, 1),
    "box_dim": (16, 4, DIMENSIONS),
    "element_stride": (36, 4, DIMENSIONS),
    "global_dim": (56, 4, DIMENSIONS),
    "global_stride": (80, 8, DIMENSIONS - 1),
}
"""The fields that `tensormap.replace` can change: first byte, bytes of one number, how many there are."""
NAN_BITS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f32ftz": 0x7FFFFFFF, "tf32": 0x7FFFFFFF}


MAX_PIXELS = 1024
"""The most pixels that one copy of images moves."""


class MapError(ValueError):
    """A map that the copy engine would refuse."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the box that one copy moves; dimensions innermost first.

    Attributes:
        address: of its first element; a multiple of 16.
        element: a member of `ELEMENTS`.
        shape: elements along each dimension.
        strides: bytes from one place to the next, for all dimensions but the innermost; multiples of 16.
        box: elements of the box along each dimension, 1 to 256; of images the channels, and 1 to 1024 pixels.
        swizzle: of the box in shared memory: 0, 32, 64 or 128 bytes.
        element_strides: every how-manyth element is taken.
        fill_nan: whether elements outside the tensor are NaN, not zero.
        lower, upper: of images, the corners of the box of pixels, from the first and from the last pixel; else empty.
    """

    address: int
    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    element_strides: tuple[int, ...] = ()
    fill_nan: bool = False
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """The 128 bytes."""
        mode = next(number for number, width in SWIZZLES.items() if width == self.swizzle)
        steps = self.element_strides or (1,) * len(self.shape)
        numbers = [
            *_padded(self.box, DIMENSIONS),
            *_padded(steps, DIMENSIONS),
            *_padded(self.shape, DIMENSIONS),
            *_padded(self.strides, DIMENSIONS - 1),
            *_padded(self.lower, AXES),
            *_padded(self.upper, AXES),
        ]
        kind = ELEMENTS.index(self.element), 0, mode
        head = (self.address, len(self.shape) - 1, *kind, self.fill_nan, bool(self.lower))
        return _FORMAT.pack(*head, *numbers).ljust(SIZE, b"\0")

    @property
    def padded(self) -> bool:
        """Whether 16 elements take 16 bytes of shared memory although they have fewer."""
        return "_p" in self.element

    @property
    def unit(self) -> tuple[int, int, int]:
        """The unit that is copied whole: its elements, its bytes in global memory, and its bytes in shared memory."""
        if BITS[self.element] < 8:
            width = 16 * BITS[self.element] // 8
            return 16, width, 16 if self.padded else width
        width = BITS[self.element] // 8
        return 1, width, width


def _padded(numbers: tuple[int, ...], length: int) -> list[int]:
    return [*numbers, *[0] * (length - len(numbers))]


def decode(raw: bytes) -> TensorMap:
    """The map of 128 bytes.

    Raises:
        MapError: the copy engine would refuse it, or it is of a kind that is not modelled.
    """
    address, last, kind, interleave, mode, fill, of_images, *numbers = _FORMAT.unpack(raw[: _FORMAT.size])
    rank = last + 1
    if rank > DIMENSIONS or kind >= len(ELEMENTS) or mode not in SWIZZLES or interleave:
        raise MapError(f"rank {rank}, element {kind}, swizzle {mode}, interleave {interleave} are not modelled")
    box, steps, shape, strides = numbers[:5], numbers[5:10], numbers[10:15], numbers[15:19]
    axes = rank - 2 if of_images else 0
    found = TensorMap(
        address=address,
        element=ELEMENTS[kind],
        shape=tuple(shape[:rank]),
        strides=tuple(strides[: rank - 1]),
        box=tuple(box[: 2 if of_images else rank]),
        swizzle=SWIZZLES[mode],
        element_strides=tuple(steps[:rank]),
        fill_nan=bool(fill),
        lower=tuple(numbers[19 : 19 + axes]),
        upper=tuple(numbers[22 : 22 + axes]),
    )
    _check(found)
    return found


def _check(found: TensorMap) -> None:
    if found.address % 16:
        raise MapError(f"the tensor's address {found.address:#x} is no multiple of 16")
    if any(stride % 16 or stride >= 1 << 40 for stride in found.strides):
        raise MapError(f"the strides {found.strides} are not all multiples of 16 bytes below 2**40")
    longest = (256, MAX_PIXELS) if found.lower else (256,) * len(found.box)
    if not all(1 <= size <= most for size, most in zip(found.box, longest, strict=True)) or not all(found.shape):
        raise MapError(f"a box of {found.box} of a tensor of {found.shape}: a box has 1 to 256 places, a tensor some")
    if not all(1 <= step <= 8 for step in found.element_strides):
        raise MapError(f"the element strides {found.element_strides} are not all from 1 to 8")
    elements, _, width = found.unit
    if found.box[0] % elements:
        raise MapError(f"the box's innermost extent {found.box[0]} is no multiple of {elements}")
    inner = found.box[0] // elements * width
    if inner % 16 or (found.swizzle and inner > found.swizzle):
        raise MapError(f"the box's innermost {inner} bytes are no multiple of 16, or more than the swizzle's width")


@dataclass(frozen=True)
class Box:
    """The bytes that one copy moves.

    Attributes:
        shared: offsets into shared memory before the swizzle, one for each unit.
        global_: addresses in global memory, one for each unit.
        inside: which units belong to the tensor.
        size, shared_size: bytes of a unit in global and in shared memory.
    """

    shared: NDArray[np.int64]
    global_: NDArray[np.int64]
    inside: NDArray[np.bool_]
    size: int
    shared_size: int


def box_at(map: TensorMap, corner: tuple[int, ...], rows: tuple[int, ...] = ()) -> Box:
    """The box whose first element has these coordinates, innermost first.

    Args:
        rows: for gather and scatter: the places in dimension 1, each of which moves one row of the box.
    """
    elements, size, shared_size = map.unit
    extents = (map.box[0] // elements, *map.box[1:]) if not rows else (map.box[0] // elements, len(rows))
    place = np.indices(extents[::-1], dtype=np.int64).reshape(len(extents), -1)[::-1]
    at = [corner[d] + place[d] * map.element_strides[d] * (elements if d == 0 else 1) for d in range(len(extents))]
    if rows:
        at[1] = np.array(rows, np.int64)[place[1]]
    inside = np.all([(position >= 0) & (position < map.shape[d]) for d, position in enumerate(at)], axis=0)
    steps = (size, *map.strides)
    first = at[0] // elements
    address = map.address + first * steps[0] + sum(at[d] * steps[d] for d in range(1, len(at)))
    shared = np.arange(place.shape[1], dtype=np.int64) * shared_size
    return Box(shared, np.asarray(address, np.int64), inside, size, shared_size)


def pixels_at(map: TensorMap, corner: tuple[int, ...], offsets: tuple[int, ...]) -> Box:
    """The pixels of images from the one at `corner` on, with some channels of each; innermost first.

    A copy goes through the pixels of the box, whose corners the map says, row after row and image after image. The
    elements are at a distance of `offsets` from each; outside of an image they are filled.
    """
    elements, size, shared_size = map.unit
    channels, count = map.box[0] // elements, map.box[1]
    pixels = np.array(_walked(map, corner[1:], count), np.int64).T
    pixels[: len(offsets)] += np.array(offsets, np.int64)[:, None]
    at = [np.tile(corner[0] + np.arange(channels, dtype=np.int64) * elements, count)]
    at += [np.repeat(axis, channels) for axis in pixels]
    inside = np.all([(place >= 0) & (place < extent) for place, extent in zip(at, map.shape, strict=True)], axis=0)
    address = map.address + at[0] // elements * size
    for place, stride in zip(at[1:], map.strides, strict=True):
        address = address + place * stride
    shared = np.arange(channels * count, dtype=np.int64) * shared_size
    return Box(shared, address, inside, size, shared_size)


def _walked(map: TensorMap, start: tuple[int, ...], count: int) -> list[list[int]]:
    """Pixels, each with the number of its image last: `count` of them from `start` on."""
    last = [extent - 1 + corner for extent, corner in zip(map.shape[1:], map.upper, strict=False)]
    pixel, found = list(start), []
    for _ in range(count):
        found.append(list(pixel))
        for axis, end in enumerate(last):
            pixel[axis] += map.element_strides[axis + 1]
            if pixel[axis] <= end:
                break
            pixel[axis] = map.lower[axis]
        else:
            pixel[-1] += 1
    return found


def shared_addresses(box: Box, start: int, swizzle: int) -> NDArray[np.int64]:
    """Addresses in shared memory of every byte that a copy moves: (unit, byte)."""
    offsets = start + box.shared[:, None] + np.arange(box.size, dtype=np.int64)
    return swizzled(offsets, swizzle)


def fill_bytes(map: TensorMap, size: int) -> NDArray[np.uint8]:
    """The bytes of one unit outside the tensor."""
    bits = NAN_BITS.get(map.element, 0) if map.fill_nan else 0
    return np.frombuffer(bits.to_bytes(size, "little"), np.uint8)


def rounded(element: str, content: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes that a load puts into shared memory for whole elements: those of a map of tf32 are rounded to it.

    The nearest number with ten bits of fraction is taken, of two the even one; infinities and NaNs stay.
    """
    if element not in ("tf32", "tf32ftz"):
        return content
    bits = content.view("<u4").astype(np.uint64)
    nearest = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000
    special = bits & 0x7F800000 == 0x7F800000
    return np.where(special, bits, nearest).astype("<u4").view(np.uint8)
