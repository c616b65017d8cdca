"""All op kinds. Importing this package declares them; nothing else does.

Each module declares the ops of one dialect, or of one topic of the tile dialect `tt`: name, facts, rules, text.
"""

from __future__ import annotations

from tilewright.dialects import (
    arith,
    builtin,
    cf,
    cpu,
    math,
    scf,
    tt_atomics,
    tt_descriptors,
    tt_dot,
    tt_elementwise,
    tt_function,
    tt_memory,
    tt_program,
    tt_reduce,
    tt_shape,
)

__all__ = [
    "arith",
    "builtin",
    "cf",
    "cpu",
    "math",
    "scf",
    "tt_atomics",
    "tt_descriptors",
    "tt_dot",
    "tt_elementwise",
    "tt_function",
    "tt_memory",
    "tt_program",
    "tt_reduce",
    "tt_shape",
]
