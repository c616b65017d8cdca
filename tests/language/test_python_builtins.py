"""Python's built-in functions in kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def extremes(out, A: tl.constexpr, B: tl.constexpr):
    tl.store(out, min(A, B))
    tl.store(out + 1, max(A, B))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def test_numbers_that_have_an_order() -> None:
    out = np.zeros(2, np.float32)
    extremes[(1,)](out, 2.5, 0.0)
    assert out.tolist() == [0.0, 2.5]


@pytest.mark.parametrize("number", [float("nan"), -0.0])
def test_numbers_that_have_none_are_refused(number: float) -> None:
    with pytest.raises(tw.CompilationError, match=f"`min` does not accept a value = {number}"):
        extremes[(1,)](np.zeros(2, np.float32), 1.0, number)


def kinds(out, n, SIZE: tl.constexpr):
    tl.store(out, isinstance(SIZE, tl.constexpr))
    tl.store(out + 1, isinstance(SIZE, int))
    tl.store(out + 2, isinstance((n, SIZE), tl.tuple))
    tl.store(out + 3, isinstance(n, (tl.constexpr, tl.tuple)))
    tl.store(out + 4, isinstance(n, (tl.tuple, tl.tensor)))
    tl.store(out + 5, isinstance(None, tl.constexpr))


@pytest.mark.parametrize(
    "way", [{"frontend": name} for name in ("ast", "bytecode", "trace")] + [{"interpret": True}], ids=repr
)
def test_constants_are_what_they_are(way: dict[str, Any]) -> None:
    out = np.full(6, 7, np.int32)
    tw.jit(kinds, **way)[(1,)](out, 3, SIZE=4)
    assert out.tolist() == [0, 1, 1, 0, 1, 0]


@tw.jit
def joined(out, SHAPE: tl.constexpr):
    first: tl.constexpr = [1] + SHAPE  # noqa: RUF005 - joined is what is tested
    last: tl.constexpr = SHAPE + (5,)  # noqa: RUF005 - as above
    both: tl.constexpr = first + last
    for number in tl.static_range(len(both)):
        tl.store(out + number, both[number])
    tl.store(out + 6, SHAPE == (2, 3))


@pytest.mark.parametrize("shape", [[2, 3], (2, 3)])
def test_lists_and_tuples_of_constants_can_be_joined(shape: Any) -> None:
    out = np.zeros(7, np.int32)
    joined[(1,)](out, shape)
    assert out.tolist() == [1, 2, 3, 2, 3, 5, 1]
