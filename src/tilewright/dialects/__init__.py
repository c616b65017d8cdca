"""All op kinds. Importing this package declares them; nothing else does.

Each module declares the ops of one dialect, or of one topic of a larger one (`tt`, for GPUs `ttg` and `ttng`):
name, facts, rules, text.
"""

from __future__ import annotations

from tilewright.dialects import (
    arith,
    builtin,
    cf,
    cpu,
    foreign,
    generic_form,
    math,
    scf,
    tt_atomics,
    tt_descriptors,
    tt_dot,
    tt_elementwise,
    tt_function,
    tt_grid,
    tt_memory,
    tt_program,
    tt_reduce,
    tt_shape,
    ttg_async,
    ttg_attributes,
    ttg_memory,
    ttg_program,
    ttg_warp_specialize,
    ttng_barriers,
    ttng_descriptors,
    ttng_mma,
    ttng_tensor_memory,
)

__all__ = [
    "arith",
    "builtin",
    "cf",
    "cpu",
    "foreign",
    "generic_form",
    "math",
    "scf",
    "tt_atomics",
    "tt_descriptors",
    "tt_dot",
    "tt_elementwise",
    "tt_function",
    "tt_grid",
    "tt_memory",
    "tt_program",
    "tt_reduce",
    "tt_shape",
    "ttg_async",
    "ttg_attributes",
    "ttg_memory",
    "ttg_program",
    "ttg_warp_specialize",
    "ttng_barriers",
    "ttng_descriptors",
    "ttng_mma",
    "ttng_tensor_memory",
]
