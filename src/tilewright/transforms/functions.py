"""The functions of a module."""

from __future__ import annotations

from tilewright.ir.core import Op


def functions_of(module: Op) -> list[Op]:
    """The ops that define a function with a body, in order."""
    return [op for op in module.regions[0].block if op.definition.symbol and op.regions and op.regions[0].blocks]


def symbol_name(function: Op) -> str:
    """The name calls use for `function`."""
    name = function.attributes["sym_name"]
    assert isinstance(name, str), "a function has a name"
    return name
