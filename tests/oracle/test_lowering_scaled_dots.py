"""Microscaled products as machine code: formats, packing, scales of both kinds, batches, operands from anywhere."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, quick_first

import tilewright.language as tl
from tilewright.support.diagnostics import CompilationError

HALF = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([HALF, -HALF])
TYPES: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}


def factor(shape: tuple[int, ...], kind: str, seed: int, *, packed: int = -1) -> tuple[Any, Any]:
    """A factor as it is in memory, and its numbers; `e2m1` is packed along the axis `packed`."""
    rng = np.random.default_rng(seed)
    if kind == "e2m1":
        codes = rng.integers(0, 16, shape).astype(np.uint8)
        low, high = (codes.take(range(half, shape[packed], 2), packed) for half in (0, 1))
        return np.ascontiguousarray(low | high << 4), E2M1[codes]
    values = rng.standard_normal(shape).astype(TYPES[kind])
    return values, values.astype(np.float64)


def scales(shape: tuple[int, ...], group: int, seed: int) -> tuple[Any, Any]:
    """Scales as they are in memory, and the number for each element: e4m3 in groups of 16, exponents otherwise."""
    rng = np.random.default_rng(seed)
    shape = (*shape[:-1], shape[-1] // group)
    codes: Any = rng.integers(118, 136, shape).astype(np.uint8)
    numbers = 2.0 ** (codes.astype(np.float64) - 127)
    if group == 16:
        codes = (rng.random(shape) * 3).astype(ml_dtypes.float8_e4m3fn)
        numbers = codes.astype(np.float64)
    return codes, np.repeat(numbers, group, -1)


@jit
def scaled(
    a,
    s,
    b,
    t,
    out,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    FORMATS: tl.constexpr,
    PACKED: tl.constexpr,
    ALONG_K: tl.constexpr,
    GROUP: tl.constexpr,
    ACROSS: tl.constexpr,
):
    m, n, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // GROUP)
    if ALONG_K:
        left, right = tl.arange(0, K // PACKED[0]), tl.arange(0, K // PACKED[1])
        x = tl.load(a + m[:, None] * (K // PACKED[0]) + left[None, :])
        if ACROSS:
            y = tl.load(b + n[None, :] * (K // PACKED[1]) + right[:, None])
        else:
            y = tl.load(b + right[:, None] * N + n[None, :])
    else:
        rows, columns, k = tl.arange(0, M // 2), tl.arange(0, N // 2), tl.arange(0, K)
        x = tl.load(a + rows[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * (N // 2) + columns[None, :])
    first = None if s is None else tl.load(s + m[:, None] * (K // GROUP) + g[None, :])
    second = None if t is None else tl.load(t + n[:, None] * (K // GROUP) + g[None, :])
    product = tl.dot_scaled(x, first, FORMATS[0], y, second, FORMATS[1], lhs_k_pack=ALONG_K, rhs_k_pack=ALONG_K)
    tl.store(out + m[:, None] * N + n[None, :], product)


def check(
    kinds: tuple[str, str],
    sizes: tuple[int, int, int] = (32, 64, 64),
    *,
    group: int = 32,
    along_k: bool = True,
    across: bool = False,
    with_scales: tuple[bool, bool] = (True, True),
) -> None:
    m, n, k = sizes
    a, left = factor((m, k), kinds[0], 1, packed=1 if along_k else 0)
    if across:
        b, right = factor((n, k), kinds[1], 2)
        right = right.T
    else:
        b, right = factor((k, n), kinds[1], 2, packed=0 if along_k else 1)
    (s, first), (t, second) = scales((m, k), group, 3), scales((n, k), group, 4)
    s, first = (s, first) if with_scales[0] else (None, 1.0)
    t, second = (t, second.T) if with_scales[1] else (None, 1.0)
    found = agree(
        scaled,
        *(a, s, b, t, np.zeros((m, n), np.float32)),
        M=m,
        N=n,
        K=k,
        FORMATS=kinds,
        GROUP=group,
        ALONG_K=along_k,
        ACROSS=across,
        PACKED=tuple(2 if kind == "e2m1" else 1 for kind in kinds),
    )[-1]
    expected = (left * first) @ (right * second)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


PAIRS = [(a, b) for a in ("e2m1", *TYPES) for b in ("e2m1", *TYPES)]


@pytest.mark.parametrize("kinds", quick_first(PAIRS, [("e2m1", "e5m2"), ("fp16", "e4m3")]), ids="-".join)
def test_formats(kinds: tuple[str, str]) -> None:
    check(kinds)


@pytest.mark.parametrize("sizes", quick_first([(16, 16, 32), (64, 128, 128), (16, 256, 64)], [(16, 256, 64)]))
@pytest.mark.parametrize("kinds", [("e5m2", "e2m1"), ("e2m1", "e4m3")], ids="-".join)
def test_right_factors_with_neighbours_along_k(kinds: tuple[str, str], sizes: tuple[int, int, int]) -> None:
    check(kinds, sizes, across=True)


@pytest.mark.parametrize("sizes", [(32, 32, 64), (64, 32, 128)])
def test_four_bits_packed_along_rows_and_columns(sizes: tuple[int, int, int]) -> None:
    check(("e2m1", "e2m1"), sizes, along_k=False)


@pytest.mark.parametrize("kinds", [("e2m1", "e2m1"), ("e4m3", "e5m2")], ids="-".join)
@pytest.mark.parametrize("across", [True, False])
def test_scales_that_are_floats(kinds: tuple[str, str], across: bool) -> None:
    check(kinds, group=16, across=across)


@pytest.mark.parametrize("with_scales", [(True, False), (False, True), (False, False)])
def test_factors_without_scales(with_scales: tuple[bool, bool]) -> None:
    check(("e4m3", "e2m1"), with_scales=with_scales)


@jit
def batched(a, s, b, t, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    z = tl.arange(0, B)[:, None, None]
    m, n = tl.arange(0, M), tl.arange(0, N)
    k, g, half = tl.arange(0, K), tl.arange(0, K // 32), tl.arange(0, K // 2)
    x = tl.load(a + z * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + z * (K // 2) * N + half[None, :, None] * N + n[None, None, :])
    first = tl.load(s + z * M * (K // 32) + m[None, :, None] * (K // 32) + g[None, None, :])
    second = tl.load(t + z * N * (K // 32) + n[None, :, None] * (K // 32) + g[None, None, :])
    acc = tl.full((B, M, N), 1.0, tl.float32)
    product = tl.dot_scaled(x, first, "e5m2", y, second, "e2m1", acc)
    tl.store(out + z * M * N + m[None, :, None] * N + n[None, None, :], product)


@pytest.mark.parametrize("count", [2, 1])
def test_batches(count: int) -> None:
    m, n, k = 16, 32, 64
    (a, left), (b, right) = factor((count, m, k), "e5m2", 1), factor((count, k, n), "e2m1", 2, packed=1)
    (s, first), (t, second) = scales((count, m, k), 32, 3), scales((count, n, k), 32, 4)
    out = np.zeros((count, m, n), np.float32)
    found = agree(batched, a, s, b, t, out, B=count, M=m, N=n, K=k)[-1]
    expected = (left * first) @ (right * second.swapaxes(1, 2)) + 1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@jit
def special_scales(s, out, K: tl.constexpr):
    m, g = tl.arange(0, 16), tl.arange(0, K // 32)
    ones = tl.full((16, K), 1.0, tl.bfloat16)
    scale = tl.load(s + m[:, None] * (K // 32) + g[None, :])
    product = tl.dot_scaled(ones, scale, "bf16", ones.T, None, "bf16")
    tl.store(out + m[:, None] * 16 + tl.arange(0, 16)[None, :], product)


def test_scales_of_extreme_bytes() -> None:
    codes = np.full((16, 1), 127, np.uint8)
    codes[:4, 0] = (255, 254, 1, 128)
    found = agree(special_scales, codes, np.zeros((16, 16), np.float32), K=32)[-1]
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1:5, 0], [np.inf, 32 * 2.0**-126, 64, 32])


@jit
def wrong(MODE: tl.constexpr):
    a = tl.full((32, 64), 0, tl.uint8)
    scale = tl.full((32, 2), 127, tl.uint8)
    if MODE == "pairs":
        tl.dot_scaled(a, scale, "e5m2", a.T, scale, "e5m2", lhs_k_pack=False)
    elif MODE == "rank":
        tl.dot_scaled(a, scale, "e5m2", a.T[None, :, :], scale, "e5m2")
    elif MODE == "scale":
        tl.dot_scaled(a, scale.to(tl.float16), "e5m2", a.T, scale, "e5m2")
    else:
        tl.dot_scaled(a, scale, "e3m2", a.T, scale, "e5m2")


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("pairs", "does not accept lhs_k_pack"),
        ("rank", r"\(32, 64\).*\(1, 64, 32\)"),
        ("scale", "does not accept lhs_scale"),
        ("format", "does not accept format = e3m2"),
    ],
)
def test_what_is_refused(mode: str, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        wrong[(1,)](MODE=mode)
