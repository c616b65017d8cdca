"""Products of operands with scales on devices that multiply by scales themselves, in the simulator, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

HALF = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([HALF, -HALF])
TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@tw.jit
def scaled(
    a,
    a_scale,
    b,
    b_scale,
    out,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    FORMATS: tl.constexpr,
    PACKED: tl.constexpr,
    GROUP: tl.constexpr,
):
    m, n, group = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // GROUP)
    left, right = tl.arange(0, K // PACKED[0]), tl.arange(0, K // PACKED[1])
    x = tl.load(a + m[:, None] * (K // PACKED[0]) + left[None, :])
    y = tl.load(b + right[:, None] * N + n[None, :])
    s = tl.load(a_scale + m[:, None] * (K // GROUP) + group[None, :])
    t = tl.load(b_scale + n[:, None] * (K // GROUP) + group[None, :])
    found = tl.dot_scaled(x, s, FORMATS[0], y, t, FORMATS[1])
    tl.store(out + m[:, None] * N + n[None, :], found)


def operand(rng: np.random.Generator, rows: int, k: int, kind: str) -> tuple[Any, Any]:
    """The operand as it is in memory, and its numbers."""
    if kind == "e2m1":
        codes = rng.integers(0, 16, (rows, k))
        return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8), E2M1[codes]
    values = rng.standard_normal((rows, k)).astype(TYPES[kind])
    return values, values.astype(np.float64)


def scales(rng: np.random.Generator, rows: int, count: int, *, exponents: bool) -> tuple[Any, Any]:
    """The scales as they are in memory, and their numbers."""
    if exponents:
        codes = rng.integers(124, 130, (rows, count)).astype(np.uint8)
        return codes, 2.0 ** (codes.astype(np.float64) - 127)
    values = (rng.random((rows, count)) + 0.5).astype(ml_dtypes.float8_e4m3fn)
    return values, values.astype(np.float64)


def check(
    capability: int, kinds: tuple[str, str], instruction: str, *, group: int = 32, warps: int = 4, k: int = 128
) -> None:
    m, n = 128, 32
    rng = np.random.default_rng(0)
    (a, left), (b, right) = operand(rng, m, k, kinds[0]), operand(rng, n, k, kinds[1])
    (s, first), (t, second) = (scales(rng, rows, k // group, exponents=group == 32) for rows in (m, n))
    expected = (left * np.repeat(first, group, 1)) @ (right * np.repeat(second, group, 1)).T
    arguments = [a, s, np.ascontiguousarray(b.T), t, np.zeros((m, n), np.float32)]
    sizes = {"M": m, "N": n, "K": k, "GROUP": group, "FORMATS": kinds, "num_warps": warps}
    packed = tuple(2 if kind == "e2m1" else 1 for kind in kinds)
    made = compiled(scaled, arguments, capability=capability, PACKED=packed, **sizes)
    assert set(re.findall(r"kind::[\w.:]+", made.asm["ptx"])) == {f"kind::{instruction}"}
    assert np.abs(launch(made, (1,), arguments)[-1] - expected).max() < 1e-4


ON_120 = [
    (("e4m3", "e4m3"), "mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0", 32),
    (("e5m2", "e4m3"), "mxf8f6f4.block_scale.scale_vec::1X.f32.e5m2.e4m3.f32.ue8m0", 32),
    (("e2m1", "e2m1"), "mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", 32),
    (("e2m1", "e2m1"), "mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 16),
]
ON_100 = [
    (("e4m3", "e5m2"), "mxf8f6f4.block_scale.scale_vec::1X", 32),
    (("e4m3", "e2m1"), "mxf8f6f4.block_scale.scale_vec::1X", 32),
    (("e2m1", "e4m3"), "mxf8f6f4.block_scale.scale_vec::1X", 32),
    (("e2m1", "e2m1"), "mxf4.block_scale.scale_vec::2X", 32),
    (("e2m1", "e2m1"), "mxf4nvf4.block_scale.scale_vec::4X", 16),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "instruction", "group"), ON_120)
@pytest.mark.parametrize("warps", [4, 8])
def test_on_mma_sync(kinds: tuple[str, str], instruction: str, group: int, warps: int) -> None:
    check(120, kinds, instruction, group=group, warps=warps)


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "instruction", "group"), ON_100)
@pytest.mark.parametrize("warps", [4, 8])
def test_on_tcgen05(kinds: tuple[str, str], instruction: str, group: int, warps: int) -> None:
    check(100, kinds, instruction, group=group, warps=warps)


@pytest.mark.slow
@pytest.mark.parametrize("k", [32, 64])
def test_few_scales_on_tcgen05(k: int) -> None:
    check(100, ("e4m3", "e5m2"), "mxf8f6f4.block_scale.scale_vec::1X", k=k)
