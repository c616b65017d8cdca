"""Scans of rows: the same bits as folding element after element, for every combination with a neutral value."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

SIZE = 64
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 2.0**-149]


@tw.jit
def added(a, b):
    return a + b


@tw.jit
def multiplied(a, b):
    return a * b


@tw.jit
def both(a, b):
    return a & b


@tw.jit
def either(a, b):
    return a | b


@tw.jit
def different(a, b):
    return a ^ b


@tw.jit
def larger(a, b):
    return tl.maximum(a, b)


@tw.jit
def smaller(a, b):
    return tl.minimum(a, b)


@tw.jit
def larger_or_nan(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@tw.jit
def smaller_or_nan(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@tw.jit
def later(a, b):
    """No well-known operation, so nothing is neutral."""
    return a * 0 + b


@tw.jit
def scanned(x, out, n, COMBINE: tl.constexpr, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    row = tl.load(x + index, mask=index < n)
    tl.store(out + index, tl.associative_scan(row, 0, COMBINE, reverse=REVERSE), mask=index < n)


NUMPYS = {
    added: np.add,
    multiplied: np.multiply,
    both: np.bitwise_and,
    either: np.bitwise_or,
    different: np.bitwise_xor,
    larger: np.maximum,
    smaller: np.minimum,
}
FLOATS = {larger: np.fmax, smaller: np.fmin, larger_or_nan: np.maximum, smaller_or_nan: np.minimum}


def scan(x: Any, combine: Any, *, is_reverse: bool, block: int = SIZE) -> Any:
    out = np.zeros_like(x)
    scanned[(1,)](x, out, x.size, COMBINE=combine, REVERSE=is_reverse, BLOCK=block)
    return out


def expected(x: Any, ufunc: Any, *, is_reverse: bool) -> Any:
    with np.errstate(all="ignore"):
        found = ufunc.accumulate(x[::-1] if is_reverse else x, dtype=x.dtype)
        return found[::-1] if is_reverse else found


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("combine", NUMPYS, ids=lambda kernel: kernel.fn.__name__)
def test_integers(combine: Any, dtype: str, *, is_reverse: bool) -> None:
    facts = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(facts.min, facts.max, SIZE, dtype, endpoint=True)
    x[::7], x[5] = facts.max, facts.min
    found = scan(x, combine, is_reverse=is_reverse)
    np.testing.assert_array_equal(found, expected(x, NUMPYS[combine], is_reverse=is_reverse))


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("combine", FLOATS, ids=lambda kernel: kernel.fn.__name__)
def test_extremes_of_floats(combine: Any, dtype: str, *, is_reverse: bool) -> None:
    """NaN in front, in the middle, everywhere."""
    x = np.random.default_rng(2).standard_normal(SIZE).astype(dtype)
    rows = [x, x.copy(), np.full_like(x, np.nan), np.full_like(x, -np.inf), np.full_like(x, np.inf)]
    rows[1][[0, 1, 20, 63]] = np.nan
    for row in rows:
        found = scan(row, combine, is_reverse=is_reverse)
        np.testing.assert_array_equal(found, expected(row, FLOATS[combine], is_reverse=is_reverse))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value", SPECIAL)
def test_sums_and_products_of_special_floats(value: float, dtype: str) -> None:
    """The signs of zeros too: nothing is added to the first elements, and nothing to them alone."""
    x = np.full(SIZE, value, dtype)
    for combine in (added, multiplied):
        found, wanted = scan(x, combine, is_reverse=False), expected(x, NUMPYS[combine], is_reverse=False)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("size", [1, 2, 4, 16, 31, 1024])
@pytest.mark.parametrize("combine", [added, later], ids=["added", "later"])
def test_sizes(combine: Any, size: int) -> None:
    x = np.arange(1, size + 1, dtype=np.int32)
    wanted = np.cumsum(x, dtype=np.int32) if combine is added else x
    np.testing.assert_array_equal(scan(x, combine, is_reverse=False, block=tw.next_power_of_2(size)), wanted)


def test_a_vector_waits_for_one_addition_of_the_one_before() -> None:
    """No shuffle and no choice of the first vector stand between the sums of two vectors; no lanes are blended."""
    x, out = np.zeros(1024, np.int32), np.zeros(1024, np.int32)
    kernel = scanned[(1,)](x, out, 1024, COMBINE=added, REVERSE=False, BLOCK=1024)
    loop = re.search(r"iter_args\(%(\w+) = .*?scf.yield %(\w+)", str(kernel.asm["loops"]), re.DOTALL)
    assert loop is not None
    carried, yielded = loop.groups()
    assert re.search(rf"%{yielded} = arith.addi %{carried}, ", loop[0])
    assert "arith.select" not in re.sub(r"arith.select .*: !tt.ptr<i32>", "", loop[0])
