"""Ten functions of two numbers, from cheap to transcendental, in the words of each library.

The Python text is compiled with the `np` of the library that runs it: NumPy itself, `jax.numpy`, or NumPy as Tilewright
and Numba read it. Numba has no `np.where` of numbers, numexpr a language of its own.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple


class Expression(NamedTuple):
    """One function: its name, and its texts."""

    name: str
    python: str
    numexpr: str
    numba: str = ""

    def function(self, numpy: Any, *, for_numba: bool = False) -> FunctionType:
        """The function, with `numpy` as its `np`."""
        text = f"def f(a, b):\n    return {(for_numba and self.numba) or self.python}\n"
        file = f"<{self.name} for {'numba' if for_numba else numpy.__name__}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"np": numpy}
        exec(compile(text, file, "exec"), namespace)
        found: FunctionType = namespace["f"]
        return found


def same(name: str, text: str) -> Expression:
    """An expression that numexpr spells as Python does."""
    return Expression(name, text, text.replace("np.", ""))


EXPRESSIONS = (
    same("a + b", "a + b"),
    same("2 a + b", "2.0 * a + b"),
    same("some_expr", "b / (a + 2.0) - 3.0 * (b - a)"),
    same("cubic", "((0.5 * a + 1.0) * a - 3.0) * a + b"),
    Expression(
        "where",
        "np.where(a > b, 2.0 * a, b - 1.0)",
        "where(a > b, 2.0 * a, b - 1.0)",
        "2.0 * a if a > b else b - 1.0",
    ),
    same("sqrt", "np.sqrt(a * a + b * b)"),
    same("exp", "np.exp(-a * a) * b"),
    same("sin cos", "np.sin(a) * np.cos(b)"),
    same("log1p exp", "np.log1p(np.exp(-a)) + b"),
    same("tanh", "0.5 * a * (1.0 + np.tanh(0.8 * (a + 0.045 * b)))"),
)
SIZES = (1_000, 100_000, 10_000_000)

Work = Callable[[], Any]
