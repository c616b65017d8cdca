"""Short rows that are reduced go through their phases two at a time."""

import re

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, sums_ptr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    k = tl.load(k_ptr + n[:, None] * D + d[None, :])
    scores = tl.dot(q, tl.trans(k))
    p = tl.exp(scores - tl.max(scores, 1)[:, None])
    total = tl.sum(p, 1)
    v = tl.load(v_ptr + n[:, None] * D + d[None, :])
    tl.store(o_ptr + m[:, None] * D + d[None, :], tl.dot(p, v) / total[:, None])
    tl.store(sums_ptr + m, total)


def compute(m: int, n: int, d: int) -> object:
    rng = np.random.default_rng(m + n)
    q, k, v = (rng.standard_normal((rows, d)).astype(np.float32) for rows in (m, n, n))
    out, sums = np.zeros((m, d), np.float32), np.zeros(m, np.float32)
    kernel = attention[(1,)](q, k, v, out, sums, M=m, N=n, D=d)
    scores = q.astype(np.float64) @ k.T
    p = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(sums, p.sum(1), rtol=2e-5)
    np.testing.assert_allclose(out, p @ v / p.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
    return kernel


@pytest.mark.parametrize(("m", "n", "d"), [(16, 16, 16), (64, 64, 32), (16, 128, 16), (128, 32, 16)])
def test_every_row_gets_its_own_results(m, n, d):
    compute(m, n, d)


@tw.jit
def below_largest_power(x_ptr, y_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    """x · y, less the largest exponential of each row, times the transpose of y."""
    m, n = tl.arange(0, M), tl.arange(0, N)
    y = tl.load(y_ptr + m[:, None] * N + n[None, :])
    product = tl.dot(tl.load(x_ptr + m[:, None] * M + m[None, :]), y)
    total = tl.dot(product - tl.max(tl.exp(product), 1)[:, None], tl.trans(y))
    tl.store(out_ptr + m[:, None] * M + m[None, :], total)


def steps_of_rows(columns: int) -> set[str]:
    """The distances of the rows that the loops of a kernel begin with."""
    rng = np.random.default_rng(columns)
    x, y = rng.standard_normal((16, 16), np.float32) / 8, rng.standard_normal((16, columns), np.float32) / 8
    out, product = np.zeros_like(x), x.astype(np.float64) @ y
    kernel = below_largest_power[(1,)](x, y, out, M=16, N=columns)
    np.testing.assert_allclose(out, (product - np.exp(product).max(1, keepdims=True)) @ y.T, rtol=1e-3, atol=1e-4)
    return set(re.findall(r"add nuw nsw i64 %\w+, (\d+)\n", kernel.asm["llir"]))


def test_short_rows_step_by_two_and_long_ones_by_one():
    """Reductions of what is expensive have no nest of their own."""
    assert "2" in steps_of_rows(16)
    assert "2" not in steps_of_rows(1024)


@tw.jit
def narrow_offsets(x_ptr, out_ptr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at.to(KIND)))


def test_offsets_up_to_the_greatest_of_their_type_are_one_row():
    x, lines = np.arange(128, dtype=np.float32), []
    for kind in (tl.int8, tl.int32):
        out = np.zeros_like(x)
        kernel = narrow_offsets[(1,)](x, out, KIND=kind, BLOCK=128)
        np.testing.assert_array_equal(out, x)
        lines.append(kernel.asm["llir"].count("\n"))
    assert lines[0] == lines[1]


@tw.jit
def products_with_the_round_before(x_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    old = tl.zeros((BLOCK,), tl.float32)
    for i in range(rounds):
        new = tl.load(x_ptr + i * BLOCK + at)
        tl.store(out_ptr + i * BLOCK + at, old * tl.sum(new))
        old = new


def test_a_carried_tile_is_read_after_a_sum_before_the_next_takes_its_place():
    x = np.arange(3 * 64, dtype=np.float32).reshape(3, 64)
    out = np.zeros_like(x)
    products_with_the_round_before[(1,)](x, out, 3, BLOCK=64)
    np.testing.assert_array_equal(out, np.stack([0 * x[0], x[0] * x[1].sum(), x[1] * x[2].sum()]))


@tw.jit
def one_column_in_two_phases(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    column = tl.exp(tl.load(x_ptr + rows))
    wide = tl.broadcast_to(column, [ROWS, COLUMNS])
    tl.store(out_ptr + rows * COLUMNS + columns, wide - tl.sum(wide, 1)[:, None] / COLUMNS + column)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_a_column_that_a_later_phase_uses_is_of_its_own_row(rows):
    x = np.linspace(-2, 2, rows, dtype=np.float32)
    out = np.zeros((rows, 8), np.float32)
    one_column_in_two_phases[(1,)](x, out, ROWS=rows, COLUMNS=8)
    np.testing.assert_allclose(out, np.repeat(np.exp(x)[:, None], 8, 1), rtol=1e-5)


@tw.jit
def places_of_largest(x_ptr, out_ptr, columns, KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.arange(0, ROWS)
    best = tl.full((ROWS,), float("-inf"), tl.float32)
    place = tl.zeros((ROWS,), tl.int64)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + row[:, None] * columns + column, column < columns, float("-inf"))
        found, at = tl.max(x.to(KIND), 1, return_indices=True)
        place = tl.where(found > best, start + at, place)
        best = tl.maximum(best, found.to(tl.float32))
    tl.store(out_ptr + row, place)


@pytest.mark.parametrize(("kind", "lanes"), [(tl.float32, 16), (tl.float64, 8)])
@pytest.mark.parametrize("columns", [1, 17, 256, 300, 1000])
def test_numbers_of_a_row_leave_vectors_as_wide_as_its_elements(kind, lanes, columns):
    """The first place of equal numbers, both zeros among them; places of 64 bits are numbers, one for each row."""
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = "x86-64-v4"
        x = np.random.default_rng(columns).choice([-1.0, -0.0, 0.0], (8, columns)).astype(np.float32)
        out = np.zeros(8, np.int64)
        options = {"KIND": kind, "ROWS": 8, "BLOCK": 256}
        kernel = places_of_largest.warmup(x, out, columns, **options, grid=(1,))
        assert f"vector<{lanes}xf{512 // lanes}>" in kernel.asm["loops"]
        assert f"vector<{2 * lanes}xf" not in kernel.asm["loops"]
    places_of_largest[(1,)](x, out, columns, **options)
    np.testing.assert_array_equal(out, x.argmax(1))
