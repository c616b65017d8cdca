"""Loops, branches and calls on a GPU, against the same in Python."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, run

import tilewright as tw
import tilewright.language as tl


@tw.jit
def loops(x, out, steps, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total, places, odd = tl.zeros((B,), tl.float32), x + i, 0
    for k in range(steps):
        total += tl.load(places, mask=i < n, other=1.0) * k
        places += n
        if k > 3:
            total, odd = total * 2.0, odd + 1
        else:
            total += 1.0
    j = 0
    while j < steps:
        total += j
        j += 2
    tl.store(out + i, total + odd, mask=i < n)


@pytest.mark.parametrize("steps", [7, pytest.param(0, marks=pytest.mark.slow)])
def test_loops(steps: int) -> None:
    n = 100
    x = np.random.default_rng(1).random((7, n), np.float32)
    expected, odd = np.zeros(n, np.float32), 0
    for k in range(steps):
        expected = expected + x[k] * np.float32(k)
        expected, odd = (expected * 2, odd + 1) if k > 3 else (expected + 1, odd)
    expected += sum(range(0, steps, 2)) + odd
    (_, found) = run(loops, (1,), x, np.zeros(n, np.float32), steps, n, B=128)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@tw.jit(noinline=True)
def doubled_or_next(s):
    if s > 3:
        return s + 1, 2.0
    return s * 2, 1.0


@tw.jit(noinline=True)
def sum_of(x, s, B: tl.constexpr):
    return tl.sum(tl.load(x + tl.arange(0, B)) + s, 0)


@tw.jit
def calls(x, out, s, B: tl.constexpr):
    i = tl.arange(0, B)
    first = tl.max(tl.load(x + i), 0)  # has shared memory before and after that of the function
    total = sum_of(x, s, B)
    number, factor = doubled_or_next(s)
    tl.store(out + i, tl.load(x + i) * factor + total + number + first + tl.min(tl.load(x + i), 0))
    if s == 3:
        return
    tl.store(out + i, 5.0)


@pytest.mark.parametrize("s", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_calls(s: int) -> None:
    x = np.random.default_rng(2).random(256, np.float32)
    _, found = run(calls, (1,), x, np.zeros(256, np.float32), s, B=256)
    expected = x + (x + 3).sum() + 6 + x.max() + x.min() if s == 3 else np.full(256, 5.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@tw.jit
def dependent(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.extra.cuda.gdc_wait()
    tl.store(out + i, tl.load(x + i))
    tl.extra.cuda.gdc_launch_dependents()


@pytest.mark.slow
@pytest.mark.parametrize(("capability", "count"), [(80, 0), (90, 2)])
def test_dependent_launches(capability: int, count: int) -> None:
    x = np.zeros(128, np.float32)
    assert compiled(dependent, [x, x], capability=capability, B=128).asm["ptx"].count("griddepcontrol") == count


@tw.jit
def squares(x, out, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.sum(value * value, 0))


@pytest.mark.slow
def test_lanes_agree_about_sums_of_products() -> None:
    """A product that a lane fuses into the sum of two lanes would be another number in each of them: a race."""
    x = np.random.default_rng(4).random(128, np.float32)
    _, found = run(squares, (1,), x, np.zeros(1, np.float32), B=128)
    np.testing.assert_allclose(found, (x * x).sum(), rtol=1e-6)
