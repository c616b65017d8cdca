"""Sorts of few elements of a large tile: the versions for them, and where there must be none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from networks_in_numpy import sorted_by_steps

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on


@tw.jit
def masked_sort(x_ptr, out_ptr, n, FILL: tl.constexpr, DESCENDING: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, i < n, FILL)
    tl.store(out_ptr + i, tl.sort(x, descending=DESCENDING), i < n)


@tw.jit
def seen_beyond(x_ptr, out_ptr, n, limit, FILL: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i, i < n, FILL)), i < limit)


@tw.jit
def unmasked_store(x_ptr, out_ptr, n, FILL: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i, i < n, FILL)))


@tw.jit
def largest_of_sorted(x_ptr, out_ptr, n, FILL: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.sort(tl.load(x_ptr + i, i < n, FILL))
    tl.store(out_ptr + i, x + tl.max(x, 0), i < n)


@tw.jit
def flipped(x_ptr, out_ptr, n, FILL: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.flip(tl.load(x_ptr + i, i < n, FILL)), i < n)


def versions(compiled: Any) -> int:
    """How many there are besides the one for all lanes."""
    return str(compiled.asm["ttcir"]).count("scf.if")


def drawn(n: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(n)
    if np.dtype(dtype).kind != "f":
        return rng.integers(0, 9, n).astype(dtype)
    x = rng.choice(np.array([-np.inf, -2, -0.0, 0.0, 1, 3, np.inf, np.nan], dtype), n)
    bits = x.view(f"u{x.itemsize}")
    bits[np.isnan(x)] += rng.integers(0, 99, np.isnan(x).sum()).astype(bits.dtype)
    return x


def filled(x: np.ndarray, fill: float, size: int) -> np.ndarray:
    whole = np.full(size, fill, x.dtype)
    whole[: len(x)] = x
    return whole


def same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{found.itemsize}"))


FILLS = [
    ("float32", np.inf, False),
    ("float32", -np.inf, True),
    ("float16", np.inf, False),
    ("float64", -np.inf, True),
    ("int32", 2**31 - 1, False),
    ("int8", -128, True),
    ("uint16", 65535, False),
    ("uint16", 0, True),
]
"""Numbers behind which none comes in that order."""


@pytest.mark.parametrize(("dtype", "fill", "descending"), FILLS)
def test_few_elements(dtype: str, fill: float, descending: bool) -> None:
    """NaN among them stay where they are, in all steps, also those for lanes that are off."""
    for n in (0, 1, 3, 4, 5, 8, 15, 16, 17, 33, 64, 65, 200, 256, 999):
        x, size = drawn(min(n, 256), dtype), 256
        out = np.full(size, 7, dtype)
        compiled = masked_sort[(1,)](x, out, n, fill, descending, size)
        expected = sorted_by_steps(filled(x, fill, size), descending)
        same_bits(out[:n], expected[:n])
        assert (out[n:] == 7).all()
        assert n == 1 or versions(compiled) >= 1  # one is a constant of the kernel


@pytest.mark.parametrize("fill", [np.inf, 0.0, -np.inf, np.nan, 3.0])
@pytest.mark.parametrize("descending", [False, True])
def test_only_the_last_number_stays_in_place(fill: float, descending: bool) -> None:
    """Other numbers come to the front, of which then more lanes are seen than were loaded."""
    x = drawn(5, "float32")
    out = np.zeros(256, np.float32)
    compiled = masked_sort[(1,)](x, out, 5, fill, descending, 256)
    same_bits(out[:5], sorted_by_steps(filled(x, fill, 256), descending)[:5])
    stays = fill == (-np.inf if descending else np.inf)
    assert (versions(compiled) > 0) == stays


@pytest.mark.parametrize("limit", [3, 100, 256])
def test_what_is_seen_beyond(limit: int) -> None:
    """A store under another bound may show lanes that were not loaded."""
    x = drawn(5, "float32")
    out = np.zeros(256, np.float32)
    compiled = seen_beyond[(1,)](x, out, 5, limit, np.inf, 256)
    same_bits(out[:limit], sorted_by_steps(filled(x, np.inf, 256), False)[:limit])
    assert not versions(compiled)


@tw.jit
def some_seen_beyond(x_ptr, out_ptr, n, FILL: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i, i < n, FILL)), i < N - 99)


def test_some_are_seen_beyond() -> None:
    """A mask that is known, and on in some lanes that were not loaded."""
    x = drawn(3, "float32")
    out = np.zeros(256, np.float32)
    compiled = some_seen_beyond[(1,)](x, out, 3, np.inf, 256)
    same_bits(out[:157], sorted_by_steps(filled(x, np.inf, 256), False)[:157])
    assert not versions(compiled)


@code_on("znver5")
def test_no_mask_of_a_store() -> None:
    x = drawn(5, "float32")
    out = np.zeros(256, np.float32)
    compiled = unmasked_store[(1,)](x, out, 5, np.inf, 256)
    same_bits(out, sorted_by_steps(filled(x, np.inf, 256), False))
    assert not versions(compiled)


def test_results_that_need_all_lanes() -> None:
    x = np.arange(5, dtype=np.float32)[::-1].copy()
    out = np.zeros(256, np.float32)
    compiled = largest_of_sorted[(1,)](x, out, 5, 9.0, 256)
    np.testing.assert_array_equal(out[:5], np.sort(x) + 9)
    assert not versions(compiled)


@pytest.mark.parametrize("n", [3, 16, 30, 256])
def test_flipped(n: int) -> None:
    """Lanes that are off come to the front: one number, whatever it is."""
    x = np.arange(n, dtype=np.float32)
    out = np.zeros(256, np.float32)
    flipped[(1,)](x, out, n, 5.0, 256)
    same_bits(out[:n], filled(x, 5.0, 256)[::-1][:n])
