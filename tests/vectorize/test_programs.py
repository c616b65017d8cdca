"""Random programs of integers give what Python gives: for numbers and arrays, through the three front ends."""

from __future__ import annotations

import importlib.util
import linecache
from pathlib import Path
from random import Random
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from long_runs import first_of

_spec = importlib.util.spec_from_file_location(
    "random_programs", Path(__file__).parents[1] / "frontends" / "programs.py"
)
assert _spec is not None
assert _spec.loader is not None
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)

ENDING = """

def f(x, y):
    a, b, c, d = body(x, y, 7, 30)
    return a + 3 * b + 5 * c + 7 * d
"""


def program(seed: int, *, is_static: bool) -> FunctionType:
    text = programs.Program(Random(seed), is_static=is_static).text() + ENDING
    file = f"<vectorized program {seed} {is_static}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"tl": tl}
    exec(compile(text, file, "exec"), names)
    found: FunctionType = names["f"]
    return found


def check(seed: int, *, is_static: bool) -> None:
    f, random = program(seed, is_static=is_static), Random(seed)
    x, y = (np.array([random.randint(-9, 99) for _ in range(19)]) for _ in range(2))
    expected = [f(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    for frontend in ("ast", "bytecode", "trace") if is_static else ("ast", "bytecode"):
        ours = tw.vectorize(f, frontend=frontend)
        assert ours(x, y).tolist() == expected, (seed, frontend)
        assert ours(int(x[0]), int(y[0])) == expected[0], (seed, frontend)


@pytest.mark.parametrize("is_static", [False, True])
def test_a_program(is_static: bool) -> None:
    check(5, is_static=is_static)


@pytest.mark.slow
@pytest.mark.parametrize("part", first_of(8, 1))
def test_programs(part: int) -> None:
    for seed in range(25 * part, 25 * part + 25):
        check(seed, is_static=seed % 2 == 0)
