"""Evaluation of the tables of `special_tables.py`, and what functions that compute in fp64 share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.language.extra.forms import FLOATS_1, takes
from tilewright.language.math import fma
from tilewright.language.operations import cast, where
from tilewright.semantics.types import float64

NAN = float("nan")


def polynomial(terms: Sequence[float], u: Any) -> Any:
    """The polynomial's value at u by Horner's rule; `terms` has the highest power first."""
    result: Any = terms[0]
    for term in terms[1:]:
        result = fma(result, u, term)
    return result


def centered(terms: Sequence[float], x: Any, low: float, high: float) -> Any:
    """A polynomial of where x lies in [low, high], from -1 to 1."""
    return polynomial(terms, (x - (low + high) / 2.0) * (2.0 / (high - low)))


def in_double(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of fp64 made one of fp32, too, whose result is rounded; NaN gives NaN."""

    def convert(arg0: Any) -> Any:
        x = cast(arg0, float64)
        return cast(where(x == x, function(x), NAN), arg0.type.scalar)

    convert.__name__ = convert.__qualname__ = function.__name__
    convert.__doc__ = function.__doc__
    return takes(*FLOATS_1)(convert)
