"""The program of each operator and function for kinds of numbers, as a table: the result, and the ops in order.

    x % y
      int8, uint8: int16 = extsi extui constant=0 cmpi eq …

`test_dtypes.py` and `test_numbers.py` compare with NumPy and Python what a few of these compute.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.language as tl
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.core import Op
from tilewright.support.diagnostics import CompilationError
from tilewright.vectorizing.functions import OTHERS
from tilewright.vectorizing.kinds import BOOL, WEAK_FLOAT, WEAK_INT, Kind
from tilewright.vectorizing.program import make_program

HIDDEN = {"builtin.module", "tt.func", "tt.return"}
ONES = (BOOL, *map(Kind, ("int8", "uint32", "float16", "float64")), WEAK_INT, WEAK_FLOAT)
PAIRS = (
    *((Kind(left), Kind(right)) for left, right in (("int8", "uint8"), ("uint64", "int16"), ("float16", "int32"))),
    *((BOOL, BOOL), (Kind("float32"), WEAK_INT), (WEAK_INT, WEAK_INT), (WEAK_FLOAT, WEAK_INT), (WEAK_INT, WEAK_FLOAT)),
)
OPERATORS: dict[str, Callable[..., Any]] = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "x // y": lambda x, y: x // y,
    "x % y": lambda x, y: x % y,
    "x ** y": lambda x, y: x**y,
    "x << y": lambda x, y: x << y,
    "x >> y": lambda x, y: x >> y,
    "x & y": lambda x, y: x & y,
    "x < y": lambda x, y: x < y,
    "x != y": lambda x, y: x != y,
    "x and y": lambda x, y: x and y,
    "x if y else 0": lambda x, y: x if y else 0,
    "-x": lambda x: -x,
    "+x": lambda x: +x,
    "~x": lambda x: ~x,
    "not x": lambda x: not x,
    "x ** 3": lambda x: x**3,
    "x ** -2": lambda x: x**-2,
    "x ** 0.5": lambda x: x**0.5,
    "x << 9": lambda x: x << 9,
    "x % 3": lambda x: x % 3,
    "x // -4": lambda x: x // -4,
    "x < 300": lambda x: x < 300,
    "x + 1": lambda x: x + 1,
    "x * 2.5": lambda x: x * 2.5,
    "round(x, 1)": lambda x: round(x, 1),
    "log(x, 2)": lambda x: math.log(x, 2),
    "clip(x, 1, 5)": lambda x: np.clip(x, 1, 5),
    "min(x, 3, 0.5)": lambda x: min(x, 3, 0.5),
    "where(x, x, 7)": lambda x: np.where(x, x, 7),
    "x.astype(int16)": lambda x: x.astype(np.int16),
    "int8(x)": lambda x: np.int8(x),
    "fma(x, x, x)": lambda x: tl.fma(x, x, x),
    "math.exp(x)": lambda x: math.exp(x),
    "np.exp(x)": lambda x: np.exp(x),
}


def calls() -> dict[str, Callable[..., Any]]:
    """Functions by name, each as one of one number and as one of two."""
    names = {name: function for _, those in OTHERS for name, function in [(_name(those[-1]), those[-1])]}
    names |= {_name(those[0]): those[0] for _, those in OTHERS} | {"np.arctan2": np.arctan2}
    found = {}
    for name, function in names.items():
        found[f"{name}(x)"] = lambda x, function=function: function(x)
        found[f"{name}(x, y)"] = lambda x, y, function=function: function(x, y)
    return found


def _name(function: Any) -> str:
    home = {builtins: "", math: "math.", np: "np."}
    name = function.__name__
    return next((text for module, text in home.items() if getattr(module, name, None) is function), "tl.") + name


def shown(op: Op) -> str:
    """The name of an op, with a constant's number and other words."""
    words = [str(value.value) for value in op.attributes.values() if isinstance(value, Number)]
    words += [value.name for value in op.attributes.values() if isinstance(value, Keyword)]
    return " ".join([op.name.partition(".")[2], *words])


def line(function: Any, kinds: tuple[Kind, ...]) -> str:
    given = ", ".join(map(str, kinds))
    try:
        program = make_program(function, kinds, exact=all(kind.weak for kind in kinds))
    except CompilationError as error:
        return f"  {given}: {str(error).splitlines()[0]}\n"
    ops = (shown(op) for op in program.module.walk() if op.name not in HIDDEN)
    return f"  {given}: {program.result} = {', '.join(ops)}\n"


@pytest.mark.parametrize(("table", "make"), [("operators", lambda: OPERATORS), ("functions", calls)])
def test_programs(table: str, make: Callable[[], dict[str, Any]], golden: Callable[[str, str], None]) -> None:
    found = []
    for name, function in make().items():
        two = function.__code__.co_varnames[:2] == ("x", "y")
        lines = [line(function, kinds) for kinds in (PAIRS if two else [(kind,) for kind in ONES])]
        if any(" = " in text for text in lines):
            found += [f"{name}\n", *lines]
    golden("".join(found), f"vectorize/{table}.txt")
