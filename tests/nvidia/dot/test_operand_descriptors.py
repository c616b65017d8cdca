"""Matrix descriptors: the simulator, told nothing else, finds every element where the layout has it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.backends.nvidia.lower.dot.operands_in_memory import Tile, describe
from tilewright.backends.ptxsim.matrix_descriptors import WGMMA_SWIZZLES, byte_addresses, read_descriptor
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import LayoutError, NvmmaShared, SharedLinear, SwizzledShared
from tilewright.layouts.linear_layout import LinearLayout

STEP_BYTES = 32
SHAPES = [(64, 16), (64, 64), (128, 64), (16, 128), (256, 32)]


def places_of(layout: NvmmaShared, shape: tuple[int, int]) -> LinearLayout:
    return to_linear_layout(layout, shape).pseudo_invert()


def check(places: LinearLayout, tile: Tile, bits: int, starts: list[tuple[int, int]]) -> int:
    """Compare every element of the parts that begin there; the swizzle that was found."""
    found = describe(places, tile, bits)
    assert found is not None
    size = bits // 8
    for row, depth in starts:
        begin = found.offset(*((row, depth) if tile.axis == 0 else (depth, row)))
        descriptor = read_descriptor(found.fixed + begin // 16, WGMMA_SWIZZLES)
        assert descriptor is not None
        seen = byte_addresses(descriptor, rows=tile.rows, depth=tile.depth, size=size, transposed=found.across)
        first = seen.reshape(tile.rows, tile.depth, size)[..., 0]
        names = places.ins
        wanted = np.empty_like(first)
        for r in range(tile.rows):
            for k in range(tile.depth):
                at = (row + r, depth + k) if tile.axis == 0 else (depth + k, row + r)
                wanted[r, k] = places.apply(**dict(zip(names, at, strict=True)))[0] * size
        assert first.tolist() == wanted.tolist()
    return found.swizzle


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_along_what_is_summed_over(swizzle: int, bits: int, axis: int) -> None:
    depth = STEP_BYTES * 8 // bits
    for outer, inner in SHAPES:
        shape = (outer, inner) if axis == 0 else (inner, outer)
        layout = NvmmaShared(swizzle, axis == 1, bits)
        try:
            places = places_of(layout, shape)
        except LayoutError:
            continue  # rows shorter than the swizzle
        rows = min(outer, 64)
        if depth > inner or (not swizzle and inner * bits != 128):
            continue  # without a swizzle this layout has whole rows, no pieces of 16 bytes
        found = check(places, Tile(axis, rows, depth), bits, [(0, 0), (outer - rows, inner - depth)])
        assert found == swizzle


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_across_what_is_summed_over(swizzle: int, axis: int) -> None:
    for outer, inner in SHAPES:
        shape = (outer, inner) if axis == 0 else (inner, outer)
        try:
            places = places_of(NvmmaShared(swizzle, axis == 0, 16), shape)
        except LayoutError:
            continue
        rows = min(outer, 64)
        assert check(places, Tile(axis, rows, 16), 16, [(0, 0), (outer - rows, inner - 16)]) == swizzle


def test_pieces_of_sixteen_bytes() -> None:
    """64 rows of 16 elements of f16 as two columns of pieces: eight rows of 16 bytes follow each other."""
    along_rows = [(1 << bit, 0) for bit in range(6)]
    pieces = SharedLinear(((0, 1), (0, 2), (0, 4), *along_rows, (0, 8)))
    places = to_linear_layout(pieces, (64, 16)).pseudo_invert()
    assert check(places, Tile(0, 64, 16), 16, [(0, 0)]) == 0
    turned = SharedLinear(((1, 0), (2, 0), (4, 0), (0, 1), (0, 2), (0, 4), (8, 0), (16, 0), (32, 0), (0, 8)))
    assert check(to_linear_layout(turned, (64, 16)).pseudo_invert(), Tile(0, 64, 16), 16, [(0, 0)]) == 0


def test_layouts_that_no_instruction_reads() -> None:
    swizzled = SwizzledShared(2, 1, 4, (1, 0))
    assert describe(to_linear_layout(swizzled, (64, 16)).pseudo_invert(), Tile(0, 64, 16), 16) is None
    plain = places_of(NvmmaShared(0, False, 16), (64, 64))
    assert describe(plain, Tile(0, 64, 16), 16) is None  # a row of 128 bytes without a swizzle
    assert describe(plain, Tile(0, 128, 16), 16) is None  # larger than the buffer
