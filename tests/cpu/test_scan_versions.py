"""A scan of a row whose mask is on for all of it has a loop without masks; other rows have them still."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.dialects.scf import For
from tilewright.dialects.vector import Load, MaskedLoad
from tilewright.ir.parser import parse_module

BLOCK = 64


@tw.jit
def last(a, b):
    return tl.where(b != 0, b, a)


@tw.jit
def scan(x, on, out, n, HOW: tl.constexpr, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < n
    if HOW == "loaded":
        inside = inside & (tl.load(on + i) != 0)
    if HOW == "odd":
        inside = inside & (i % 2 == 1)
    v = tl.load(x + i, inside, 3)
    if HOW == "ordered":
        tl.store(out + i, tl.associative_scan(v, 0, last, REVERSE), i < n)
    else:
        tl.store(out + i, tl.cumsum(v, 0, REVERSE), i < n)


def launched(how: str, n: int, dtype: Any, *, reverse: bool) -> tuple[Any, np.ndarray, np.ndarray]:
    """The kernel, its result, and what it has to be."""
    _, x = between_guards(n, dtype)
    x[:] = np.random.default_rng(n).integers(-9, 9, n)
    on = np.random.default_rng(n + 1).integers(0, 2, BLOCK).astype(np.int32)
    _, out = between_guards(n, dtype)
    out[:] = 0
    kernel = scan[(1,)](x, on, out, n, HOW=how, REVERSE=reverse, BLOCK=BLOCK)
    seen = np.full(BLOCK, 3, dtype)
    seen[:n] = x
    if how in ("loaded", "odd"):
        seen[on == 0 if how == "loaded" else slice(0, None, 2)] = 3
    return kernel, out, seen


@pytest.mark.parametrize("n", [1, 7, BLOCK - 1, BLOCK])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("how", ["prefix", "loaded", "odd"])
def test_sums(how: str, reverse: bool, dtype: Any, n: int) -> None:
    _, out, seen = launched(how, n, dtype, reverse=reverse)
    expected = np.cumsum(seen[::-1])[::-1] if reverse else np.cumsum(seen)
    np.testing.assert_array_equal(out, expected[:n])


@pytest.mark.parametrize("n", [1, 9, BLOCK])
@code_on("neoverse-v1")
def test_a_function_without_a_neutral_value(n: int) -> None:
    """The last element up to each one that is not zero."""
    _, out, seen = launched("ordered", n, np.int32, reverse=False)
    np.testing.assert_array_equal(out, seen[np.maximum.accumulate(places(seen))][:n])


def places(seen: np.ndarray) -> np.ndarray:
    """The place of the last element up to each one that is not zero, or the first."""
    return np.where(seen != 0, np.arange(len(seen)), 0)


@pytest.mark.parametrize("how", ["prefix", "loaded", "odd"])
def test_only_masks_that_end_a_row_are_left_out(how: str) -> None:
    kernel, *_ = launched(how, BLOCK - 1, np.int64, reverse=False)
    loops = [loop for loop in parse_module(kernel.asm["loops"]).ops_of(For) if loop.carried]
    plain = [loop for loop in loops if not loop.ops_of(MaskedLoad)]
    assert len(plain) < len(loops)
    assert len(plain) == (how == "prefix")
    assert all(loop.ops_of(Load) for loop in plain)
