"""Tensor memory: rows and columns of a tile, and the layouts in which warps reach it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import LayoutError, TensorMemory, TensorMemoryScales, encoding
from tilewright.layouts.tensor_memory import Access, access_layout, allocated, compatible_layouts, with_stride

sys.path.insert(0, str(Path(__file__).parent))

from layout_oracle import asked


def test_a_lane_has_a_row() -> None:
    layout = TensorMemory(128, 64, 1)
    found = access_layout(layout, (128, 64), bits=32, warps=4)
    assert found is not None
    assert found.lane == ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0))
    assert found.warp == ((32, 0), (64, 0))
    assert found.register == tuple((0, 1 << bit) for bit in range(6))
    assert len(compatible_layouts(layout, (128, 64), bits=32, warps=8)) == 5


def test_scales_are_copied_to_every_warp() -> None:
    memory = to_linear_layout(TensorMemoryScales(), (128, 8))
    assert memory.bases["row"] == ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (0, 0), (0, 0))
    assert memory.bases["col"] == ((0, 1), (0, 2), (32, 0), (64, 0), (0, 4))


def test_the_form_of_351_needs_the_width_of_elements() -> None:
    old = encoding("#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, unpacked = true, CTASplitM = 2>")
    assert isinstance(old, TensorMemory)
    assert with_stride(old, 16) is TensorMemory(128, 64, 2, cga=((1, 0),))
    assert allocated(old, (256, 64), 16) == (128, 64)
    with pytest.raises(LayoutError, match="before the width of elements is known"):
        to_linear_layout(old, (256, 64))


def test_allocations() -> None:
    assert allocated(TensorMemory(128, 64, 1), (128, 64), 32) == (128, 64)
    assert allocated(TensorMemory(64, 64, 1), (64, 64), 32) == (64, 64)
    assert allocated(TensorMemory(128, 64, 1), (2, 128, 64), 16) == (128, 64)


def test_accesses_that_are_impossible() -> None:
    assert access_layout(TensorMemory(128, 1, 1), (128, 1), bits=32, warps=4, access=Access.ROWS_16_64) is None
    with pytest.raises(LayoutError, match="needs 4 warps"):
        access_layout(TensorMemory(128, 64, 1), (128, 64), bits=32, warps=2)
    with pytest.raises(LayoutError, match="has blocks larger than 64x64"):
        to_linear_layout(TensorMemory(128, 64, 1), (64, 64))


def random_case(random: Random) -> tuple[TensorMemory, tuple[int, int], int]:
    """A layout, a tile and the width of elements."""
    bits = random.choice([8, 16, 32])
    stride = random.choice([1, 32 // bits])
    cga = random.choice([(), (), ((1, 0),), ((0, 1),), ((1, 0), (0, 1))])
    two = cga[:1] == ((1, 0),) and random.random() < 0.5
    block = random.choice([64, 128]), random.choice([2, 4, 8, 16, 32, 64, 128])
    tile = [block[0] * (1 if two else random.choice([1, 1, 2])), block[1] * random.choice([1, 1, 2])]
    for row in cga:
        tile = [size * max(1, 2 * step) for size, step in zip(tile, row, strict=True)]
    return TensorMemory(*block, stride, two_ctas=two, cga=cga), (tile[0], tile[1]), bits


def test_drawn_tiles(golden: Callable[[str, str], None]) -> None:
    """The layouts in which warps reach a tile; the slow test below asks Triton about 400 others."""
    lines, random = [], Random(1)
    for _ in range(24):
        layout, shape, bits = random_case(random)
        warps = random.choice([4, 8])
        lines.append(f"{layout.text} {shape[0]}x{shape[1]} of {bits} bits, {warps} warps\n")
        lines += [f"    {found.text}\n" for found in compatible_layouts(layout, shape, bits=bits, warps=warps)]
    golden("".join(lines), "layouts/tensor_memory.txt")


@pytest.mark.needs_triton_python
@pytest.mark.slow
def test_random_layouts_agree_with_triton() -> None:
    random = Random("tensor memory")
    cases, expected = [], []
    for _ in range(400):
        layout, shape, bits = random_case(random)
        warps, access = random.choice([4, 8]), random.choice(list(Access))
        block = layout.block_m, layout.block_n
        cases.append([block, layout.column_stride, layout.cga, layout.two_ctas, shape, bits, warps, access.value])
        memory = to_linear_layout(layout, shape).bases
        found = access_layout(layout, shape, bits=bits, warps=warps, access=access)
        answer: Any = [memory["row"], memory["col"], found and found.all_bases]
        expected.append(json.loads(json.dumps(answer)))
    assert asked("tensor_memory", cases) == expected
