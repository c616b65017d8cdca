"""The modifiers of scalar instructions that the simulator knows: one that it does not is refused, not ignored.

unknown_part(("add", "rn", "ftz", "f32"))       # None
unknown_part(("fma", "rn", "oob", "f16x2"))     # "oob"
"""

from __future__ import annotations

from tilewright.backends.ptxsim.bits import PERMUTE_MODES
from tilewright.backends.ptxsim.comparisons import CONNECTIVES, ORDERED
from tilewright.backends.ptxsim.conversions import INTEGRAL, MODES
from tilewright.backends.ptxsim.uninitialized import FLOWS
from tilewright.backends.ptxsim.value_types import TYPES

KNOWN = frozenset(
    (
        *TYPES,
        *MODES,
        *INTEGRAL,
        *PERMUTE_MODES,
        *ORDERED,
        *(f"{name}u" for name in ORDERED),
        *CONNECTIVES,
        *("num", "nan", "finite", "infinite", "number", "notanumber", "normal", "subnormal"),
        *("ftz", "sat", "satfinite", "relu", "NaN", "xorsign", "abs", "approx", "full", "pack"),
        *("lo", "hi", "wide", "cc", "wrap", "clamp", "l", "r", "shiftamt"),
        *("to", "global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "const"),
    )
)


def unknown_part(parts: tuple[str, ...]) -> str | None:
    """The first part of a scalar instruction's opcode that is not known; None for others, and where all are."""
    if parts[0] not in FLOWS:
        return None
    return next((part for part in parts[1:] if part not in KNOWN), None)
