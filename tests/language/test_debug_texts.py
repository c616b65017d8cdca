"""The texts that `static_print` shows of values that have no numbers yet."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def shows(x_ptr, BLOCK: tl.constexpr):
    tile = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.static_print("", tile, tl.sum(tile), BLOCK, x_ptr, sep=" | ")


def test_types_of_tiles(capsys: pytest.CaptureFixture[str]) -> None:
    shows.warmup(np.zeros(16, np.int32), BLOCK=16, grid=(1,))
    assert capsys.readouterr().out == " | int32[constexpr[16]] | int32[] | 16 | pointer<int32>[]\n"


@tw.jit
def shows_tuples(n, BLOCK: tl.constexpr):
    tile = tl.zeros((BLOCK, 4), tl.float32)
    tl.static_print(tile.shape, (n, (BLOCK, "a")), (tile,))


def test_tuples(capsys: pytest.CaptureFixture[str]) -> None:
    shows_tuples.warmup(5, BLOCK=16, grid=(1,))
    expected = "['16', '4'] ['int32[]', \"['16', 'a']\"] ['fp32[constexpr[16], constexpr[4]]']\n"
    assert capsys.readouterr().out == expected
