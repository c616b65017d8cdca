"""Tensor maps that a program makes itself: 128 bytes in the copy engine's format, written in shared memory first.

    ttng.tensormap_create %m, %base, [64, 64], [%n, %m], [%bytes], [1, 1] {elem_type = 6, …}

    @%warp0 st.shared.b32 …, 0                                      all 128 bytes
    @%first tensormap.replace.tile.global_address.shared::cta.b1024.b64 [ %s ], %base;     each field
    @%warp0 tensormap.cp_fenceproxy…  [ %m ], [ %s ], 0x80;         to global memory, for all to see

A descriptor is the address of its map: of a kernel's parameter, or of global memory. Strides are in bytes, whatever the
version of the PTX; assemblers before CUDA 12.6 took them in units of 16, and are not for such programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.scratch_memory import TENSORMAP, WARP
from tilewright.backends.nvidia.lower.lowerer import GLOBAL_POINTER, SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.mbarriers import first_thread
from tilewright.backends.nvidia.lower.shared_tiles import offset
from tilewright.dialects.ttng_descriptors import (
    ReinterpretTensorDescriptor,
    TensormapCreate,
    TensormapFenceproxyAcquire,
)

TO_MEMORY = (
    "@$0 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [ $1 ], [ $2 ], "
    f"{TENSORMAP};"
)
ACQUIRE = f"""@$0 fence.proxy.tensormap::generic.acquire.gpu [ $1 ], {TENSORMAP};
	@$0 cp.async.bulk.commit_group;
	@$0 cp.async.bulk.wait_group.read 0;"""
"""The fence, and an empty group: assemblers have been seen to drop what orders the fence without one."""


def _first_warp(lowerer: Lowerer) -> str:
    return lowerer.once(("warps", 1), lambda: lowerer.w.emit(f"icmp ult i32 {lowerer.thread()}, {WARP}"))


def _create(lowerer: Lowerer, op: TensormapCreate) -> None:
    w, map = lowerer.w, lowerer.scratch(op)
    own = offset(lowerer, map, w.emit(f"shl i32 {lowerer.thread()}, 2"))
    lowerer.assembly(
        "void", "@$0 st.shared.b32 [ $1 ], 0;", "b,r", [("i1", _first_warp(lowerer)), (SHARED_POINTER, own)]
    )
    w.call_void("llvm.nvvm.bar.warp.sync", [("i32", "-1")])
    first = first_thread(lowerer)
    for field, place, (type, value) in _fields(lowerer, op):
        kind = f"tensormap.replace.tile.{field}.shared::cta.b1024.{'b32' if type == 'i32' else 'b64'}"
        operands = [("i1", first), (SHARED_POINTER, map)]
        if value.startswith("%"):
            letter = "r" if type == "i32" else "l"
            lowerer.assembly("void", f"@$0 {kind} [ $1 ], {place}$2;", f"b,r,{letter}", [*operands, (type, value)])
        else:
            lowerer.assembly("void", f"@$0 {kind} [ $1 ], {place}{value};", "b,r", operands)
    operands = [("i1", _first_warp(lowerer)), (GLOBAL_POINTER, lowerer.scalar(op.address)), (SHARED_POINTER, map)]
    lowerer.assembly("void", TO_MEMORY, "b,l,r", operands)


def _fields(lowerer: Lowerer, op: TensormapCreate) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """The fields of the map: name, number of the dimension where it has one, type and value."""
    lists = {
        "box_dim": op.box,
        "global_dim": op.shape,
        "global_stride": op.strides,
        "element_stride": op.element_strides,
    }
    numbers = {
        "elemtype": op.element_type,
        "interleave_layout": op.interleave_layout,
        "swizzle_mode": op.swizzle_mode,
        "fill_mode": op.fill_mode,
    }
    yield "global_address", "", (GLOBAL_POINTER, lowerer.scalar(op.base))
    yield "rank", "", ("i32", str(len(op.box) - 1))
    for name, values in lists.items():
        for dim, value in enumerate(values):
            yield name, f"{dim}, ", (lowerer.element(value.type), lowerer.scalar(value))
    for name, number in numbers.items():
        yield name, "", ("i32", str(number))


def _acquire(lowerer: Lowerer, op: TensormapFenceproxyAcquire) -> None:
    """One warp sees to it that the engine reads the new map, then all go on."""
    operands = [("i1", _first_warp(lowerer)), (GLOBAL_POINTER, lowerer.scalar(op.address))]
    lowerer.assembly("void", ACQUIRE, "b,l", operands)
    lowerer.barrier()


def _reinterpret(lowerer: Lowerer, op: ReinterpretTensorDescriptor) -> None:
    source = lowerer.element(op.address.type)
    lowerer.bind(op.result, [lowerer.w.emit(f"addrspacecast {source} {lowerer.scalar(op.address)} to ptr")])


LOWERINGS: dict[str, Lowering] = {
    "ttng.reinterpret_tensor_descriptor": _reinterpret,
    "ttng.tensormap_create": _create,
    "ttng.tensormap_fenceproxy_acquire": _acquire,
}
