"""`triton._utils`."""

from tilewright.compat.paths import (
    apply_with_path,
    find_paths_if,
    get_iterable_path,
    is_iterable,
    is_namedtuple,
    set_iterable_path,
)
from tilewright.compat.types import (
    BITWIDTH_DICT,
    canonicalize_dtype,
    canonicalize_ptr_dtype,
    get_primitive_bitwidth,
    is_power_of_two,
    type_canonicalisation_dict,
    validate_block_shape,
)
from tilewright.semantics.types import MAX_TILE_ELEMENTS as TRITON_MAX_TENSOR_NUMEL

__all__ = [
    "BITWIDTH_DICT",
    "TRITON_MAX_TENSOR_NUMEL",
    "apply_with_path",
    "canonicalize_dtype",
    "canonicalize_ptr_dtype",
    "find_paths_if",
    "get_iterable_path",
    "get_primitive_bitwidth",
    "is_iterable",
    "is_namedtuple",
    "is_power_of_two",
    "set_iterable_path",
    "type_canonicalisation_dict",
    "validate_block_shape",
]
