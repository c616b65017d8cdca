"""The functions of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Op
from tilewright.ir.rewriter import Fold, Rule, apply_rules
from tilewright.ir.types import FunctionType


def functions_of(module: Op) -> list[Op]:
    """The ops that define a function with a body, in order."""
    return [op for op in module.regions[0].block if op.definition.symbol and op.regions and op.regions[0].blocks]


def symbol_name(function: Op) -> str:
    """The name calls use for `function`."""
    name = function.attributes["sym_name"]
    assert isinstance(name, str), "a function has a name"
    return name


def argument_attributes(function: Op) -> list[dict[str, Attribute]]:
    """Per argument of `function` what is known about it."""
    type = function.attributes["function_type"]
    assert isinstance(type, FunctionType), "a function has a function type"
    details = function.attributes.get("arg_attrs") or ({},) * len(type.inputs)
    assert isinstance(details, tuple), "arg_attrs has one dictionary per argument"
    return [attributes for attributes in details if isinstance(attributes, dict)]


def rewrite_functions(
    module: Op, rules: Mapping[str, Sequence[Rule]], *, folds: Mapping[str, Fold] | None = None, folded: bool = False
) -> bool:
    """`apply_rules` to every function of `module`; returns whether anything changed."""
    changed = False
    for function in functions_of(module):
        changed |= apply_rules(function, rules, folds=folds, folded=folded)
    return changed
