"""The language's counterparts of functions of Python's `math` and of NumPy.

advice_for("sqrt")      take tl.sqrt
advice_for("arcsin")    take tl.extra.libdevice.asin
"""

from __future__ import annotations

OF_LANGUAGE = frozenset(
    (
        *("abs", "arange", "argmax", "argmin", "broadcast_to", "ceil", "clamp", "cos", "cumprod", "cumsum", "dot"),
        *("erf", "exp", "exp2", "expand_dims", "flip", "floor", "fma", "full", "gather", "histogram", "log", "log2"),
        *("max", "maximum", "min", "minimum", "ravel", "reshape", "sin", "sort", "sqrt", "squeeze", "sum", "where"),
        *("zeros", "zeros_like"),
    )
)
OF_LIBDEVICE = frozenset(
    (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cosh", "erfc", "exp10"),
        *("expm1", "fdim", "fmod", "hypot", "isinf", "isnan", "ldexp", "lgamma", "log10", "log1p", "nextafter", "pow"),
        *("rint", "round", "sinh", "tan", "tanh", "tgamma", "trunc"),
    )
)
OTHER_NAMES = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "fabs": "abs",
    "gamma": "tgamma",
    "matmul": "dot",
    "power": "pow",
}
"""Functions that the language has under another name."""


def counterpart(name: str) -> str | None:
    """The function of the language that computes what a function of that name does; None if there is none."""
    name = OTHER_NAMES.get(name, name)
    if name in OF_LANGUAGE:
        return f"tl.{name}"
    return f"tl.extra.libdevice.{name}" if name in OF_LIBDEVICE else None


def advice_for(name: str) -> str:
    """The advice on what to do instead of calling a function of that name on values of a kernel."""
    found = counterpart(name)
    return f"take {found}" if found else "call it on the host and pass what it gives"
