"""Symbols of the functions that a kernel calls: which function, and what it is specialised for, as Triton spells it.

scale(x, 2.0) in kernels.py         kernels.scale__fp32_c2.0
Pair(x, 3).total()                  kernels.Pair.total__kernels.Pair<fp32S64S, i32>
each((x, 1), relu)                  kernels.each__Tfp32_c1T_cJITFunction(kernels:relu)
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from tilewright.language.aggregates import FIELDS
from tilewright.language.callable import JITCallable
from tilewright.language.values import Compound, Fixed, Sequence, Structure, describe, unwrapped

_LONGEST = 1000


def mangled(function: FunctionType, layouts: Iterable[Structure]) -> str:
    """The symbol of a function.

    Args:
        function: the function.
        layouts: what each parameter is: types and constants.
    """
    arguments = "_".join(map(_text, layouts))
    return f"{_full_name(function)}__{arguments}".replace("'", "_sq_")[:_LONGEST]


def _text(layout: Structure) -> str:
    if isinstance(layout, Sequence):
        return f"T{'_'.join(map(_text, layout.items))}T"
    if isinstance(layout, Compound):
        return f"{_full_name(layout.kind)}<{', '.join(map(_text, layout.items))}>"
    return _constant(unwrapped(layout.value)) if isinstance(layout, Fixed) else layout.mangle()


def _constant(value: Any) -> str:
    fields = getattr(type(value), FIELDS, None)
    if fields is not None:
        return _text(Compound(type(value), fields, tuple(Fixed(getattr(value, name)) for name in fields)))
    if isinstance(value, JITCallable):
        return f"cJITFunction({value.fn.__module__}:{value.fn.__qualname__})"
    if hasattr(value, "mangle") and not isinstance(value, type):
        return f"c{value.mangle()}"
    text = repr(value)
    return f"c{describe(value) if ' at 0x' in text else text}"  # an address is another one in every process


def _full_name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"
