"""Products by matrices of 2 × 2 (smmla, bfmmla of AArch64): what they compute where there are such processors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from dot_native import A_STRIDE, B_STRIDE, aligned, check, compile_dots, make_spec

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.dot import DotSpec, arithmetic, dot_workspace_bytes
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.ir.types import Type, bf16, f32, i8, i32

pytestmark = pytest.mark.quick

TYPES = {"bf16": (bf16, f32, "bf16"), "i8": (i8, i32, "i8mm")}
EXTENTS = [(2, 4, 8), (2, 64, 16), (8, 8, 64), (16, 16, 8), (32, 64, 16), (64, 64, 32), (128, 16, 128), (4, 128, 8)]
ORDERS = [(False, False), (True, False), (False, True), (True, True)]


def here(types: str) -> tuple[Target, Type, Type]:
    """The target and the types of operands and sums; skips where the processor has no such instruction."""
    target = host_target()
    operand, acc, feature = TYPES[types]
    if not target.neon or feature not in target.features:
        pytest.skip("products by matrices are of AArch64: this processor has none")
    return target, operand, acc


@pytest.mark.parametrize("far", ["", "a", "b", "ab"])
@pytest.mark.parametrize("types", TYPES)
def test_all_shapes_and_orders(types: str, far: str) -> None:
    target, operand, acc = here(types)
    strides = {f"{name}_stride": {"a": A_STRIDE, "b": B_STRIDE}[name] for name in far}
    specs = [
        DotSpec(**{**vars(make_spec(extents, operand, acc, a_transposed=a, b_transposed=b)), **strides})
        for extents in EXTENTS
        for a, b in ORDERS
    ]
    for spec, function in zip(specs, compile_dots(specs, target), strict=True):
        check(function, spec, target, a_stride=149, b_stride=163)


def run(spec: DotSpec, target: Target, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product, by a function compiled now."""
    (function,) = compile_dots([spec], target)
    c = aligned((spec.m, spec.n), np.float32)
    workspace = aligned((dot_workspace_bytes(spec, target) + 64,), np.uint8)
    left, right = aligned(a.shape, a.dtype.type), aligned(b.shape, b.dtype.type)
    left[:], right[:] = a, b
    function(left.ctypes.data, right.ctypes.data, c.ctypes.data, workspace.ctypes.data, 0, 0)
    return c


def hard_numbers(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """bf16 of all magnitudes: subnormal, huge, infinite, NaN, zeros of both signs."""
    bits = rng.integers(0, 1 << 16, shape).astype(np.uint16)
    seldom = rng.random(shape) < 0.9
    common = rng.standard_normal(shape).astype(ml_dtypes.bfloat16).view(np.uint16)
    return np.where(seldom, common, bits).astype(np.uint16).view(ml_dtypes.bfloat16)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("extents", [(2, 4, 4), (16, 16, 32), (32, 64, 256)])
def test_bfmmla_gives_the_bits_of_bfdot(monkeypatch, extents: tuple[int, int, int], hard: bool) -> None:
    """Both add two products after two others, rounded alike, so it does not matter which one a processor has."""
    target, operand, acc = here("bf16")
    m, n, k = extents
    rng = np.random.default_rng(k)
    a, b = (
        hard_numbers(rng, shape) if hard else rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((m, k), (k, n))
    )
    spec = make_spec(extents, operand, acc, zero_init=True)
    by_matrices = run(spec, target, a, b)
    monkeypatch.setattr(arithmetic, "MATRICES", {})
    by_pairs = run(spec, target, a, b)
    assert by_matrices.view(np.uint32).tolist() == by_pairs.view(np.uint32).tolist()
    assert hard or np.isfinite(by_matrices).all()


def test_roundings_of_bf16() -> None:
    """Sums of products are within the roundings of f32: one for each two products, and one for each two sums."""
    target, operand, acc = here("bf16")
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((32, 256), (256, 32)))
    wide, other = a.astype(np.float64), b.astype(np.float64)
    found = run(make_spec((32, 32, 256), operand, acc, zero_init=True), target, a, b)
    bound = 256 * 2.0**-24 * (abs(wide) @ abs(other))
    assert (abs(found - wide @ other) <= bound).all()


def test_nan_infinity_and_subnormals_of_bf16() -> None:
    """NaN and infinity come through as in any product; subnormal operands count as zeros."""
    target, operand, acc = here("bf16")
    a = np.ones((8, 16), ml_dtypes.bfloat16)
    b = np.ones((16, 8), ml_dtypes.bfloat16)
    a[1, 3], a[2, 4], a[3, 5], a[3, 6], a[4, 7] = np.nan, np.inf, np.inf, -np.inf, 1e-39
    found = run(make_spec((8, 8, 16), operand, acc, zero_init=True), target, a, b)
    assert np.isnan(found[1]).all()
    assert (found[2] == np.inf).all()
    assert np.isnan(found[3]).all()
    assert (found[4] == 15).all()
    assert (found[[0, 5, 6, 7]] == 16).all()


@tw.jit
def product(a, b, c, M, N, K, A: tl.constexpr, B: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.program_id(0) * A + tl.arange(0, A), tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((A, B), c.dtype.element_ty)
    for start in range(0, K, D):
        depth = start + tl.arange(0, D)
        left = tl.load(a + rows[:, None] * K + depth, mask=(rows[:, None] < M) & (depth < K), other=0)
        right = tl.load(b + depth[:, None] * N + columns, mask=(depth[:, None] < K) & (columns < N), other=0)
        total = tl.dot(left, right, total, out_dtype=c.dtype.element_ty)
    tl.store(c + rows[:, None] * N + columns, total, mask=(rows[:, None] < M) & (columns < N))


@pytest.mark.parametrize("tile", [(16, 16, 16), (32, 64, 32), (64, 128, 64)])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (17, 19, 23), (64, 64, 64), (65, 127, 33), (3, 200, 70)])
@pytest.mark.parametrize("types", ["bf16", "i8"])
def test_ragged_kernels(types: str, sizes: tuple[int, int, int], tile: tuple[int, int, int]) -> None:
    """On every processor: by whatever it multiplies with."""
    m, n, k = sizes
    rng = np.random.default_rng(m + n + k)
    if types == "i8":
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        c, wide = np.full((m, n), -1, np.int32), np.int64
    else:
        a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
        c, wide = np.full((m, n), -1, np.float32), np.float64
    product[(-(-m // tile[0]), -(-n // tile[1]))](a, b, c, m, n, k, *tile)
    wanted = a.astype(wide) @ b.astype(wide)
    if types == "i8":
        assert c.tolist() == wanted.tolist()
    else:
        np.testing.assert_allclose(c, wanted, rtol=1e-5, atol=1e-5 * k**0.5)


def test_bytes_at_their_limits() -> None:
    a, b = np.full((32, 64), -128, np.int8), np.full((64, 32), -128, np.int8)
    b[:, ::2] = 127
    c = np.zeros((32, 32), np.int32)
    product[(1, 1)](a, b, c, 32, 32, 64, 32, 32, 64)
    assert c.tolist() == (a.astype(np.int64) @ b.astype(np.int64)).tolist()
