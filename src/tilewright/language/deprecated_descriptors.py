"""Descriptors as kernels of Triton 3.0 to 3.3 used them: the kernel says what block it moves, and of which type.

tl._experimental_descriptor_load(desc, [i, j], [16, 32], tl.float16)        desc.load([i, j])
tl._experimental_descriptor_store(desc, value, [i, j])                      desc.store([i, j], value)

Descriptors made for them on the host know only how wide elements are; `compat/deprecated_descriptors.py` makes those.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import shaping
from tilewright.language.descriptors import tensor_descriptor
from tilewright.semantics.casting import bitcast
from tilewright.semantics.constexpr import unwrap


def experimental_descriptor_load(desc: tensor_descriptor, offsets: Any, block_shape: Any, dtype: Any) -> Any:
    """The block at `offsets`, whose elements are taken for `dtype`.

    Args:
        desc: what is read.
        offsets: the offsets of the block, one per axis.
        block_shape: the shape of the result.
        dtype: as wide as the descriptor's elements.
    """
    return bitcast(shaping.reshape(desc.load(offsets), block_shape), unwrap(dtype))


def experimental_descriptor_store(desc: tensor_descriptor, value: Any, offsets: Any) -> None:
    """Write the bits of `value` to the block at `offsets`."""
    desc.store(offsets, bitcast(value, desc.dtype))
