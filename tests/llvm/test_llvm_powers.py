"""2^x in whole registers of AVX-512: by the rest above a sixteenth, which infinity has none of."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def powers_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.exp2(tl.load(x_ptr + i)))


def powers(x: list[float]) -> np.ndarray:
    """2^x of up to 64 numbers."""
    numbers, out = np.zeros(64, np.float32), np.empty(64, np.float32)
    numbers[: len(x)] = x
    powers_kernel[(1,)](numbers, out, BLOCK=64)
    return out[: len(x)]


@pytest.mark.quick
@pytest.mark.parametrize("first", range(-149, 128, 50))
def test_whole_powers_are_exact(first: int) -> None:
    whole = np.arange(first, min(first + 50, 128))
    np.testing.assert_array_equal(powers([*map(float, whole)]), np.ldexp(np.float32(1), whole))


def test_numbers_beside_a_sixteenth() -> None:
    """Rounding down takes them to the one below, however near the next one they are."""
    steps = np.arange(-8, 8, dtype=np.float32) / 16
    beside = [np.nextafter(steps, np.float32(side)) for side in (-9, 9)]
    for x in (steps, *beside, steps + np.float32(1 / 32)):
        np.testing.assert_allclose(powers([*x]), np.exp2(x.astype(np.float64)), rtol=1e-7)


def test_large_numbers() -> None:
    """Zeros have no sign, and what is too large is infinite, though its last sixteenth says nothing."""
    large = [160.0, 1e4, 5e5, 4e6, 3e7, 5e7, 1e9, 1e12, 3e38, np.inf]
    assert (powers(large) == np.inf).all()
    found = powers([-x for x in large])
    assert (found == 0).all()
    assert not np.signbit(found).any()
    assert np.isnan(powers([np.nan])).all()


def test_zen_5_computes_no_whole_part() -> None:
    source = tw.ASTSource(powers_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 64})
    text = tw.compile(source, target=tw.GPUTarget("cpu", "znver5", 0)).asm["asm"]
    assert "vreduceps" in text
    assert "vsubps" not in text
    assert "vrangeps" not in text
