"""Attributes as MLIR's generic form has them: enumerations as numbers, flags as attributes of `arith`.

"tt.load"(%p) <{cache = 2 : i32, evict = 1 : i32}> : …       cache = ca, evict = evict_normal
"arith.addi"(%a, %b) <{overflowFlags = #arith.overflow<nsw, nuw>}> : …
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tilewright.dialects.arith import CMPF, CMPI, FLOAT_BINARY, INTEGER_BINARY
from tilewright.dialects.tt_atomics import RMW_OPS, SCOPES, SEMANTICS
from tilewright.dialects.tt_descriptors import REDUCTIONS
from tilewright.dialects.tt_dot import INPUT_PRECISIONS, SCALED_TYPES
from tilewright.dialects.tt_elementwise import ROUNDINGS
from tilewright.dialects.tt_memory import CACHE_MODIFIERS, EVICTION_POLICIES
from tilewright.dialects.tt_program import AXES
from tilewright.dialects.ttg_program import BARRIER_SCOPES
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number, Opaque
from tilewright.ir.declare import GENERIC_FORM
from tilewright.ir.operands import SEGMENTS

Words: TypeAlias = dict[int, str]
_FLAGS = re.compile(r"#arith\.\w+<(.*)>")


def _from(first: int, words: tuple[str, ...]) -> Words:
    return dict(enumerate(words, first))


_CACHE = {"cache": _from(1, CACHE_MODIFIERS), "evict": _from(1, EVICTION_POLICIES)}
_ORDER = {"sem": _from(1, SEMANTICS), "scope": _from(1, SCOPES)}
_RMW = {"atomic_rmw_op": _from(1, RMW_OPS)}
_SCALED = _from(0, SCALED_TYPES)
_PRECISIONS = _from(0, INPUT_PRECISIONS)

KEYWORDS: dict[str, dict[str, Words]] = {
    "arith.cmpf": {"predicate": _from(0, CMPF)},
    "arith.cmpi": {"predicate": _from(0, CMPI)},
    "tt.atomic_cas": _ORDER,
    "tt.atomic_rmw": {**_RMW, **_ORDER},
    "tt.clampf": {"propagateNan": {0: "none", 0xFFFF: "all"}},
    "tt.descriptor_load": _CACHE,
    "tt.descriptor_reduce": {"kind": _from(1, REDUCTIONS)},
    "tt.dot": {"inputPrecision": _PRECISIONS},
    "tt.dot_scaled": {"a_elem_type": _SCALED, "b_elem_type": _SCALED},
    "tt.fp_to_fp": {"rounding": _from(0, ROUNDINGS)},
    "tt.get_num_programs": {"axis": _from(0, AXES)},
    "tt.get_program_id": {"axis": _from(0, AXES)},
    "tt.load": {**_CACHE, "padding": _from(1, ("pad_zero", "pad_nan"))},
    "tt.store": _CACHE,
    "ttg.async_copy_global_to_local": _CACHE,
    "ttg.local_atomic_scatter_rmw": _RMW,
    "ttng.async_tma_copy_global_to_local": _CACHE,
    "ttng.async_tma_reduce": {"kind": _from(1, REDUCTIONS)},
    "ttng.clc_get_program_id": {"dim": _from(0, AXES)},
    "ttng.packed_arith": {"op_kind": _from(0, ("add", "sub", "mul", "fma", "min", "max"))},
    "ttng.tc_gen5_mma_scaled": {"a_type": _SCALED, "b_type": _SCALED},
    "ttng.tmem_wait": {"kind": _from(0, ("load", "store"))},
}


def _with_keywords(words: dict[str, Words], attributes: dict[str, Attribute]) -> None:
    """Numbers of enumerations become their keywords; raises ValueError for a number that is none."""
    for name, known in words.items():
        number = attributes.get(name)
        if isinstance(number, Number):
            word = known.get(int(number.value))
            if word is None:
                raise ValueError(f"{name} cannot be {number.value}")
            attributes[name] = Keyword(word)


def _with_flags(name: str, attributes: dict[str, Attribute]) -> None:
    """`#arith.fastmath<fast>` becomes a tuple of keywords; no flags are no attribute."""
    flags = attributes.get(name)
    found = _FLAGS.fullmatch(flags.text) if isinstance(flags, Opaque) else None
    if found is None:
        return
    del attributes[name]
    words = [word.strip() for word in found[1].split(",")]
    if words != ["none"]:
        attributes[name] = tuple(map(Keyword, words))


def _scaled(attributes: dict[str, Attribute]) -> None:
    """Set which scales are there."""
    _with_keywords(KEYWORDS["tt.dot_scaled"], attributes)
    sizes = attributes.pop(SEGMENTS, None)
    if isinstance(sizes, DenseArray) and len(sizes.values) == 5:
        attributes["has_scales"] = tuple(bool(size) for size in sizes.values[3:])


def _barrier(attributes: dict[str, Attribute]) -> None:
    """A set of bits."""
    bits = attributes.get("addrSpace")
    if isinstance(bits, Number):
        none, *words, everything = BARRIER_SCOPES
        set_bits = [word for bit, word in enumerate(words) if int(bits.value) >> bit & 1]
        shown = [everything] if len(set_bits) == len(words) else set_bits or [none]
        attributes["addrSpace"] = tuple(map(Keyword, shown))


GENERIC_FORM.update({name: partial(_with_keywords, words) for name, words in KEYWORDS.items()})
GENERIC_FORM.update({f"arith.{name}": partial(_with_flags, "overflowFlags") for name in INTEGER_BINARY})
GENERIC_FORM.update({f"arith.{name}": partial(_with_flags, "fastmath") for name in (*FLOAT_BINARY, "negf")})
_SPECIAL: dict[str, Callable[[dict[str, Attribute]], None]] = {"tt.dot_scaled": _scaled, "ttg.barrier": _barrier}
GENERIC_FORM.update(_SPECIAL)
