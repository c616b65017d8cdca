"""Copies of sm_100's tensor memory accelerator: gather and scatter of rows by index; see also `hopper.tma`."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import UNIT, Attribute
from tilewright.language.core import accept_semantic
from tilewright.language.gluon.nvidia.hopper.tma import (
    async_atomic_add,
    async_atomic_and,
    async_atomic_max,
    async_atomic_min,
    async_atomic_or,
    async_atomic_xor,
    async_copy_global_to_shared,
    async_copy_shared_to_global,
    async_load,
    async_load_im2col,
    async_store,
    make_tensor_descriptor,
    store_wait,
    tensor_descriptor,
    tensor_descriptor_type,
)
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.cache_policies import attributes_of_copy
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.named_ops import emit_named

__all__ = [
    "async_atomic_add",
    "async_atomic_and",
    "async_atomic_max",
    "async_atomic_min",
    "async_atomic_or",
    "async_atomic_xor",
    "async_copy_global_to_shared",
    "async_copy_shared_to_global",
    "async_gather",
    "async_load",
    "async_load_im2col",
    "async_scatter",
    "async_store",
    "make_tensor_descriptor",
    "store_wait",
    "tensor_descriptor",
    "tensor_descriptor_type",
]


def async_gather(
    tensor_desc: Any,
    x_offsets: Any,
    y_offset: Any,
    barrier: Any,
    result: Any,
    pred: Any = True,
    multicast: Any = False,
    cache_policy: Any = None,
) -> None:
    """Begin to copy parts of the rows `x_offsets`, from column `y_offset` on, to a buffer; a barrier counts the bytes.

    Args:
        tensor_desc: a descriptor of blocks of one row.
        x_offsets: a one-dimensional tile of rows.
        y_offset: the first column.
        barrier, result: the barrier and the buffer.
        pred: whether to.
        multicast: all CTAs of a cluster get it.
        cache_policy: a `CachePolicy` for the L2 cache alone.
    """
    operands = {
        "desc": tensor_desc,
        "x_offsets": x_offsets,
        "y_offset": to_tensor(unwrap(y_offset)),
        "barrier": barrier,
        "result": result,
        "pred": to_tensor(pred),
    }
    marks: dict[str, Attribute] = {"multicast": UNIT} if unwrap(multicast) else {}
    attributes = {**marks, **attributes_of_copy("async_gather", cache_policy)}
    emit_named("ttng.async_tma_gather", operands, (), attributes)


def async_scatter(tensor_desc: Any, x_offsets: Any, y_offset: Any, src: Any, cache_policy: Any = None) -> None:
    """Begin to copy a buffer to parts of the rows `x_offsets`, from column `y_offset` on.

    Args:
        tensor_desc: a descriptor of blocks of one row.
        x_offsets: a one-dimensional tile of rows.
        y_offset: the first column.
        src: the buffer, which must stay as it is until `store_wait`.
        cache_policy: a `CachePolicy` for the L2 cache alone.
    """
    offset = to_tensor(unwrap(y_offset))
    operands = {"desc": tensor_desc, "x_offsets": x_offsets, "y_offset": offset, "src": src}
    emit_named("ttng.async_tma_scatter", operands, (), attributes_of_copy("async_scatter", cache_policy))


accept_semantic(globals())
