"""The functions of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.dialects.tt_function import callee_of
from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Op
from tilewright.ir.rewriter import Fold, Rule, apply_rules
from tilewright.ir.types import FunctionType


def functions_of(module: Op) -> list[Op]:
    """The ops that define a function with a body, in order; also those of modules inside."""
    found: list[Op] = []
    for op in module.regions[0].block:
        if op.name == "builtin.module":
            found += functions_of(op)
        elif op.definition.symbol and op.regions and op.regions[0].blocks:
            found.append(op)
    return found


def symbol_name(function: Op) -> str:
    """The name calls use for `function`."""
    name = function.attributes["sym_name"]
    assert isinstance(name, str), "a function has a name"
    return name


def callees_of(function: Op, module: Op) -> list[Op]:
    """The functions of `module` that `function` calls, each once."""
    functions = {symbol_name(each): each for each in functions_of(module)}
    names = dict.fromkeys(callee_of(op) for op in function.walk() if op.name == "tt.call")
    return [functions[name] for name in names if name in functions]


def callers_first(module: Op) -> list[Op]:
    """The functions of `module`, each behind all that call it; there must be no recursion."""
    order: dict[Op, None] = {}

    def finish(function: Op) -> None:
        for callee in callees_of(function, module):
            if callee not in order:
                finish(callee)
        order[function] = None

    for function in functions_of(module):
        if function not in order:
            finish(function)
    return list(reversed(order))


def is_public(function: Op) -> bool:
    """Is it the kernel, rather than a function that the kernel calls?"""
    return function.attributes.get("sym_visibility", "public") == "public"


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
