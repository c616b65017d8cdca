"""Layouts become the linear layouts that Triton 3.9 makes of them.

The golden file holds some layouts of every kind; the slow test asks Triton's wheel about 6,500 random ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tilewright.layouts.conversion import tma_box, to_linear_layout
from tilewright.layouts.encodings import LayoutError, NvmmaShared, encoding
from tilewright.layouts.linear_layout import LinearLayout

sys.path.insert(0, str(Path(__file__).parent))

from layout_oracle import asked
from random_layouts import KINDS, as_triton_call, random_layout

FIGURES = Path(__file__).parents[1] / "goldens" / "layouts" / "figures.txt"
PER_KIND = 500
KNOWN_TO_TRITON = tuple(kind for kind in KINDS if kind != "padded")
"""Triton has linear layouts of padded buffers, but `to_linear_layout` does not give them."""
NAMES = {
    "reg_bases": "register",
    "lane_bases": "lane",
    "warp_bases": "warp",
    "block_bases": "block",
    "offset_bases": "offset",
}


def figures(layout: LinearLayout) -> str:
    """The bases in one line."""
    parts = (f"{name} {' '.join(','.join(map(str, row)) for row in rows)}" for name, rows in layout.bases.items())
    return " | ".join(parts)


def test_some_layouts_of_every_kind(golden: Callable[[str, str], None]) -> None:
    lines = []
    for line in FIGURES.read_text().splitlines()[::2]:
        text, extents = line.rsplit(" ", 1)
        shape = tuple(map(int, extents.split("x")))
        lines += [line, "    " + figures(to_linear_layout(encoding(text), shape))]
    golden("\n".join(lines) + "\n", "layouts/figures.txt")


def test_boxes_of_the_copy_engine() -> None:
    """A box is as wide as the swizzle, in elements as memory has them: padded nibbles are half as many."""
    assert tma_box(NvmmaShared(128, transposed=False, element_bit_width=16), (64, 256)) == (64, 64)
    assert tma_box(NvmmaShared(64, transposed=True, element_bit_width=16), (256, 64)) == (32, 64)
    assert tma_box(NvmmaShared(128, transposed=False, element_bit_width=8, fp4_padded=True), (64, 128)) == (64, 64)
    assert tma_box(NvmmaShared(0, transposed=False, element_bit_width=8), (8, 512)) == (8, 256)
    with pytest.raises(LayoutError, match="needs 64 elements along dimension 1, but a block of the tile has 32"):
        tma_box(NvmmaShared(128, transposed=False, element_bit_width=16), (64, 32))


def test_a_tile_has_at_least_as_many_rows_as_pieces() -> None:
    inner = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    facts = "numPartitions = 2, numGroups = 4, partitionDim = 0"
    text = f"#ttg.partitioned_shared<{{{facts}, partitionLayout = {inner}}}>"
    assert to_linear_layout(encoding(text), (8, 4)).bases["partition"] == ((1, 0),)
    with pytest.raises(LayoutError, match="8 pieces of dimension 0, but its extent is 4"):
        to_linear_layout(encoding(text), (4, 4))


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("kind", KNOWN_TO_TRITON)
def test_random_layouts_agree_with_triton(kind: str) -> None:
    random = Random(kind)
    cases = [random_layout(random, kind) for _ in range(PER_KIND)]
    answers = asked("linear", [[as_triton_call(layout), shape] for layout, shape in cases])
    for (layout, shape), answer in zip(cases, answers, strict=True):
        expected = {NAMES[name]: tuple(map(tuple, rows)) for name, rows in answer["bases"].items()}
        assert to_linear_layout(layout, shape).bases == expected, f"{layout.text} {shape}"
        assert encoding(layout.text) is layout
        assert layout.text in answer["text"] or not answer["text"]


BLOCKED = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
MISFITS = [
    (BLOCKED, (64,)),
    (BLOCKED, (48, 64)),
    (BLOCKED, (0, 64)),
    ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>", (64, 32)),
    ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>", (32, 64)),
    ("#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>", (4, 16)),
    ("#ttg.padded_shared<[64:+4] {order = [1, 0], shape = [16, 32]}>", (16, 64)),
    ("#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}, alignment = 16>", (4, 4)),
    ("#ttg.nvidia_mma<{versionMajor = 1, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>", (16, 16)),
    (
        "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [1, 4, 1], instrShape = [16, 8, 16]}>",
        (1, 64, 8),
    ),
    ("#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, unpacked = true>", (128, 64)),
]


def test_layouts_that_do_not_fit_say_why(golden: Callable[[str, str], None]) -> None:
    lines = []
    for text, shape in MISFITS:
        with pytest.raises(LayoutError) as caught:
            to_linear_layout(encoding(text), shape)
        lines.append(f"{text} {'x'.join(map(str, shape))}\n    {caught.value}\n")
    golden("".join(lines), "layouts/misfits.txt")


def test_padded_layouts_are_linear_before_their_padding() -> None:
    rows = ((0, 1), (0, 2), (2, 0), (1, 0))
    padded = encoding("#ttg.padded_shared<[8:+4] {offset = [[0, 1], [0, 2], [2, 0], [1, 0]], block = []}>")
    assert to_linear_layout(padded, (4, 4)).bases == {"offset": rows, "block": ()}
    old = encoding("#ttg.padded_shared<[8:+4] {order = [0, 1]}>")
    assert to_linear_layout(old, (2, 4)).bases["offset"] == ((1, 0), (0, 1), (0, 2))
