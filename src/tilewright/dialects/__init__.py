"""All op kinds. Importing this package declares them; no other import does.

Each module declares the ops of one dialect, or of one topic of a larger one (`tt`, for GPUs `ttg` and `ttng`):
name, facts, rules, text.
"""

from __future__ import annotations

from tilewright.dialects import (
    amx,
    arith,
    builtin,
    cf,
    cpu,
    generic_form,
    gluon,
    math,
    nvws,
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
    ttg_async,
    ttg_attributes,
    ttg_memory,
    ttg_program,
    ttg_warp_specialize,
    ttng_barriers,
    ttng_descriptors,
    ttng_mma,
    ttng_tensor_memory,
    vector,
)
from tilewright.dialects.arithmetic_semantics import ARITHMETIC_SEMANTICS
from tilewright.dialects.tile_semantics import TILE_SEMANTICS
from tilewright.ir.declare import add_semantics

__all__ = [
    "amx",
    "arith",
    "builtin",
    "cf",
    "cpu",
    "generic_form",
    "gluon",
    "math",
    "nvws",
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
    "ttg_async",
    "ttg_attributes",
    "ttg_memory",
    "ttg_program",
    "ttg_warp_specialize",
    "ttng_barriers",
    "ttng_descriptors",
    "ttng_mma",
    "ttng_tensor_memory",
    "vector",
]

add_semantics(ARITHMETIC_SEMANTICS)
add_semantics(TILE_SEMANTICS)
