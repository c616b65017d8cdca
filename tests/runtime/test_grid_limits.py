"""Grids that no GPU could run are refused everywhere, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.quick

SIDE = 65_535


def count_source(out):
    tl.atomic_add(out, 1)


count = tw.jit(count_source)

BEYOND = [
    ((2**31,), "2147483648 programs along x"),
    ((2**60,), "along x, which is more than the 2147483647 that CUDA allows"),
    ((1, SIDE + 1), "65536 programs along y, which is more than the 65535 that CUDA allows; use axis x"),
    ((1, 1, SIDE + 1), "65536 programs along z"),
    ([1, 2**40], "along y"),
    ((3, -1), "-1 programs along y, which is negative"),
    (2**31, "along x"),
]


@pytest.mark.parametrize(("grid", "message"), BEYOND)
@pytest.mark.parametrize("is_function", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_grid_beyond_the_limits_is_refused(grid: Any, message: str, is_function: bool, is_known: bool) -> None:
    out = np.zeros(1, np.int32)
    kernel = count if is_known else tw.jit(count_source)
    if is_known:
        for _ in range(2):
            kernel[(1,)](out)
    before = out[0]
    with pytest.raises(ValueError, match=message):
        kernel[(lambda meta: grid) if is_function else grid](out)
    assert out[0] == before


@pytest.mark.parametrize("grid", [(1, SIDE), (1, 1, SIDE), (2, 3, 5), (SIDE + 1,), (0, SIDE), (4, 0)])
def test_a_grid_within_the_limits_runs(grid: Sequence[int]) -> None:
    out = np.zeros(1, np.int32)
    for launches in (1, 2):
        count[grid](out)
        assert out[0] == launches * np.prod(grid)


def test_a_grid_beyond_the_limits_is_refused_by_a_compiled_kernel_and_in_the_interpreter() -> None:
    out = np.zeros(1, np.int32)
    compiled = count[(1,)](out)
    with pytest.raises(ValueError, match="along y"):
        compiled[1, SIDE + 1](out)
    with pytest.raises(ValueError, match="along z"):
        compiled.run(1, 1, SIDE + 1, 0, 0, None, None, None, None, out)
    with pytest.raises(ValueError, match="along y"):
        tw.jit(count_source, interpret=True)[1, SIDE + 1](out)
    assert out[0] == 1


def test_more_programs_than_can_be_counted_are_refused() -> None:
    with pytest.raises(OverflowError, match="programs"):
        count[2**31 - 1, SIDE, SIDE](np.zeros(1, np.int32))
