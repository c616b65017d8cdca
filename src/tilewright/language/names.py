"""All names of `tilewright.language`; imported when the first of them is accessed.

import tilewright.language as tl        imports nothing of this
tl.load                                 does: when a kernel is compiled, not when it comes from the disk cache

`__init__.pyi` declares the same names for type checkers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def members(names: Mapping[str, str]) -> dict[str, Any]:
    """The objects of names in modules; `new=old` is called `old` in its module."""
    found: dict[str, Any] = {}
    for path, words in names.items():
        module = import_module(f"tilewright.{path}")
        for word in words.split():
            name, _, original = word.partition("=")
            found[name] = getattr(module, original or name)
    return found


CORE = members(
    {
        "language.assembly": "inline_asm_elementwise",
        "language.debug": (
            "assume debug_barrier device_assert device_print expect_zero max_constancy max_contiguous multiple_of "
            "static_assert static_print"
        ),
        "language.descriptors": (
            "load_tensor_descriptor make_tensor_descriptor store_tensor_descriptor tensor_descriptor"
        ),
        "language.loops": "async_task condition range static_range",
        "language.math": "abs",
        "language.memory": (
            "advance atomic_add atomic_and atomic_cas atomic_load atomic_max atomic_min atomic_or atomic_poll "
            "atomic_store atomic_xchg atomic_xor load make_block_ptr store"
        ),
        "language.operations": (
            "PropagateNan add associative_scan cast clamp dot histogram map_elementwise maximum minimum mul reduce "
            "sub to_tensor where"
        ),
        "language.scaled": "dot_scaled",
        "language.shaping": (
            "arange broadcast broadcast_to cat expand_dims full gather join num_programs permute program_id reshape "
            "split trans view"
        ),
        "language.signatures": "pi32_t slice str_to_ty",
        "language.tensors": "tensor",
        "language.tuples": "tuple tuple_type",
        "semantics.constexpr": "const constexpr constexpr_type",
        "semantics.types": (
            "TRITON_MAX_TENSOR_NUMEL=MAX_TILE_ELEMENTS bfloat16 block_type dtype float8e4b8 float8e4b15 float8e4nv "
            "float8e5 float8e5b16 float16 float32 float64 int1 int8 int16 int32 int64 pointer_type uint8 uint16 uint32 "
            "uint64 void"
        ),
    }
)
"""The names of `tl.core` and their objects."""
ALL = CORE | members(
    {
        "language": "core extra math random standard target_info",
        "language.control": "cond fori_loop scan while_loop",
        "language.math": "ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi",
        "language.random": (
            "pair_uniform_to_normal philox philox_impl rand rand4x randint randint4x randn randn4x "
            "uint_to_uniform_float"
        ),
        "language.sorting": "bitonic_merge flip sort topk",
        "language.standard": (
            "argmax argmin cdiv cumprod cumsum interleave max min ravel reduce_or sigmoid softmax squeeze sum "
            "swizzle2d unsqueeze xor_sum zeros zeros_like"
        ),
    }
)
"""The names of `tl` and their objects."""
