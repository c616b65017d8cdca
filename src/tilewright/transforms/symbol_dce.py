"""Symbol DCE: private functions that no public function reaches are erased.

tt.func public @kernel() {…}              ->    tt.func public @kernel() {…}
tt.func private @cdiv__i32_i32() {…}
"""

from __future__ import annotations

from tilewright.dialects.tt_function import Func
from tilewright.ir.attributes import Symbol
from tilewright.ir.core import Op


def symbol_dce(module: Op) -> bool:
    """Erase the functions of `module` that are private and not called, directly or indirectly, by a public one.

    Returns:
        whether there were any.
    """
    functions = {op.symbol: op for op in module.regions[0].block if isinstance(op, Func)}
    pending = [name for name, op in functions.items() if op.visibility != "private"]
    if len(pending) == len(functions):
        return False
    reached = set(pending)
    while pending:
        for name in _called_by(functions[pending.pop()]):
            if name in functions and name not in reached:
                reached.add(name)
                pending.append(name)
    for name, op in functions.items():
        if name not in reached:
            op.erase()
    return len(reached) < len(functions)


def _called_by(function: Op) -> list[str]:
    """Names of the functions that `function` mentions."""
    found = []
    for op in function.walk():
        for attribute in op.attributes.values():
            if isinstance(attribute, Symbol):
                found.append(attribute.name)
    return found
