"""The functions of a module."""

from __future__ import annotations

from tilewright.dialects.builtin import Module
from tilewright.dialects.tt_function import Call, Func
from tilewright.ir.core import Op
from tilewright.ir.rewriter import Folds, Rules, apply_rules


def functions_of(module: Op) -> list[Func]:
    """The functions with a body, in order; also those of modules inside."""
    found: list[Func] = []
    for op in module.regions[0].block.ops():
        if isinstance(op, Module):
            found += functions_of(op)
        elif isinstance(op, Func) and op.region.blocks:
            found.append(op)
    return found


def is_public(function: Op) -> bool:
    """Whether it is the kernel, rather than a function that the kernel calls."""
    return isinstance(function, Func) and function.is_public


def function_around(op: Op) -> Func:
    """The function that `op` stands in."""
    around: Op | None = op
    while around is not None and not isinstance(around, Func):
        around = around.parent
    assert around is not None, f"{op.name} is in no function"
    return around


def callees_of(function: Op, module: Op) -> list[Func]:
    """The other functions of `module` that `function` calls, each once."""
    functions = {each.symbol: each for each in functions_of(module) if each is not function}
    if not functions:
        return []
    names = dict.fromkeys(op.callee for op in function.ops_of(Call))
    return [functions[name] for name in names if name in functions]


def callers_first(module: Op) -> list[Func]:
    """The functions of `module`, each behind all that call it; there must be no recursion."""
    order: dict[Func, None] = {}

    def finish(function: Func) -> None:
        for callee in callees_of(function, module):
            if callee not in order:
                finish(callee)
        order[function] = None

    for function in functions_of(module):
        if function not in order:
            finish(function)
    return list(reversed(order))


def rewrite_functions(module: Op, rules: Rules, *, folds: Folds | None = None, folded: bool = False) -> bool:
    """`apply_rules` to every function of `module`; returns whether anything changed."""
    changed = False
    for function in functions_of(module):
        changed |= apply_rules(function, rules, folds=folds, folded=folded)
    return changed
