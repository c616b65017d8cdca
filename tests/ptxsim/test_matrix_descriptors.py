"""Descriptors say that a matrix lies where swizzled copies put it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.backends.ptxsim.matrix_descriptors import (
    TENSOR_MEMORY_SWIZZLES,
    WGMMA_SWIZZLES,
    byte_addresses,
    read_descriptor,
    swizzled,
)

pytestmark = pytest.mark.quick


def descriptor(start: int, *, leading: int = 0, stride: int, swizzle: int) -> int:
    """The word that `wgmma` takes; distances in bytes."""
    mode = next(mode for mode, width in WGMMA_SWIZZLES.items() if width == swizzle)
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_rows_of_the_depth_are_swizzled_rows(width: int, size: int) -> None:
    depth = width // size
    found = read_descriptor(descriptor(1024, stride=8 * width, swizzle=width), WGMMA_SWIZZLES)
    assert found is not None
    got = byte_addresses(found, rows=64, depth=depth, size=size, transposed=False)
    assert (got == swizzled(1024 + np.arange(64 * width).reshape(64, width), width)).all()


@pytest.mark.parametrize("width", [32, 64, 128])
def test_transposed_rows_are_swizzled_rows_of_the_depth(width: int) -> None:
    """Two blocks of `width` bytes next to each other, of 16 places of the depth."""
    rows = width  # of two bytes: two blocks
    found = read_descriptor(descriptor(0, leading=16 * width, stride=8 * width, swizzle=width), WGMMA_SWIZZLES)
    assert found is not None
    got = byte_addresses(found, rows=rows, depth=16, size=2, transposed=True).reshape(rows, 16, 2)[..., 0]
    row, place = np.ogrid[:rows, :16]
    plain = row // (width // 2) * 16 * width + place * width + row % (width // 2) * 2
    assert (got == swizzled(plain, width)).all()


def test_blocks_without_a_swizzle() -> None:
    found = read_descriptor(descriptor(0, leading=128, stride=4096, swizzle=0), WGMMA_SWIZZLES)
    assert found is not None
    straight = byte_addresses(found, rows=16, depth=16, size=2, transposed=False)
    assert [int(straight[row, byte]) for row, byte in ((0, 2), (1, 0), (0, 16), (8, 0))] == [2, 16, 128, 4096]
    across = byte_addresses(found, rows=16, depth=16, size=2, transposed=True)
    assert [int(across[row, byte]) for row, byte in ((1, 0), (0, 2), (8, 0), (0, 16))] == [2, 16, 4096, 128]


def test_descriptors_that_are_not_modelled() -> None:
    assert read_descriptor(1 << 49, WGMMA_SWIZZLES) is not None
    assert read_descriptor(1 << 62 | 1 << 49, WGMMA_SWIZZLES) is None
    assert read_descriptor(1 << 52, TENSOR_MEMORY_SWIZZLES) is None
    assert read_descriptor(1 << 61, TENSOR_MEMORY_SWIZZLES) is None
    found = read_descriptor(2 << 61 | 1 << 46, TENSOR_MEMORY_SWIZZLES)
    assert found is not None
    assert found.swizzle == 128
