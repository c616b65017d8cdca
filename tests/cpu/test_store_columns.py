"""Stores to rows that lie anywhere go along columns where those lie apart, and places that turn out to be neighbours
are read and written as one vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.store_columns import MIN_ROWS, store_columns
from tilewright.backends.cpu.version_strides import version_strides
from tilewright.dialects.cpu import Nest
from tilewright.dialects.tt_shape import Trans
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify

WHOLE = 5
"""The content of memory that must not be written."""


@tw.jit
def pixels(
    x, out, places, width, pitch, features, apart: int, N,
    B: tl.constexpr, F: tl.constexpr, HOW: tl.constexpr = "",
):
    """out[pixel, feature] = 2 x[pixel, feature]: pixels lie `pitch` apart from row to row, features `apart`."""
    pixel, feature = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, F)
    shown = (pixel < N)[:, None] & (feature < features)
    value = 2 * tl.load(x + pixel[:, None] * features + feature[None, :], shown, 0)
    where = pixel // width * pitch + pixel % width
    if HOW == "loaded":
        where = tl.load(places + pixel, pixel < N, 0)
    inside = (pixel < N)[:, None] & (feature < features)[None, :]
    if HOW == "gap":
        inside &= (pixel % 3 != 1)[:, None]
    if HOW == "kept":
        for _ in range(features):  # what a loop asks for again and again lies in a buffer
            tl.store(places + pixel, where, pixel < N)
    if HOW == "dense":
        tl.store(out + where[:, None] * F + feature[None, :], value, inside)
    elif HOW == "everything":
        tl.store(out + where[:, None] + feature[None, :] * apart, value)
    else:
        tl.store(out + where[:, None] + feature[None, :] * apart, value, inside)


@tw.jit
def image(x, out, width, pitch, N, B: tl.constexpr):
    """The pixels of an image whose rows lie `pitch` apart, as a vector."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i // width * pitch + i % width, i < N, 7), i < N)


def run(dtype: Any, width: int, pitch: int, features: int, apart: int, n: int, how: str = "") -> None:
    x = np.random.default_rng(width).integers(0, 60, (n, features)).astype(dtype)
    at = np.arange(n) // width * pitch + np.arange(n) % width
    where = at[:, None] + np.arange(features) * apart
    flat = between_guards(int(where.max()) + 1, dtype)[1]
    flat[:] = WHOLE
    expected = flat.copy()
    shown = np.arange(n) % 3 != 1 if how == "gap" else np.full(n, True)
    expected[where[shown]] = 2 * x[shown]
    pixels[(-(-n // 32),)](x, flat, at.astype(np.int32), width, pitch, features, apart, n, B=32, F=16, HOW=how)
    np.testing.assert_array_equal(flat, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8])
@pytest.mark.parametrize(("width", "pitch"), [(64, 64), (32, 40), (7, 7), (7, 9), (1, 3), (16, 17), (5, 0)])
@pytest.mark.parametrize("how", ["", "gap", "kept", "loaded"])
@code_on("znver5")
def test_rows_of_every_width(dtype: Any, width: int, pitch: int, how: str) -> None:
    if pitch == 0:
        width = 200
    run(dtype, width, pitch, 11, 900, 75, how)


@pytest.mark.parametrize("features", [1, 2, 15, 16])
@pytest.mark.parametrize("apart", [1, 300, 1024])
def test_every_number_and_distance_of_columns(features: int, apart: int) -> None:
    width, pitch = (1, 16) if apart == 1 else (64, 64)
    run(np.float32, width, pitch, features, apart, 40)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_])
@pytest.mark.parametrize("width", [1, 3, 8, 16, 31, 64, 500])
@pytest.mark.parametrize("extra", [0, 1, 5])
@pytest.mark.parametrize("end", [0, 1])
def test_places_that_may_be_neighbours(dtype: Any, width: int, extra: int, end: int) -> None:
    """Memory begins or ends at a page that nobody may touch."""
    n, pitch = 150, width + extra
    at = np.arange(n) // width * pitch + np.arange(n) % width
    x = between_guards(int(at.max()) + 1, dtype)[end]
    x[:] = np.random.default_rng(width).integers(0, 2 if dtype is np.bool_ else 99, x.size)
    out = np.zeros(n, dtype)
    image[(5,)](x, out, width, pitch, n, B=32)
    np.testing.assert_array_equal(out, x[at])


def ttcir(how: str, rows: int = 32) -> Op:
    x = np.zeros(4096, np.float32)
    places = np.zeros(64, np.int32)
    text = pixels.warmup(x, x, places, 7, 7, 3, 7, 40, grid=(1,), B=rows, F=16, HOW=how).asm["ttcir"]
    module = parse_module(text)
    version_strides(module)
    return module


@pytest.mark.parametrize("how", ["", "gap", "kept"])
@pytest.mark.parametrize(("width", "pitch", "apart"), [(7, 7, 60), (7, 9, 90), (1, 3, 1), (3, 4, 50)])
def test_a_nest_that_goes_along_columns_stores_the_same(how: str, width: int, pitch: int, apart: int) -> None:
    x = np.random.default_rng(1).integers(-9, 9, 4096).astype(np.float32)
    places = np.random.default_rng(2).permutation(64).astype(np.int32)
    found = []
    for is_transposed in (False, True):
        module = ttcir(how)
        if is_transposed:
            assert store_columns(module)
            verify(module)
        out = np.zeros(4096, np.float32)
        run_ir(module, [x, out, places, width, pitch, 3, apart, 30])
        found.append(out)
    np.testing.assert_array_equal(found[1], found[0])
    assert found[0].any()


@pytest.mark.parametrize(("how", "rows", "turned"), [
    ("", 32, 1), ("gap", 32, 1), ("kept", 32, 1), ("everything", 32, 1), ("dense", 32, 0), ("loaded", 32, 0),
    ("", MIN_ROWS // 2, 0),
])
def test_only_rows_that_lie_anywhere_with_columns_apart_are_turned(how: str, rows: int, turned: int) -> None:
    module = ttcir(how, rows)
    assert store_columns(module) == bool(turned)
    nests = [nest for nest in module.walk() if isinstance(nest, Nest)]
    assert sum(any(isinstance(op, Trans) for op in nest.body) for nest in nests) == turned


def test_nests_that_are_to_be_short_are_not_turned() -> None:
    module = ttcir("")
    for nest in [op for op in module.walk() if isinstance(op, Nest)]:
        nest.mark(optimize_size=True)
    assert not store_columns(module)


@tw.jit
def listed(x, places, out, N, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + tl.load(places + i, i < N, 0)), i < N)


@pytest.mark.parametrize(("kernel", "asks"), [(image, True), (listed, False)])
def test_only_places_that_are_computed_are_asked_whether_they_are_neighbours(kernel: Any, asks: bool) -> None:
    x, places = np.zeros(64, np.float32), np.zeros(64, np.int32)
    given = (x, x, 7, 9, 40) if kernel is image else (x, places, x, 40)
    text = kernel.warmup(*given, grid=(1,), B=32).asm["loops"]
    assert ("vector.reduction" in text) == asks
    assert "vector.gather" in text
