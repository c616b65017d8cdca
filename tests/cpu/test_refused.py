"""What has no CPU lowering is refused by name and place, and works in kernels that run in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


def printing(x_ptr):
    tl.device_print("x", tl.load(x_ptr + tl.arange(0, 4)))


def asserting(x_ptr):
    tl.device_assert(tl.load(x_ptr + tl.arange(0, 4)) == 0, "not zero")


@tw.jit(noinline=True)
def twice(x):
    return x * 2


def calling(x_ptr):
    tl.store(x_ptr, twice(tl.load(x_ptr)))


CASES = [(printing, "tl.device_print"), (asserting, "tl.device_assert"), (calling, "noinline=True")]


@pytest.mark.parametrize(("function", "feature"), CASES, ids=[function.__name__ for function, _ in CASES])
def test_refused_by_name(function: Any, feature: str) -> None:
    with pytest.raises(tw.Unsupported, match=feature) as caught:
        tw.jit(function)[(1,)](np.zeros(4, np.float32), debug=True)
    assert "test_refused.py:" in str(caught.value)


def test_assertions_cost_nothing_without_debug() -> None:
    tw.jit(asserting)[(1,)](np.ones(4, np.float32))


def test_prints_when_it_runs_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    tw.jit(printing, interpret=True)[(1,)](np.ones(4, np.float32))
    assert "x" in capsys.readouterr().out
