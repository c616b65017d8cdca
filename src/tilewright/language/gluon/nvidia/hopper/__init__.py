"""From sm_90 on: copies by tensor descriptors, matrix products of warp groups, clusters."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.types import i32
from tilewright.language.core import accept_semantic
from tilewright.language.gluon.nvidia.ampere import CachePolicy, FractionalEvictionPolicy, async_copy, mma_v2
from tilewright.language.gluon.nvidia.hopper import cluster, mbarrier, tma
from tilewright.language.tuples import tuple
from tilewright.semantics.active import active, context
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.buffers import check_contents, require
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument
from tilewright.semantics.named_ops import emit_named
from tilewright.semantics.running_sums import RunningSum, running_type
from tilewright.semantics.tile import Tile
from tilewright.semantics.warp_group_products import check_warp_group_product
from tilewright.support.diagnostics import SemanticError

__all__ = [
    "CachePolicy",
    "FractionalEvictionPolicy",
    "async_copy",
    "async_store",
    "cluster",
    "fence_async_shared",
    "mbarrier",
    "mma_v2",
    "tma",
    "warpgroup_mma",
    "warpgroup_mma_accumulator",
    "warpgroup_mma_init",
    "warpgroup_mma_wait",
]
PRECISIONS = {"tf32": 0, "tf32x3": 1, "ieee": 2, "bf16x3": 3, "bf16x6": 4}
"""The numbers of input precisions."""
warpgroup_mma_accumulator = RunningSum


def fence_async_shared(cluster: Any = False) -> None:
    """Let copies and products that run on see what the program wrote to shared memory; waits for nothing."""
    active().emit("ttng.fence_async_shared", (), (), {"bCluster": bool(unwrap(cluster))})


def async_store(dst: Any, value: Any, mbarrier: Any) -> None:
    """Begin to put a tile into a buffer of another CTA; a barrier counts its bytes.

    Args:
        dst: the buffer.
        value: the tile.
        mbarrier: the barrier.
    """
    check_contents(dst, value)
    emit_named("ttng.async_shared_store", {"src": value, "dst": dst, "mbarrier": mbarrier})


def warpgroup_mma_init(value: Any) -> Any:
    """A tile as the sum of products that run on."""
    assert isinstance(value, Tile), "the value must be a tensor"
    return RunningSum(value.handle, running_type(value.type))


def warpgroup_mma(
    a: Any,
    b: Any,
    acc: Any,
    *,
    use_acc: Any = True,
    precision: Any = None,
    max_num_imprecise_acc: Any = None,
    is_async: Any = False,
) -> Any:
    """`a @ b + acc` by `wgmma`.

    Args:
        a: a buffer, or a tile with a `DotOperandLayout`.
        b: a buffer.
        acc: a tile with an `NVMMADistributedLayout` of version [3, 0], or a sum that runs on.
        use_acc: whether `acc` is added.
        precision: how fp32 operands are rounded.
        max_num_imprecise_acc: how many fp8 products are added with low precision.
        is_async: the program goes on; the result is a sum for further products and `warpgroup_mma_wait`.
    """
    chosen = unwrap(precision) or context().dot_precision
    if chosen not in PRECISIONS:
        raise SemanticError(BadArgument("warpgroup_mma", "precision", chosen, ", ".join(PRECISIONS)))
    is_running = bool(unwrap(is_async))
    adds = to_tensor(use_acc)
    attributes: dict[str, Attribute] = {
        "inputPrecision": Number(PRECISIONS[chosen], i32),
        "maxNumImpreciseAcc": Number(_imprecise(a, b, unwrap(max_num_imprecise_acc)), i32),
        "isAsync": is_running,
    }
    kind = acc.type.tensor_type if isinstance(acc, RunningSum) else acc.type
    check_warp_group_product(a, b, kind)
    handle = emit_named("ttng.warp_group_dot", {"a": a, "b": b, "c": acc, "useC": adds}, (kind.ir,), attributes)[0]
    return RunningSum(handle, running_type(kind)) if is_running else Tile.concrete(handle, kind)


def _imprecise(a: Any, b: Any, given: Any) -> int:
    narrow = a.dtype.is_fp8() and b.dtype.is_fp8()
    if given is None:
        return context().imprecise_sums if narrow else 0
    depth = a.type.shape[-1]
    require(not narrow or given <= depth, f"max_num_imprecise_acc ({given}) must be <= K ({depth})")
    return int(given)


def warpgroup_mma_wait(num_outstanding: Any = 0, deps: Any = None) -> Any:
    """Wait until at most `num_outstanding` products run on.

    Args:
        num_outstanding: how many.
        deps: the sums that are needed, and buffers that are read until then.

    Returns:
        the tiles of the sums: one, or a tuple.
    """
    if deps is None:
        raise ValueError("warpgroup_mma_wait deps must be given")
    values = [unwrap(dep) for dep in deps]
    attributes: dict[str, Attribute] = {"pendings": Number(unwrap(num_outstanding), i32)}
    types = [value.type.ir for value in values]
    handles = active().emit("ttng.warp_group_dot_wait", [value.handle for value in values], types, attributes)
    waited = [_waited(value, handle) for value, handle in zip(values, handles, strict=True)]
    return waited[0] if len(waited) == 1 else tuple(waited)


def _waited(value: Any, handle: Any) -> Any:
    if isinstance(value, RunningSum):
        return Tile.concrete(handle, value.type.tensor_type)
    return type(value)(handle, value.type)


accept_semantic(globals())
