"""The last steps of an extreme across lanes take a whole register where AVX-512 has one instruction for that."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

NUMBERS = (0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan)


@tw.jit
def extremes_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out_ptr + rows, tl.max(x, axis=1))
    tl.store(out_ptr + ROWS + rows, tl.min(x, axis=1))


@pytest.mark.parametrize("columns", [2, 4, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_preferred_in_any_lane(columns: int, dtype: type) -> None:
    pairs = np.array([*product(NUMBERS, NUMBERS)] + [(3.0, 3.0)] * 15, dtype)
    x = np.full((64, columns), np.nan, dtype)
    x[:, 0], x[:, columns - 1] = pairs.T
    out = np.empty((2, 64), dtype)
    extremes_kernel[(1,)](x, out, ROWS=64, COLUMNS=columns)
    np.testing.assert_array_equal(out, [np.fmax.reduce(x, axis=1), np.fmin.reduce(x, axis=1)])


def test_no_step_chooses_by_a_mask() -> None:
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "ROWS": "constexpr", "COLUMNS": "constexpr"}
    source = tw.ASTSource(extremes_kernel, types, {"ROWS": 64, "COLUMNS": 64})
    text = tw.compile(source, target=tw.GPUTarget("cpu", "znver5", 0)).asm["asm"]
    assert re.search(r"vrangeps\s.*%xmm", text)
    assert not re.search(r"vcmpunord", text)
