"""Element types as Triton's signatures write them.

canonicalize_dtype(torch.float32)        # fp32
canonicalize_ptr_dtype("int8", True)     # *ki8
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.runtime.parameters import ANNOTATION_TYPES
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.types import MAX_TILE_ELEMENTS

_LONG_NAMES = {
    **ANNOTATION_TYPES,
    "bool": "u1",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5",
    "float8_e5m2fnuz": "fp8e5b16",
    "i1": "u1",
    "int1": "u1",
    "uint1": "u1",
    "void": "void",
}
type_canonicalisation_dict = _LONG_NAMES | {name: name for name in _LONG_NAMES.values()}
"""Names of element types in torch, NumPy, C and the language -> those in signatures."""

_BITS = {"bf16": 16, "fp16": 16, "fp32": 32, "fp64": 64, "i1": 1, "u1": 1, "void": 0}


def canonicalize_dtype(dtype: Any) -> str:
    """The name in signatures of an element type, given as text or as a dtype of torch, NumPy or the language.

    Raises:
        KeyError: there is no such element type.
    """
    return type_canonicalisation_dict[str(dtype).rpartition(".")[2]]


def canonicalize_ptr_dtype(dtype: Any, is_const: bool) -> str:
    """The name in signatures of a pointer to elements of this type."""
    return f"{'*k' if is_const else '*'}{canonicalize_dtype(dtype)}"


def get_primitive_bitwidth(dtype: str) -> int:
    """Bits of an element of a type."""
    name = canonicalize_dtype(dtype)
    if name.startswith("fp8"):
        return 8
    return _BITS[name] if name in _BITS else int(name[1:])


BITWIDTH_DICT = {name: get_primitive_bitwidth(name) for name in type_canonicalisation_dict}
"""Bits of every element type, by all its names."""


def validate_block_shape(shape: Sequence[Any]) -> int:
    """The number of elements of a block.

    Raises:
        TypeError: an extent is no whole number.
        ValueError: an extent is no power of two, or there are too many elements.
    """
    extents = [unwrap(extent) for extent in shape]
    for axis, extent in enumerate(extents):
        if not isinstance(extent, int):
            raise TypeError(f"extent {axis} of the block is {extent!r}, which is no whole number")
        if extent < 1 or not is_power_of_two(extent):
            raise ValueError(f"extent {axis} of the block is {extent}, which is no power of 2")
    elements: int = prod(extents)
    if elements > MAX_TILE_ELEMENTS:
        raise ValueError(f"the block has {elements} elements; at most {MAX_TILE_ELEMENTS} are possible")
    return elements


def is_power_of_two(number: int) -> bool:
    """Whether `number` has one bit (or none)."""
    return (number & (number - 1)) == 0
