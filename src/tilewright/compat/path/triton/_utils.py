"""`triton._utils`."""

from tilewright.compat.types import canonicalize_dtype, canonicalize_ptr_dtype, get_primitive_bitwidth, is_power_of_two
from tilewright.compat.types import type_canonicalisation_dict
from tilewright.semantics.types import MAX_TILE_ELEMENTS as TRITON_MAX_TENSOR_NUMEL

__all__ = [
    "TRITON_MAX_TENSOR_NUMEL",
    "canonicalize_dtype",
    "canonicalize_ptr_dtype",
    "get_primitive_bitwidth",
    "is_power_of_two",
    "type_canonicalisation_dict",
]
