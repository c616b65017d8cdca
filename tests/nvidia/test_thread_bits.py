"""Parts of the thread's number have a width in PTX where many places are made of one, and are the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia.ptx_text import MANY, MANY_WIDE, bound_thread_bits

START = ".visible .entry k()\n.reqntid 128\n{\n"
THREAD = "\tmov.u32 \t%r1, %tid.x;\n"
SHIFT = "\tshr.u32 \t%r2, %r1, 6;\n"
PLACES = "".join(f"\tor.b32 \t%r{number + 3}, %r2, {2 * number};\n" for number in range(MANY))
FEW = PLACES[: PLACES.rindex("\tor")]
WIDE = [
    f"\tor.b32 \t%r{number + 3}, %r2, {2 * number};\n\tcvt.u64.u32 \t%rd{number}, %r{number + 3};\n"
    for number in range(MANY_WIDE)
]
NARROW = WIDE[-1][: WIDE[-1].index("\tcvt")]


def test_many_places_have_a_width() -> None:
    bounded = "\tbfe.u32 \t%r2, %r1, 6, 1;\n"
    assert bound_thread_bits(f"{START}{THREAD}{SHIFT}{PLACES}}}\n") == f"{START}{THREAD}{bounded}{PLACES}}}\n"


def test_some_places_of_64_bits_have_a_width() -> None:
    places, bounded = "".join(WIDE), "\tbfe.u32 \t%r2, %r1, 6, 1;\n"
    assert bound_thread_bits(f"{START}{THREAD}{SHIFT}{places}}}\n") == f"{START}{THREAD}{bounded}{places}}}\n"


@pytest.mark.quick
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{START}{THREAD}{SHIFT}{FEW}}}\n", id="few places"),
        pytest.param(f"{START}{THREAD}{SHIFT}{''.join(WIDE[:-1])}}}\n", id="few places of 64 bits"),
        pytest.param(f"{START}{THREAD}{SHIFT}{''.join(WIDE[:-1])}{NARROW}}}\n", id="a place of 32 bits among few"),
        pytest.param(f".func k()\n{{\n{THREAD}{SHIFT}{PLACES}}}\n", id="as many threads as the caller has"),
        pytest.param(f"{START}}}\n.func f()\n{{\n{THREAD}{SHIFT}{PLACES}}}\n", id="the registers of a function"),
        pytest.param(f"{START}{THREAD}\tadd.s32 \t%r1, %r1, 128;\n{SHIFT}{PLACES}}}\n", id="the step of a loop"),
        pytest.param(f"{START}{THREAD}\tmov.b64 \t{{%r9, %r1}}, %rd1;\n{SHIFT}{PLACES}}}\n", id="a half of something"),
        pytest.param(f"{START}{THREAD}\t{{ foo; bar.b32 %r1, %r1, 3; }}\n{SHIFT}{PLACES}}}\n", id="assembly sets it"),
        pytest.param(f"{START}{THREAD}\tshr.u32 \t%r2, %r7, 6;\n{PLACES}}}\n", id="another number"),
        pytest.param(f"{START}{THREAD}\tshr.u32 \t%r2, %r1, 7;\n{PLACES}}}\n", id="no bits are left"),
        pytest.param(START.replace("128", "16, 8") + f"{THREAD}{SHIFT}{PLACES}}}\n", id="threads in two dimensions"),
    ],
)
def test_what_has_no_width(text: str) -> None:
    assert bound_thread_bits(text) == text


@tw.jit
def transposed(x, y, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=inside)
    tl.store(y + column[:, None] * rows + row[None, :], tl.trans(tile), mask=tl.trans(inside))


def test_a_transposition_has_many_places() -> None:
    x, y = np.arange(70 * 90, dtype=np.int32).reshape(70, 90), np.zeros((90, 70), np.int32)
    with tw.simulate("cuda:80"):
        text = transposed[(2, 2)](x, y, 70, 90, BLOCK=64).asm["ptx"]
    np.testing.assert_array_equal(y, x.T)
    assert "bfe.u32 \t" in text
