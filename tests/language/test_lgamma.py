"""lgamma of libdevice where it has zeros, against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice

ZEROS = (-2.7476826467274127, -2.4570247382208006, -3.955294284858598, -3.14358088834998, -5.0082181683225935)
ULPS, SIZE = 4, 4.5e-16


@tw.jit
def kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, libdevice.lgamma(tl.load(x + i)))


def check(x: Any) -> None:
    found = np.empty_like(x)
    kernel[(1,)](x, found, N=x.size)
    with mpmath.workdps(40):
        exact = [mpmath.re(mpmath.loggamma(mpmath.mpf(float(v)))) for v in x]
        errors = np.array(
            [abs(float(value - mpmath.mpf(float(mine)))) for value, mine in zip(exact, found, strict=True)]
        )
    bounds = np.maximum(ULPS * np.spacing(np.abs(np.array([float(value) for value in exact]))), SIZE)
    assert np.max(errors / bounds) <= 1


@pytest.mark.slow
def test_at_zeros_and_poles() -> None:
    random = np.random.default_rng(2)
    check(np.random.default_rng(1).uniform(-11.6, -2.0, 8192))
    check(np.concatenate([zero * (1 + random.uniform(-1e-6, 1e-6, 512)) for zero in (*ZEROS, -7.5, -2.2637, -11.0001)]))
    sides = [-(pole + side * 10.0 ** random.uniform(-14, -2, 256)) for pole in (2, 3, 10, 11) for side in (-1, 1)]
    check(np.concatenate(sides))


def test_above_zero() -> None:
    """Each part of the line has a formula of its own."""
    random, parts = np.random.default_rng(3), ((0.01, 0.5), (0.5, 1.5), (1.5, 8.0), (8.0, 100.0))
    check(np.concatenate([random.uniform(*ends, 16) for ends in parts]))


def test_between_poles_and_at_them() -> None:
    x = np.random.default_rng(1).uniform(-11.6, -2.0, 64)
    check(x)
    x[:8] = [-2.0, -3.0, -11.0, -0.0, 0.0, -np.inf, np.inf, np.nan]
    found = np.empty_like(x)
    kernel[(1,)](x, found, N=x.size)
    np.testing.assert_array_equal(found[:8], [np.inf] * 7 + [np.nan])
