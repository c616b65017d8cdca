"""A number that lanes share is read where one of them is on, and nowhere else: there may be no such address.

The optimizer of LLVM moves most of such loads to where they are used, so the loops are run as they are, by `run_ir`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.pipeline import loops
from tilewright.backends.llvm.machine import host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module

LANES, ROWS = 256, 16
MANY = 1000
"""A number of lanes that no tile has, so that it is no constant."""


@tw.jit
def in_a_row(x, number, out, n, k, m, B: tl.constexpr, M: tl.constexpr):
    """Whole chunks of a row that ends within the tile come first, without masks."""
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n) + tl.load(number + 0 * i, (i < n) & (k > 0))
    tl.store(out + i, v, i < n)


@tw.jit
def under_a_loaded_condition(x, number, out, n, k, m, B: tl.constexpr, M: tl.constexpr):
    """The version for whole tiles asks only for the part of the mask that memory tells."""
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n) + tl.load(number + 0 * i, (i < n) & (tl.load(x) > 0))
    tl.store(out + i, v, i < n)


@tw.jit
def in_rows(x, number, out, n, k, m, B: tl.constexpr, M: tl.constexpr):
    """The loop over the rows ends where their mask does, so the mask is on in all of them."""
    i, q = tl.arange(0, B)[None, :], tl.arange(0, M)[:, None]
    v = tl.load(x + q * B + i, q < m) + tl.load(number + 0 * (q + i), (q < m) & (k > 0))
    tl.store(out + q * B + i, v, q < m)


@tw.jit
def chosen_in_rows(x, number, out, n, k, m, B: tl.constexpr, M: tl.constexpr):
    """The same of an address: there is `number` in rows in front of the end, and `x` behind it."""
    i, q = tl.arange(0, B)[None, :], tl.arange(0, M)[:, None]
    v = tl.load(x + q * B + i, q < m) + tl.load(tl.where(q < m, number, x) + 0 * i)
    tl.store(out + q * B + i, v, q < m)


@tw.jit
def beside_another_array(x, number, out, n, k, m, B: tl.constexpr, M: tl.constexpr):
    """Rows of `x`, of which the first elements would be `number`."""
    f = tl.program_id(0) * B + tl.arange(0, B)
    column, inside = f % m, f // m < n
    on = column < k
    a = tl.load(number + 0 * column, on & inside)
    b = tl.load(x + f // m * m + column, (column >= k) & inside)
    tl.store(out + f, tl.where(on, a, b), inside)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "neoverse-v1"])
@pytest.mark.parametrize(
    ("kernel", "n", "k", "m", "lanes"),
    [
        pytest.param(in_a_row, 0, 1, 0, 0, id="no lane of a row"),
        pytest.param(in_a_row, -5, 1, 0, 0, id="less than none"),
        pytest.param(in_a_row, 100, 0, 0, 100, id="a condition of all lanes"),
        pytest.param(under_a_loaded_condition, 0, 1, 0, 0, id="a loaded condition"),
        pytest.param(in_rows, 0, 1, 0, 0, id="no row"),
        pytest.param(in_rows, 0, 0, 3, 3 * LANES, id="a condition of all rows"),
        pytest.param(chosen_in_rows, 0, 0, 0, 0, id="the address of no row"),
        pytest.param(beside_another_array, MANY, 0, 40, LANES, id="no element of one array"),
        pytest.param(beside_another_array, MANY, -3, 40, LANES, id="less than none of one array"),
    ],
)
@code_on("znver5")
def test_a_number_is_not_read_for_no_lanes(kernel: Any, n: int, k: int, m: int, lanes: int, cpu: str) -> None:
    x, out = np.ones(LANES * ROWS, np.float32), np.full(LANES * ROWS, 7, np.float32)
    compiled = kernel.warmup(x, x, out, MANY, MANY, MANY, LANES, ROWS, grid=(1,))
    module = parse_module(loops(compiled.asm["ttcir"], host_target(cpu)))
    run_ir(module, [x, np.empty(0, np.float32), out, n, k, m])
    np.testing.assert_array_equal(out, np.where(np.arange(out.size) < lanes, 1, 7))
