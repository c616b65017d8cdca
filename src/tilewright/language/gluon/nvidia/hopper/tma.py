"""Blocks of tensors moved by the tensor memory accelerator, between global and shared memory.

tma.async_load(desc, [i, j], bar, smem)      # `bar` counts the bytes: expect them, then wait
fence_async_shared()                         # makes the program's writes to `smem` visible to the engine
tma.async_store(desc, [i, j], smem)
tma.store_wait(0)                            # until the engine has read `smem`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.attributes import UNIT, Attribute, Keyword, Number
from tilewright.ir.types import i32
from tilewright.language.core import accept_semantic
from tilewright.semantics.active import active
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.buffers import require
from tilewright.semantics.cache_policies import attributes_of_copy
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.distributed import checked
from tilewright.semantics.layout_values import plain
from tilewright.semantics.named_ops import emit_named
from tilewright.semantics.shapes import constant_shape
from tilewright.semantics.shared_layouts import NVMMASharedLayout
from tilewright.semantics.tma_descriptors import GluonTensor, as_scalar, made_descriptor, tma_type
from tilewright.semantics.types import block_type, int16, int32

__all__ = [
    "async_atomic_add",
    "async_atomic_and",
    "async_atomic_max",
    "async_atomic_min",
    "async_atomic_or",
    "async_atomic_xor",
    "async_copy_global_to_shared",
    "async_copy_global_to_shared_im2col",
    "async_copy_shared_to_global",
    "async_load",
    "async_load_im2col",
    "async_store",
    "make_tensor_descriptor",
    "store_wait",
    "tensor_descriptor",
    "tensor_descriptor_im2col",
    "tensor_descriptor_im2col_type",
    "tensor_descriptor_type",
]
tensor_descriptor, tensor_descriptor_type = GluonTensor, tma_type
tensor_descriptor_im2col, tensor_descriptor_im2col_type = GluonTensor, tma_type


def coordinates(coord: Any) -> list[Any]:
    """Offsets as int32 scalars."""
    return [as_scalar(offset, int32) for offset in unwrap_all(coord)]


def async_load(
    tensor_desc: Any,
    coord: Any,
    barrier: Any,
    result: Any,
    pred: Any = True,
    multicast: Any = False,
    cache_policy: Any = None,
) -> None:
    """Begin to copy the block at `coord` to a buffer; a barrier counts its bytes.

    Args:
        tensor_desc: the descriptor.
        coord: one offset per axis; elements outside the tensor are padding.
        barrier, result: the barrier and the buffer.
        pred: whether to.
        multicast: CTAs of the cluster that have the same part of the buffer get it by one copy.
        cache_policy: a `CachePolicy` for the L2 cache alone.
    """
    require(not tensor_desc.type.of_images, "a descriptor of images is for async_load_im2col")
    operands = {
        "desc": tensor_desc,
        "coord": coordinates(coord),
        "barrier": barrier,
        "result": result,
        "pred": to_tensor(pred),
    }
    _begin_load("async_load", operands, multicast, cache_policy)


def async_load_im2col(
    tensor_desc: Any,
    coord: Any,
    offsets: Any,
    barrier: Any,
    result: Any,
    pred: Any = True,
    multicast: Any = False,
    cache_policy: Any = None,
) -> None:
    """Begin to copy pixels of images, with some channels of each, to a buffer; a barrier counts the bytes.

    The copy goes through the pixels of the descriptor's box from the one at `coord` on, row after row and image after
    image, and takes the elements at a distance of `offsets` from each; elements outside an image are padding.

    Args:
        tensor_desc: a descriptor of images.
        coord: one number per axis: image, pixel, and channel.
        offsets: one number from 0 on per axis of an image.
        barrier, result: the barrier and the buffer.
        pred: whether to.
        multicast: CTAs of the cluster that have the same part of the buffer get it by one copy.
        cache_policy: a `CachePolicy` for the L2 cache alone.
    """
    require(tensor_desc.type.of_images, "async_load_im2col wants a descriptor of images")
    operands = {
        "desc": tensor_desc,
        "coord": coordinates(coord),
        "offsets": [as_scalar(offset, int16) for offset in unwrap_all(offsets)],
        "barrier": barrier,
        "result": result,
        "pred": to_tensor(pred),
    }
    _begin_load("async_load_im2col", operands, multicast, cache_policy)


def _begin_load(function: str, operands: dict[str, Any], multicast: Any, cache_policy: Any) -> None:
    marks: dict[str, Attribute] = {"multicast": UNIT} if unwrap(multicast) else {}
    attributes = {"isVolatile": False, **marks, **attributes_of_copy(function, cache_policy)}
    emit_named("ttng.async_tma_copy_global_to_local", operands, (), attributes)


def async_store(tensor_desc: Any, coord: Any, src: Any, cache_policy: Any = None) -> None:
    """Begin to copy a buffer to the block at `coord`; elements outside the tensor are dropped.

    Args:
        tensor_desc: the descriptor.
        coord: one offset per axis.
        src: the buffer, which must stay as it is until `store_wait`.
        cache_policy: a `CachePolicy` for the L2 cache alone.
    """
    operands = {"desc": tensor_desc, "coord": coordinates(coord), "src": src}
    hints = attributes_of_copy("async_store", cache_policy)
    emit_named("ttng.async_tma_copy_local_to_global", operands, (), hints)


async_copy_global_to_shared, async_copy_shared_to_global = async_load, async_store
async_copy_global_to_shared_im2col = async_load_im2col


def _combining(kind: str) -> Callable[..., None]:
    def function(tensor_desc: Any, coord: Any, src: Any) -> None:
        operands = {"desc": tensor_desc, "coord": coordinates(coord), "src": src}
        emit_named("ttng.async_tma_reduce", operands, (), {"kind": Keyword(kind)})

    function.__name__ = function.__qualname__ = f"async_atomic_{kind}"
    function.__doc__ = f"Begin to combine the block at `coord` with a buffer, by `{kind}`; see `async_store`."
    return function


async_atomic_add, async_atomic_min, async_atomic_max = _combining("add"), _combining("min"), _combining("max")
async_atomic_and, async_atomic_or, async_atomic_xor = _combining("and"), _combining("or"), _combining("xor")


def store_wait(pendings: Any, read_only: Any = True) -> None:
    """Wait until at most `pendings` copies from buffers are in flight.

    Args:
        pendings: how many.
        read_only: wait only until their buffers were read; else until the written elements are visible.
    """
    own: dict[str, Attribute] = {"read_only": UNIT} if unwrap(read_only) else {}
    attributes = {"pendings": Number(unwrap(pendings), i32), **own}
    active().emit("ttng.async_tma_store_wait", (), (), attributes)


def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, layout: Any, padding_option: Any = "zero"
) -> GluonTensor:
    """A descriptor of the tensor at `base`.

    Args:
        base: pointer to the first element.
        shape, strides: one number per axis, strides in elements.
        block_shape: what one copy moves; constants.
        layout: that of blocks in shared memory, an `NVMMASharedLayout`.
        padding_option: what loads give outside the tensor: `zero` or `nan`.
    """
    memory = unwrap(layout)
    require(isinstance(memory, NVMMASharedLayout), f"Expected layout to be a NVMMASharedLayout, not {memory}")
    block = block_type(base.type.scalar.element_ty, constant_shape(plain(block_shape), "block_shape"))
    kind = checked(lambda: tma_type(block, memory))
    made = made_descriptor(base, unwrap_all(shape), unwrap_all(strides), kind, unwrap(padding_option))
    return GluonTensor(*made)


accept_semantic(globals())
