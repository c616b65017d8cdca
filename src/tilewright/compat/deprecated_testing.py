"""Functions that `triton.testing` had until 2.0; `assert_close` is there for both now."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.testing.compare import assert_close
from tilewright.support.deprecation import warn_deprecated


def assert_almost_equal(x: Any, y: Any, decimal: int = 2, err_msg: str = "") -> None:
    """Raise AssertionError where two arrays differ by 1.5 of the last of `decimal` decimals, or more."""
    warn_deprecated("triton.testing.assert_almost_equal", "triton.testing.assert_close")
    assert_close(x, y, atol=1.5 * 10.0**-decimal, err_msg=err_msg)


def allclose(x: Any, y: Any, tol: float = 1e-2) -> bool:
    """Whether two arrays differ by less than `tol`, relative to the largest number in them."""
    warn_deprecated("triton.testing.allclose", "triton.testing.assert_close")
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    largest = max(np.abs(first).max(initial=0.0), np.abs(second).max(initial=0.0))
    return bool(np.abs(first - second).max(initial=0.0) <= tol * max(largest, np.finfo(np.float32).tiny))
