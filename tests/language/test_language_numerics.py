"""Functions written in the language, compiled for this machine and compared with NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.language as tl
from tilewright.runtime.jit import jit
from tilewright.support.diagnostics import CompilationError


@jit
def philox_kernel(out: Any, seed: Any, N: tl.constexpr) -> None:
    i = tl.arange(0, N)
    a, b, c, d = tl.randint4x(seed, i)
    tl.store(out + i, a.to(tl.int32, bitcast=True))
    tl.store(out + N + i, b.to(tl.int32, bitcast=True))
    tl.store(out + 2 * N + i, c.to(tl.int32, bitcast=True))
    tl.store(out + 3 * N + i, d.to(tl.int32, bitcast=True))


def philox(seed: int, counter: int) -> list[int]:
    """Philox 4x32 with 10 rounds, from its definition (Salmon et al., 2011)."""
    c, k = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        b, a = 0xCD9E8D57 * c[2], 0xD2511F53 * c[0]
        low = 0xFFFFFFFF
        c = [(b >> 32) ^ c[1] ^ k[0], b & low, (a >> 32) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


def test_the_reference_gives_the_known_answer() -> None:
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("seed", [0, 42, 2**40 + 7])
def test_philox_is_bit_exact(seed: int) -> None:
    out = np.zeros((4, 16), np.int32)
    philox_kernel[(1,)](out, seed, N=16)
    expected = np.array([philox(seed, i) for i in range(16)], np.uint32).T
    assert (out.view(np.uint32) == expected).all()


@jit
def rand_kernel(out: Any, seed: Any, N: tl.constexpr) -> None:
    i = tl.arange(0, N)
    tl.store(out + i, tl.rand(seed, i))
    tl.store(out + N + i, tl.randn(seed, i))


def test_distributions() -> None:
    out = np.zeros((2, 4096), np.float32)
    rand_kernel[(1,)](out, 3, N=4096)
    uniform, normal = out
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.02
    assert abs(normal.mean()) < 0.06
    assert abs(normal.std() - 1) < 0.04


@jit
def sort_kernel(x: Any, out: Any, N: tl.constexpr, DESCENDING: tl.constexpr) -> None:
    i = tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i), descending=DESCENDING))


@jit
def topk_kernel(x: Any, out: Any, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr) -> None:
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)[None, :]
    tl.store(out + i * K + k, tl.topk(tl.load(x + i * N + j), K))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [2, 64])
def test_sort(n: int, descending: bool) -> None:
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    out = np.zeros_like(x)
    sort_kernel[(1,)](x, out, N=n, DESCENDING=descending)
    expected = np.sort(x)[::-1] if descending else np.sort(x)
    assert (out == expected).all()


def test_topk() -> None:
    x = np.random.default_rng(1).integers(-99, 99, (4, 16)).astype(np.int32)
    out = np.zeros((4, 4), np.int32)
    topk_kernel[(1,)](x, out, M=4, N=16, K=4)
    assert (out == -np.sort(-x, axis=1)[:, :4]).all()


@jit
def scaled_kernel(a: Any, sa: Any, b: Any, sb: Any, out: Any, FORMAT: tl.constexpr, PACK: tl.constexpr) -> None:
    m, n, g = tl.arange(0, 16), tl.arange(0, 16), tl.arange(0, 2)
    packed = tl.arange(0, 64 // PACK)
    left = tl.load(a + m[:, None] * (64 // PACK) + packed[None, :])
    right = tl.load(b + packed[:, None] * 16 + n[None, :])
    left_scale = tl.load(sa + m[:, None] * 2 + g[None, :])
    right_scale = tl.load(sb + n[:, None] * 2 + g[None, :])
    product = tl.dot_scaled(left, left_scale, FORMAT, right, right_scale, FORMAT)
    tl.store(out + m[:, None] * 16 + n[None, :], product)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def test_dot_scaled_of_four_bit_floats() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 16, (16, 64)), rng.integers(0, 16, (64, 16))
    sa, sb = rng.integers(120, 134, (16, 2)).astype(np.uint8), rng.integers(120, 134, (16, 2)).astype(np.uint8)
    packed_a = (a[:, ::2] | a[:, 1::2] << 4).astype(np.uint8)
    packed_b = (b[::2] | b[1::2] << 4).astype(np.uint8)
    out = np.zeros((16, 16), np.float32)
    scaled_kernel[(1,)](packed_a, sa, packed_b, sb, out, FORMAT="e2m1", PACK=2)
    left = E2M1[a] * np.repeat(2.0 ** (sa.astype(float) - 127), 32, axis=1)
    right = E2M1[b] * np.repeat(2.0 ** (sb.astype(float) - 127), 32, axis=1).T
    np.testing.assert_allclose(out, left @ right, rtol=1e-5)


@jit
def wrongly_scaled_kernel(out: Any, ROWS: tl.constexpr, GROUPS: tl.constexpr) -> None:
    left, right = tl.full((32, 64), 0, tl.uint8), tl.full((64, 32), 0, tl.uint8)
    left_scale, right_scale = tl.full((ROWS, GROUPS), 127, tl.uint8), tl.full((32, 2), 127, tl.uint8)
    i = tl.arange(0, 32)
    product = tl.dot_scaled(left, left_scale, "e5m2", right, right_scale, "e5m2")
    tl.store(out + i[:, None] * 32 + i[None, :], product)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("rows", "groups", "message"),
    [
        (32, 4, "each scale of the left side stands for 16, of the right side for 32"),
        (1, 2, "does not accept lhs_scale"),
        (64, 2, "does not accept lhs_scale"),
    ],
)
def test_scales_of_another_shape_are_refused(rows: int, groups: int, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        wrongly_scaled_kernel[(1,)](np.zeros((32, 32), np.float32), ROWS=rows, GROUPS=groups)


@jit
def reductions_kernel(x: Any, out: Any, N: tl.constexpr) -> None:
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out, tl.sum(v))
    tl.store(out + 1, tl.max(v))
    tl.store(out + 2, tl.argmax(v, 0))
    tl.store(out + 3, tl.argmin(v, 0))
    tl.store(out + 4, tl.sum((v > 0).to(tl.int32)))
    tl.store(out + 8 + i, tl.softmax(v))
    tl.store(out + 8 + N + i, tl.cumsum(v))
    tl.store(out + 8 + 2 * N + i, tl.flip(v))


def test_reductions_and_scans() -> None:
    x = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    x[[7, 9]] = x.max() + 1
    out = np.zeros(8 + 3 * 64, np.float32)
    reductions_kernel[(1,)](x, out, N=64)
    expected = [x.sum(), x.max(), x.argmax(), x.argmin(), (x > 0).sum()]
    np.testing.assert_allclose(out[:5], expected, rtol=1e-5)
    softmax, cumsum, flipped = out[8:].reshape(3, 64)
    np.testing.assert_allclose(softmax, np.exp(x) / np.exp(x).sum(), rtol=1e-5)
    np.testing.assert_allclose(cumsum, x.cumsum(), rtol=1e-4, atol=1e-5)
    assert (flipped == x[::-1]).all()


@jit
def running_bf16_kernel(x: Any, out: Any, N: tl.constexpr, REVERSE: tl.constexpr) -> None:
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.static_assert(tl.cumsum(v).dtype == tl.bfloat16)
    tl.store(out + i, tl.cumsum(v, reverse=REVERSE))
    tl.store(out + N + i, tl.cumprod(v, reverse=REVERSE))
    tl.store(out + 2 * N + i, tl.cumsum(v, reverse=REVERSE, dtype=tl.bfloat16))


@pytest.mark.parametrize("direction", [1, -1])
def test_running_sums_and_products_of_bf16_are_rounded_once(direction: int) -> None:
    x = (1 - np.random.default_rng(5).random(1024) / 64).astype(ml_dtypes.bfloat16)
    out = np.zeros((3, 1024), np.float32)
    running_bf16_kernel[(1,)](x, out, N=1024, REVERSE=direction < 0)
    exact = x.astype(np.float64)[::direction]
    half_a_step = 2.0**-8
    np.testing.assert_allclose(out[0, ::direction], exact.cumsum(), rtol=half_a_step)
    np.testing.assert_allclose(out[1, ::direction], exact.cumprod(), rtol=half_a_step)
    assert np.abs(out[2, ::direction] / exact.cumsum() - 1).max() > half_a_step, "as asked for, in bf16"


@jit
def descriptor_kernel(x: Any, out: Any, m: Any, n: Any, B: tl.constexpr) -> None:
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [B, B])
    target = tl.make_tensor_descriptor(out, [m, n], [n, 1], [B, B])
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    target.store([i, j], source.load([i, j]) * 2)


def test_tensor_descriptors_stay_inside() -> None:
    x = np.arange(20 * 36, dtype=np.float32).reshape(20, 36)
    out = np.zeros((24, 36), np.float32)
    descriptor_kernel[(2, 3)](x, out, 20, 36, B=16)
    assert (out[:20] == 2 * x).all()
    assert (out[20:] == 0).all()


@jit
def running_products(x: Any, out: Any, N: tl.constexpr) -> None:
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumprod(tl.load(x + i)))


@pytest.mark.parametrize("interpret", [False, True])
def test_products_of_narrow_integers_have_32_bits(interpret: bool) -> None:
    x, out = np.array([100, -100, 2, 3], np.int8), np.zeros(4, np.int64)
    jit(running_products.fn, interpret=interpret)[(1,)](x, out, N=4)
    assert out.tolist() == [100, -10000, -20000, -60000]
