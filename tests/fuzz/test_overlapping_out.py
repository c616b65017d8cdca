"""Vectorized functions whose `out=` shares memory with what they read give what they would give with copies of that.

Arrays are views of one piece of memory: of any strides (0 and negative ones too), dtypes, shapes, and overlaps.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from long_runs import first_of

BYTES = 16384
DTYPES = ("int8", "uint8", "int16", "int32", "uint32", "int64", "float32", "float64", "bool")
CASES = 20_000
BLOCKS = 40
FAST = 400

Array = np.ndarray[Any, Any]


@tw.vectorize
def left(a, b):
    return a


@tw.vectorize
def sum_of_both(a, b):
    return a + b


@tw.vectorize
def greater(a, b):
    return max(a, b)


@tw.vectorize
def by_steps(a, b):
    count = 0
    while count < (b & 3):
        count += 1
    return a + count


PYTHON = {left: lambda a, b: a + b * 0, sum_of_both: np.add, greater: np.maximum, by_steps: lambda a, b: a + (b & 3)}


def some_view(rng: Random, memory: Array, dtype: str, shape: tuple[int, ...], *, written: bool) -> Array:
    """A view of the memory; no two elements of one that is written share a byte."""
    itemsize = np.dtype(dtype).itemsize
    order = list(range(len(shape)))
    rng.shuffle(order)
    step, steps = itemsize * rng.choice((1, 1, 1, 2, 3)), [0] * len(shape)
    for axis in order:
        repeats = not written and rng.random() < 0.15
        steps[axis] = 0 if repeats else step * rng.choice((1, 1, 1, -1))
        step *= shape[axis] if not repeats else 1
        step += itemsize * rng.choice((0, 0, 0, 1)) if len(shape) > 1 else 0
    low = sum(min(0, (extent - 1) * stride) for extent, stride in zip(shape, steps, strict=True))
    near = rng.choice((0, 0, 0, 1, 2, 7, 16, rng.randrange(64)))
    start = BYTES // 2 // 64 * 64 + near * itemsize
    start = start if rng.random() < 0.5 else start - low
    return np.ndarray(shape, dtype, memory, start, tuple(steps))


def some_shape(rng: Random) -> tuple[int, ...]:
    """A shape; 0, 1 and odd extents among them."""
    flat = (rng.choice((0, 1, 2, 7, 16, 31, 32, 33, 64, 100)),)
    return rng.choice((flat, flat, (rng.choice((1, 3, 8)), rng.choice((1, 5, 16, 17))), (2, 3, rng.choice((1, 4, 9)))))


def check(seed: int) -> None:
    """One call gives what it gives with copies."""
    rng = Random(seed)
    dtype = rng.choice(DTYPES)
    function = rng.choice(list(PYTHON))
    if function is by_steps and dtype in ("float32", "float64", "bool"):
        function = left
    shape = some_shape(rng)
    memory = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, BYTES, dtype=np.uint8)
    if dtype.startswith("float"):
        whole = memory.view(dtype)
        whole[:] = np.random.default_rng(seed).integers(-50, 50, whole.size)
    lesser = tuple(1 if rng.random() < 0.2 else extent for extent in shape)[rng.choice((0, 0, 0, len(shape) - 1)) :]
    a = some_view(rng, memory, dtype, shape, written=False)
    b = some_view(rng, memory, dtype, lesser, written=False)
    out = some_view(rng, memory, dtype, shape, written=True)
    where = some_view(rng, memory, "bool", shape, written=False) if dtype == "bool" and rng.random() < 0.3 else None
    if where is None and rng.random() < 0.2:
        where = np.random.default_rng(seed).integers(0, 2, shape).astype(np.bool_)
    chosen = np.True_ if where is None else where.copy()
    expected = memory.copy()
    place = np.ndarray(shape, dtype, expected, out.__array_interface__["data"][0] - memory.ctypes.data, out.strides)
    with np.errstate(all="ignore"):
        result = PYTHON[function](a.copy(), b.copy()).astype(dtype)
    np.copyto(place, result, where=chosen)
    options = {} if where is None else {"where": where}
    given = function(a, b, out=out, **options)
    assert given is out
    differs = np.flatnonzero(memory != expected)
    strides = f"strides {a.strides} {b.strides} {out.strides}, where {where is not None}"
    assert not len(differs), f"seed {seed}: {dtype} {shape} {lesser}, {strides}: {len(differs)} bytes differ"


@pytest.mark.slow
def test_some_calls() -> None:
    for seed in range(FAST):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", first_of(BLOCKS, 1))
def test_many_calls(block: int) -> None:
    for seed in range(FAST + block * CASES // BLOCKS, FAST + (block + 1) * CASES // BLOCKS):
        check(seed)
