"""The types of arguments that a function of libdevice takes.

    @takes("fp32 -> fp32", "fp64 -> fp64")
    def sinpi(arg0): ...

A form is the types of the arguments and that of the result. If the arguments already have the types of a form, they are
only broadcast to one shape; otherwise they are promoted to one type first, as in Triton, and refused if that matches no
form either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from tilewright.semantics.active import context
from tilewright.semantics.arithmetic import common_operands, to_tensor
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.casting import cast
from tilewright.semantics.errors import WrongOperandType
from tilewright.semantics.math import extern, library_call
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import dtype, int1, int32
from tilewright.support.diagnostics import SemanticError

FLOATS_1 = ("fp32 -> fp32", "fp64 -> fp64")
FLOATS_2 = ("fp32, fp32 -> fp32", "fp64, fp64 -> fp64")
FLOATS_3 = ("fp32, fp32, fp32 -> fp32", "fp64, fp64, fp64 -> fp64")
Function = Callable[..., Any]
PREFIX = "__nv_"
ABSENT = frozenset({"fast_tanhf"})
"""Functions that NVIDIA's library does not have."""
_LETTERS = {"fp32": "f", "fp64": "d"}
_DIRECTED = re.compile(r"(?:add|sub|mul|div|rcp|r?sqrt)_r[nzdu]")
"""Arithmetic that rounds as its name says; a letter before the name says of what."""
_WIDTHS: Mapping[str, Mapping[str, str]] = {
    "abs": {"int64": "llabs", "fp32": "fabsf", "fp64": "fabs"},
    "fast_dividef": {"fp32, fp32": "fast_fdividef"},
    "isinf": {"fp32": "isinff", "fp64": "isinfd"},
    "isnan": {"fp32": "isnanf", "fp64": "isnand"},
    "mulhi": {"uint32, uint32": "umulhi", "int64, int64": "mul64hi", "uint64, uint64": "umul64hi"},
    "pow": {"fp32, int32": "powif", "fp64, int32": "powi"},
    "sad": {"uint32, uint32, uint32": "usad"},
    "signbit": {"fp32": "signbitf", "fp64": "signbitd"},
}
_LONG = {name: {"int64": f"{name}ll"} for name in ("brev", "clz", "ffs", "popc")}
_UNSIGNED = {name: {"uint32, uint32": f"u{name}"} for name in ("hadd", "mul24", "rhadd")}
_FUSED = {f"fma_{mode}": {"fp32, fp32, fp32": f"fmaf_{mode}"} for mode in ("rn", "rz", "rd", "ru")}
IRREGULAR: Mapping[str, Mapping[str, str]] = {**_WIDTHS, **_LONG, **_UNSIGNED, **_FUSED}
"""Names without the prefix, by the function and the types of its arguments."""


def takes(*forms: str) -> Callable[[Function], Function]:
    """A decorator: the function is called with tiles that are one of the `forms`, all of one shape.

    The forms stay with the function, as its attribute `forms`. What is no form raises a SemanticError.
    """
    accepted = tuple(tuple(form.partition(" -> ")[0].split(", ")) for form in forms)

    def decorate(function: Function) -> Function:
        names = function.__code__.co_varnames[: len(accepted[0])]

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            given = [*arguments, *(named.pop(name) for name in names[len(arguments) :] if name in named)]
            if named or len(given) != len(names):
                raise TypeError(f"{function.__name__} takes {', '.join(names)}")
            tiles = _matched(function.__name__, given, accepted)
            called = _nvidias(function.__name__, tiles, forms) if context().calls_libraries else None
            return function(*tiles) if called is None else called

        call.forms = forms  # type: ignore[attr-defined]  # functions take any attribute
        return call

    return decorate


def functions_of(names: Mapping[str, Any]) -> dict[str, Any]:
    """The functions of libdevice among the names of a file: those that have forms."""
    return {name: found for name, found in names.items() if hasattr(found, "forms")}


def named(name: str, function: Function, forms: Sequence[str], text: str) -> Any:
    """`function` as the one of libdevice that is called `name`, documented by `text`."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return takes(*forms)(function)


def library_function(name: str, forms: Sequence[str] = FLOATS_1, text: str = "", *, symbol: str = "") -> Any:
    """The function `symbol` of the library that back ends have, by default that of the same name."""
    called = f"__tw_{symbol or name}"
    by_arguments: tuple[Function, ...] = (
        lambda arg0: extern(called, (arg0,)),
        lambda arg0, arg1: extern(called, (arg0, arg1)),
        lambda arg0, arg1, arg2: extern(called, (arg0, arg1, arg2)),
    )
    return named(name, by_arguments[forms[0].count(",")], forms, text or f"`{name}` of each element.")


def nvidia_symbol(name: str, types: str, forms: Sequence[str]) -> str:
    """The symbol in NVIDIA's library of `name`, which has these forms, for arguments of the types; "" if there is none.

    By the rule, a function that also takes fp64 has an `f` behind its name for fp32; IRREGULAR has the others.
    """
    if name in ABSENT:
        return ""
    if _DIRECTED.fullmatch(name):
        return f"{PREFIX}{_LETTERS[types[:4]]}{name}"
    is_single = "fp32" in types and any("fp64" in form for form in forms)
    return PREFIX + IRREGULAR.get(name, {}).get(types, f"{name}f" if is_single else name)


def _nvidias(name: str, tiles: Sequence[Tile], forms: Sequence[str]) -> Tile | None:
    """The call of NVIDIA's function of that name, which has numbers for truth; None if there is no such function."""
    types = ", ".join(_types(tiles))
    symbol = nvidia_symbol(name, types, forms)
    if not symbol:
        return None
    result = dtype(next(form.partition(" -> ")[2] for form in forms if form.startswith(f"{types} -> ")))
    if result is int1:
        return cast(library_call(symbol, tiles, int32), int1)
    return library_call(symbol, tiles, result)


def _matched(name: str, arguments: Sequence[Any], accepted: Sequence[tuple[str, ...]]) -> list[Tile]:
    tiles = [to_tensor(argument) for argument in arguments]
    if _types(tiles) in accepted:
        shaped = tiles[0]
        for tile in tiles[1:]:
            shaped = broadcast(shaped, tile)[0]
        return [broadcast(tile, shaped)[0] for tile in tiles]
    common = tiles[0]
    for argument in arguments:  # numbers adopt the type of tiles
        common = common_operands(argument, common, operation=name)[1]
    promoted = [common_operands(argument, common, operation=name)[0] for argument in arguments]
    if _types(promoted) in accepted:
        return promoted
    raise SemanticError(WrongOperandType(name, _listed(_types(tiles)), " or ".join(map(_listed, accepted))))


def _listed(types: Sequence[str]) -> str:
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def _types(tiles: Sequence[Tile]) -> tuple[str, ...]:
    return tuple(str(tile.type.scalar) for tile in tiles)
