"""Arguments that native code does not know in a form that it does: foreign arrays as NumPy arrays, numbers as Python's.

    know_form(np.int64, int)                # such arguments of run-time parameters are launched as ints
    in_plain_forms(grid, values, layout, 3) # the grid and the values of a call; None: there is nothing to convert

What a form makes of a value must compile as the value itself does. Who registers a class knows that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime.drivers.cpu.records import RecordLayout
from tilewright.semantics.constexpr import constexpr, unwrap

_forms: dict[type, Callable[[Any], Any]] = {}
_constant_forms: dict[type, Callable[[Any], Any]] = {constexpr: unwrap}


def know_form(kind: type, form: Callable[[Any], Any]) -> None:
    """Make launches take arguments of exactly this class as what `form` makes of them; what it raises is ignored."""
    _forms[kind] = form


def in_plain_forms(
    grid: Any, values: tuple[Any, ...], layout: RecordLayout, parameters: int
) -> tuple[Any, tuple[Any, ...]] | None:
    """The grid and the values of a call, foreign ones converted; None if there are none, or if one cannot be converted.

    A grid function is called, with the values as they are; it may resize one.

    Args:
        grid: as in `kernel[grid]`.
        values, layout: the call.
        parameters: how many of the layout are the kernel's; options follow.
    """
    plain = _plain_values(values, layout)
    if plain is None or not callable(grid):
        return None if plain is None else (grid, plain)
    ahead = zip(layout.parameters[:parameters], layout.indices, strict=False)
    named = {parameter.name: parameter.default if index < 0 else values[index] for parameter, index in ahead}
    return grid(named), _plain_values(values, layout) or values


def _plain_values(values: tuple[Any, ...], layout: RecordLayout) -> tuple[Any, ...] | None:
    plain: list[Any] | None = None
    for parameter, index in zip(layout.parameters, layout.indices, strict=True):
        if index < 0:
            continue
        form = (_constant_forms if parameter.is_constant else _forms).get(type(values[index]))
        if form is None:
            continue
        plain = list(values) if plain is None else plain
        try:
            plain[index] = form(values[index])
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
            return None  # the launch from Python says what is wrong
    return None if plain is None else tuple(plain)
