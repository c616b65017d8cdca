"""erfc of fp32, which computes in fp32, against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice

ULPS = 1.4


@tw.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.erfc(tl.load(x + i, mask=i < n)), mask=i < n)


def erfc_of(x: Any) -> tuple[Any, Any]:
    found = np.empty_like(x)
    compiled = kernel[(tw.cdiv(x.size, 256),)](x, found, x.size, BLOCK=256)
    return found, compiled


def test_errors_over_the_whole_range() -> None:
    """Where it falls to 0 through subnormal numbers, near 0, and on the side where it goes to 2."""
    drawn = np.random.default_rng(1)
    ends = ((-6, 0), (-0.01, 0.01), (0, 1), (1, 4), (4, 9.2), (9.19, 10.2))
    x = np.concatenate([drawn.uniform(low, high, 301) for low, high in ends]).astype(np.float32)
    found, _ = erfc_of(x)
    exact = np.array([float(mpmath.erfc(mpmath.mpf(float(v)))) for v in x])
    assert np.max(np.abs(found - exact) / np.spacing(exact.astype(np.float32))) <= ULPS


def test_numbers_that_are_exact() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-30, 10.2, -10.2], np.float32)
    np.testing.assert_array_equal(erfc_of(x)[0], np.array([1, 1, 0, 2, 0, 2, 1, 1, 0, 2], np.float32))
    assert np.isnan(erfc_of(np.array([np.nan, -np.nan], np.float32))[0]).all()


def test_only_fp64_computes_in_fp64() -> None:
    for dtype, has in ((np.float32, False), (np.float64, True)):
        _, compiled = erfc_of(np.ones(3, dtype))
        assert ("f64" in compiled.asm["ttir"]) == has
