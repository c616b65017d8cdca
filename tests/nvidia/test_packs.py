"""Functions of several elements at a time: neighbours along the last axis, whoever holds them."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, run

import tilewright
import tilewright.language as tl


@tilewright.jit
def turned(a, b, c, d):
    return d, c, b, a + 1


@tilewright.jit
def turn(x, y, M: tl.constexpr, N: tl.constexpr, ROW: tl.constexpr, COLUMN: tl.constexpr):
    at = tl.arange(0, M)[:, None] * ROW + tl.arange(0, N)[None, :] * COLUMN
    tl.store(y + at, tl.map_elementwise(turned, tl.load(x + at), pack=4)[0])


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("shape", "across"), [((1, 128), False), pytest.param((16, 4), False, marks=slow), ((8, 64), True)]
)
def test_packs_of_four(shape: tuple[int, int], across: bool) -> None:
    """Fewer elements than threads, and tiles whose threads hold a piece of a column."""
    m, n = shape
    x = np.arange(m * n, dtype=np.int32).reshape((n, m) if across else shape)
    steps = (1, m) if across else (n, 1)
    _, y = run(turn, (1,), x, np.zeros_like(x), M=m, N=n, ROW=steps[0], COLUMN=steps[1], capability=90)
    tile = (x.T if across else x).reshape(m, n // 4, 4)
    expected = (tile[..., ::-1] + [0, 0, 0, 1]).reshape(shape)
    assert ((y.T if across else y) == expected).all()


def test_threads_that_hold_packs_keep_them() -> None:
    x = np.zeros((64, 64), np.int32)
    kernel = compiled(turn, (x, x), M=64, N=64, ROW=64, COLUMN=1, capability=90)
    assert "st.shared" not in kernel.asm["ptx"]
