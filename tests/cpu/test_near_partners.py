"""Gathers of partners in one vector share a nest: what they must not change, and what stays out of registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from networks_in_numpy import sorted_by_steps

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.llvm.machine import host_target


@tw.jit
def sorted_kernel(x_ptr, out_ptr, N: tl.constexpr, DESCENDING: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i), descending=DESCENDING))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [16, 64, 256])
@code_on("neoverse-v1")
def test_bits_of_sorted_numbers(n: int, dtype: str, descending: bool) -> None:
    """NaN of every payload stay where they are, and of two zeros each keeps its sign and its place."""
    rng = np.random.default_rng(n)
    x = rng.choice(np.array([-np.inf, -2, -1.5, -0.0, 0.0, 1, 3, np.inf], dtype), n)
    bits = x.view(f"u{x.itemsize}")
    places = rng.choice(n, n // 8, replace=False)
    bits[places] = np.array(np.nan, dtype).view(bits.dtype) + rng.integers(0, 99, n // 8).astype(bits.dtype)
    out = np.zeros_like(x)
    sorted_kernel[(1,)](x, out, n, descending)
    np.testing.assert_array_equal(out.view(bits.dtype), sorted_by_steps(x, descending).view(bits.dtype))


def nests_of(kernel: Any, *arguments: Any) -> int:
    return str(kernel.warmup(*arguments, grid=(1,)).asm["ttcir"]).count('"cpu.nest"')


def test_steps_at_near_distances_share_a_nest() -> None:
    """256 bytes: 36 steps, of which those are apart whose partners are in other vectors, 15 of 128 bits."""
    x = np.zeros(256, np.int8)
    assert nests_of(sorted_kernel, x, x, 256, False) <= 2 + 10


@tw.jit
def moved(x, i, j, number, WAY: tl.constexpr):
    if WAY == "transposed":
        x = tl.trans(x)
    elif WAY == "wider":
        x = x.to(tl.float64) / 3
    elif WAY == "columns":
        x = x + tl.sum(x, 0)[None, :]
    elif WAY == "reshaped":
        x = tl.reshape(tl.trans(tl.reshape(x, (16, 2, 8)), (0, 2, 1)), (16, 16))
    elif WAY == "gathered":
        x = tl.gather(x, tl.broadcast_to(i ^ 5, (16, 16)), 0)
    elif WAY == "loop":
        for _ in range(3):
            x = tl.trans(x) + x
    elif WAY == "branch":
        x = moved_if(x, j, number < 99)
    return x


@tw.jit
def moved_if(x, j, condition):
    if condition:
        x = tl.trans(x) + tl.gather(x, tl.broadcast_to(j ^ 3, (16, 16)), 1)
    return x


@tw.jit
def traded_kernel(x_ptr, out_ptr, WAY: tl.constexpr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + i * 16 + j) + 0.0
    for step in tl.static_range(24):
        x = x * 0.5 + tl.gather(x, tl.broadcast_to(j ^ (1 + step % 3), (16, 16)), 1)
    if WAY == "stored across":
        tl.store(out_ptr + j * 16 + i, x)
    else:
        tl.store(out_ptr + i * 16 + j, moved(x, i, j, tl.load(x_ptr), WAY))


def traded(x: np.ndarray, way: str) -> np.ndarray:
    j = np.arange(16)
    for step in range(24):
        x = (x * np.float32(0.5) + x[:, j ^ (1 + step % 3)]).astype(np.float32)
    if way in ("transposed", "stored across"):
        return x.T
    if way == "wider":
        return (x.astype(np.float64) / 3).astype(np.float32)
    if way == "columns":
        return x + x.sum(0)
    if way == "reshaped":
        return x.reshape(16, 2, 8).transpose(0, 2, 1).reshape(16, 16)
    if way == "gathered":
        return x[j ^ 5]
    if way == "loop":
        for _ in range(3):
            x = x.T + x
    return x.T + x[:, j ^ 3] if way == "branch" else x


@pytest.mark.parametrize(
    "way", ["", "transposed", "stored across", "wider", "columns", "reshaped", "gathered", "loop", "branch"]
)
def test_whoever_asks_for_other_elements_finds_a_buffer(way: str) -> None:
    """Each of 24 gathers would otherwise double the code, or ask element by element."""
    x = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float32)
    out = np.zeros_like(x)
    compiled = traded_kernel[(1,)](x, out, way)
    np.testing.assert_allclose(out, traded(x, way), rtol=2e-5, atol=1e-2)
    assert compiled.asm["llir"].count("\n") < 1500


@tw.jit
def widened_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i) + 0.0
    for step in tl.static_range(12):
        x = x * 0.5 + tl.gather(x, i ^ (15 - step), 0)
    tl.store(out_ptr + i, x.to(tl.float64) / 3)


def test_wider_numbers_in_the_same_nest() -> None:
    """A vector has as many lanes as partners lie apart, though fewer of the wider numbers fill a register."""
    x = np.arange(64, dtype=np.float32)
    out, expected = np.zeros(64), x
    compiled = widened_kernel[(1,)](x, out, 64)
    for step in range(12):
        expected = (expected * np.float32(0.5) + expected[np.arange(64) ^ (15 - step)]).astype(np.float32)
    np.testing.assert_allclose(out, expected / 3.0, rtol=1e-6)
    target = host_target(tw.knobs.tilewright.cpu)  # which kernels are compiled for
    assert compiled.asm["llir"].count("\n") < (400 if target.vector_bits > 128 else 600)


@tw.jit
def swapped_in_place_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.gather(tl.load(x_ptr + i), i ^ 1, 0))


@pytest.mark.parametrize("shift", [-1, 0, 1, 3, 16])
def test_what_partners_are_loaded_from_is_stored_to(shift: int) -> None:
    """All loads come before the first store, wherever the output lies."""
    x = np.arange(200, dtype=np.int32)
    expected = x.copy()
    expected[20 + shift : 148 + shift] = x[20:148][np.arange(128) ^ 1]
    compiled = swapped_in_place_kernel[(1,)](x[20:], x[20 + shift :], 128)
    np.testing.assert_array_equal(x, expected)
    assert compiled.asm["ttcir"].count('"cpu.nest"') == 2
