"""What the language has and the CPU back end does not: refused by name, at its place, before anything is lowered.

tt.call @factorial(%m)        error: calling a function that calls itself is not supported
"""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.spans import span_of
from tilewright.support.diagnostics import NotSupported, located
from tilewright.transforms.functions import callees_of, functions_of


def refuse_unsupported(module: Op) -> None:
    """Look for functions that call themselves, perhaps through others: their scratch memory has a fixed place.

    Raises:
        Unsupported: there is one.
    """
    for function in functions_of(module):
        if function in _reached_from(function, module):
            call = next(op for op in function.walk() if op.name == "tt.call")
            reason = "the CPU back end gives every function scratch memory at one place"
            raise located(NotSupported("calling a function that calls itself", reason), span_of(call.location))


def _reached_from(function: Op, module: Op) -> set[Op]:
    found: set[Op] = set()
    pending = [function]
    while pending:
        for callee in callees_of(pending.pop(), module):
            if callee not in found:
                found.add(callee)
                pending.append(callee)
    return found
