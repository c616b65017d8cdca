"""Measuring and comparing kernels, under Triton's names.

    import tilewright as tw

    milliseconds = tw.testing.do_bench(lambda: add[grid](x, y, out, n, BLOCK=1024))
    tw.testing.assert_close(out, x + y)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.testing.measure import do_bench
from tilewright.runtime.testing.report import Benchmark, Mark, perf_report

__all__ = ["Benchmark", "Mark", "assert_close", "do_bench", "perf_report"]


DEFAULT_ATOL, DEFAULT_RTOL = 1e-2, 0.0


def assert_close(x: Any, y: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Compare two arrays, tensors or numbers; NaN equals NaN.

    Args:
        x, y: of equal shape, or one of them a number.
        atol, rtol: `|x - y| <= atol + rtol * |y|` must hold everywhere; a number, or a function that gives it for the
            element type. By default 0.01 and 0.
        err_msg: put before the report.

    Raises:
        AssertionError: they differ; the message says where and by how much.

    Example:
        >>> tw.testing.assert_close(np.array([1.0, 2.0]), np.array([1.0, 2.001]))
    """
    first, second = _as_numpy(x), _as_numpy(y)
    absolute = _tolerance(atol, DEFAULT_ATOL, x)
    relative = _tolerance(rtol, DEFAULT_RTOL, x)
    np.testing.assert_allclose(first, second, atol=absolute, rtol=relative, equal_nan=True, err_msg=err_msg)


def _as_numpy(value: Any) -> np.ndarray[Any, Any]:
    """The value as float64 where its type is one that NumPy does not compute with (bf16, fp8)."""
    if hasattr(value, "detach"):  # a torch tensor
        tensor = value.detach().cpu()
        value = (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind in "fV" else array


def _tolerance(given: Any, default: float, like: Any) -> float:
    if given is None:
        return default
    return float(given(getattr(like, "dtype", type(like))) if callable(given) else given)
