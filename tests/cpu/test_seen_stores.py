"""The stores that show a buffer: each buffer's are those of the buffers that are filled from it, and followed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu import demanded_lanes
from tilewright.backends.cpu.demanded_lanes import stores_of
from tilewright.dialects.cpu import CpuDot, Write
from tilewright.ir.core import Op, Value
from tilewright.ir.parser import parse_module


@tw.jit
def branches(x, out, n, COUNT: tl.constexpr):
    i = tl.arange(0, 64)
    value = tl.load(x + i)
    for k in tl.static_range(COUNT):
        if n % (k + 2) == 0:
            value += tl.sum(value) * k
        else:
            value -= k
    tl.store(out + i, value)


@tw.jit
def products(x, out, M, N, COUNT: tl.constexpr, SUMS: tl.constexpr):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    inside = (i < M) & (j < N)
    a = tl.load(x + i * 32 + j)
    value = tl.dot(a, a)
    for k in tl.static_range(COUNT):
        if M % (k + 2) == 0:
            value = tl.dot(a, a, tl.maximum(value, k))
        if SUMS:
            tl.store(out + k * 32 + tl.arange(0, 32), tl.sum(value, 1), tl.arange(0, 32) < M)
    tl.store(out + 4096 + i * 32 + j, value, inside)


def filled(module: Op) -> list[Value]:
    """The buffers that ops of a module put results into, in order."""
    found = []
    for op in module.walk():
        if isinstance(op, CpuDot):
            found.append(op.accumulator)
        elif isinstance(op, Write) and not op.row:
            found.append(op.buffer)
    return found


def ttcir(kernel: Any, *arguments: Any, **constants: Any) -> Op:
    return parse_module(kernel.warmup(*arguments, grid=(1,), **constants).asm["ttcir"])


x = np.zeros(8192, np.float32)


@pytest.mark.parametrize(
    ("kernel", "arguments", "constants"),
    [
        (branches, (x, x, 99), {"COUNT": 6}),
        (products, (x, x, 30, 31), {"COUNT": 3, "SUMS": False}),
        (products, (x, x, 30, 31), {"COUNT": 3, "SUMS": True}),
    ],
)
def test_what_is_known_of_later_buffers_changes_nothing(kernel: Any, arguments: Any, constants: Any) -> None:
    buffers = filled(ttcir(kernel, *arguments, **constants))
    known: dict[Value, Any] = {}
    for buffer in reversed(buffers):
        known[buffer] = stores_of(buffer, known)
    alone = {buffer: stores_of(buffer) for buffer in buffers}
    assert {b: set(shown) for b, shown in known.items()} == {b: set(shown) for b, shown in alone.items()}
    assert any(alone.values()) or kernel is branches


def test_buffers_that_are_filled_one_from_the_other_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[Op] = []
    moved = demanded_lanes._moved
    monkeypatch.setattr(demanded_lanes, "_moved", lambda op, axes: followed.append(op) or moved(op, axes))
    costs = []
    for count in (8, 32):
        followed.clear()
        branches.warmup(x, x, 99, COUNT=count, grid=(1,))
        costs.append(len(followed))
    assert 0 < costs[1] < 5 * costs[0]
