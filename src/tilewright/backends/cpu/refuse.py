"""What the language has and the CPU back end does not: refused by name, at its place, before anything is lowered.

tt.call @factorial(%m)        error: calling a function that calls itself is not supported
"""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.spans import span_of
from tilewright.support.diagnostics import NotSupported, located

REFUSED = {
    "tt.call": "calling a function that calls itself",
}


def refuse_unsupported(module: Op) -> None:
    """Look for ops without CPU lowering.

    Raises:
        Unsupported: there is one.
    """
    for op in module.walk():
        feature = REFUSED.get(op.name)
        if feature is not None:
            reason = "the CPU back end does not have it yet; kernels that run in Python do (TRITON_INTERPRET=1)"
            raise located(NotSupported(feature, reason), span_of(op.location))
