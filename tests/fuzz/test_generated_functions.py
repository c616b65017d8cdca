"""Functions of elements that are drawn at random give what Python gives, mapped over tiles and vectorized."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from element_functions import function_text
from ways_to_run import module_of

import tilewright as tw
import tilewright.language as tl

SIZE = 64


@tw.jit
def mapped(x, y, out, FUNCTION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(FUNCTION, tl.load(x + i), tl.load(y + i)))


def check(seed: int, folder: Path) -> None:
    """One function: both ways give what Python gives."""
    text = function_text(Random(seed))
    function = module_of(text, folder).function
    x, y = (np.random.default_rng(crc32(text.encode()) + n).integers(0, 40, SIZE).astype(np.int32) for n in (0, 1))
    expected = [function(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    given: dict[str, Any] = {"mapped": np.zeros_like(x), "vectorized": tw.vectorize(function)(x, y)}
    mapped[(1,)](x, y, given["mapped"], tw.jit(function), N=SIZE)
    for way, found in given.items():
        np.testing.assert_array_equal(found, expected, err_msg=f"{way}, seed {seed}\n{text}")


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 12), marks=pytest.mark.spared)], ids=str)
def test_some_functions(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        check(seed, tmp_path)


@pytest.mark.slow
def test_many_functions(tmp_path: Path) -> None:
    for seed in range(100, 160):
        check(seed, tmp_path)
