"""Copies by tensor descriptor (TMA), and descriptors in memory: `ttng.async_tma_copy_global_to_local`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.tt_descriptors import descriptor_type
from tilewright.dialects.tt_memory import CACHE_OPTIONS
from tilewright.dialects.ttg_async import CACHE_DEFAULTS
from tilewright.dialects.ttng_rules import verify_barriers, verify_copy, verify_rows_copy
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declares
from tilewright.ir.fields import Integer, Marker, NamedOperand, NamedOperands, Operand, Word
from tilewright.ir.types import IntType, TensorType, i1, i32

_i16 = IntType(16)


class DescriptorCopy(Op):
    """A copy between a buffer and the global memory of `descriptor`."""

    __slots__ = ()
    descriptor = Operand(0)


class DescriptorCopyOut(DescriptorCopy):
    """A copy from a buffer."""

    __slots__ = ()
    buffer = Operand(-1)


@declares(
    "ttng.async_tma_copy_global_to_local",
    buffers=Effect.WRITE,
    verify=verify_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%coord*]?( offsets = [%offsets*]) %result, %barrier, %pred$cache{} : !desc, !barrier -> !result",
        "desc coord* offsets* barrier result pred",
        types={"coord": i32, "offsets": _i16, "pred": i1},
        defaults=CACHE_DEFAULTS,
        custom={"cache": CACHE_OPTIONS},
    ),
)
class AsyncTmaCopyGlobalToLocal(DescriptorCopy):
    """Copies the block at `indices`; `barrier` counts its bytes."""

    __slots__ = ()
    indices, offsets = NamedOperands("coord"), NamedOperands("offsets")
    barrier, predicate = NamedOperand("barrier"), NamedOperand("pred")
    multicast = Marker("multicast")
    buffer = Operand(-2)


@declares(
    "ttng.async_tma_copy_local_to_global",
    buffers=Effect.READ,
    verify=verify_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%coord*] %src$cache{} : !desc, !src",
        "desc coord* src",
        types={"coord": i32},
        custom={"cache": CACHE_OPTIONS},
    ),
)
class AsyncTmaCopyLocalToGlobal(DescriptorCopyOut):
    """Copies to the block at `indices`."""

    __slots__ = ()
    indices = NamedOperands("coord")


@declares(
    "ttng.async_tma_reduce",
    buffers=Effect.READ,
    verify=verify_copy,
    effect=Effect.READ_WRITE,
    **assembly(" @kind, %desc[%coord*] %src{} : !desc, !src", "desc coord* src", types={"coord": i32}),
)
class AsyncTmaReduce(DescriptorCopyOut):
    """Combines the block at `indices` with the buffer, by `operation`."""

    __slots__ = ()
    indices = NamedOperands("coord")
    operation = Word("kind")


@declares(
    "ttng.async_tma_gather",
    buffers=Effect.WRITE,
    verify=verify_rows_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%x_offsets, %y_offset] %result, %barrier, %pred$cache{}"
        " : !desc, !x_offsets, !y_offset, !barrier, !result, !pred",
        "desc x_offsets y_offset barrier result pred",
        custom={"cache": CACHE_OPTIONS},
    ),
)
class AsyncTmaGather(DescriptorCopy):
    """Copies parts of `rows`, from `column` on; `barrier` counts their bytes."""

    __slots__ = ()
    rows, column = Operand(1), Operand(2)
    barrier, buffer, predicate = Operand(3), Operand(4), Operand(5)
    multicast = Marker("multicast")


@declares(
    "ttng.async_tma_scatter",
    buffers=Effect.READ,
    verify=verify_rows_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%x_offsets, %y_offset] %src$cache{} : !desc, !x_offsets, !y_offset, !src",
        "desc x_offsets y_offset src",
        custom={"cache": CACHE_OPTIONS},
    ),
)
class AsyncTmaScatter(DescriptorCopyOut):
    """Copies to parts of `rows`, from `column` on."""

    __slots__ = ()
    rows, column = Operand(1), Operand(2)


@declares("ttng.async_tma_store_wait", effect=Effect.READ_WRITE, **assembly("{}"))
class AsyncTmaStoreWait(Op):
    """Waits until at most `pendings` copies from buffers are under way, or still read with `read_only`."""

    __slots__ = ()
    pendings = Integer("pendings")
    read_only = Marker("read_only")


@declares(
    "ttng.async_shared_store",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    effect=Effect.READ_WRITE,
    **assembly(" %src, %dst, %mbarrier{} : !src -> !dst, !mbarrier", "src dst mbarrier"),
)
class AsyncSharedStore(Op):
    """Puts `value` into a buffer of another block; `barrier` counts its bytes."""

    __slots__ = ()
    value, buffer, barrier = Operand(0), Operand(1), Operand(2)


# Descriptors in memory


@declares("ttng.reinterpret_tensor_descriptor", **assembly(" %rawDesc{} : !rawDesc to !result", "rawDesc", "result"))
class ReinterpretTensorDescriptor(Op):
    """The descriptor that is written at `address`."""

    __slots__ = ()
    address = Operand(0)

    @property
    def tile(self) -> TensorType:
        """The block that an access moves."""
        return descriptor_type(self, self.results[0]).block


@declares(
    "ttng.tensormap_create",
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc_ptr, %global_address, [%box_dim*], [%global_dim*], [%global_stride*], [%element_stride*]{} : =>",
        "desc_ptr global_address box_dim* global_dim* global_stride* element_stride*",
    ),
)
class TensormapCreate(Op):
    """Writes a descriptor to `address`, in the accelerator's format; sizes start with the fastest dimension."""

    __slots__ = ()
    address, base = Operand(0), Operand(1)
    box, shape = NamedOperands("box_dim"), NamedOperands("global_dim")
    strides, element_strides = NamedOperands("global_stride"), NamedOperands("element_stride")
    element_type, fill_mode = Integer("elem_type"), Integer("fill_mode")
    interleave_layout, swizzle_mode = Integer("interleave_layout"), Integer("swizzle_mode")


@declares(
    "ttng.tensormap_fenceproxy_acquire",
    synchronizes=True,  # one warp fences, and all wait for it
    effect=Effect.WRITE,
    **assembly(" %desc_ptr{} : !desc_ptr", "desc_ptr"),
)
class TensormapFenceproxyAcquire(Op):
    """Copies see the descriptor that was written to `address`."""

    __slots__ = ()
    address = Operand(0)
