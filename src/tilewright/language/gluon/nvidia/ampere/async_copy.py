"""Asynchronous copies from global to shared memory: `cp.async`."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import UNIT, Attribute, Number
from tilewright.ir.types import async_token, i32
from tilewright.language.core import accept_semantic
from tilewright.semantics.active import active
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.buffers import require
from tilewright.semantics.cache_policies import LOADS, attributes_of_policy
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.memory import LOAD_CACHES, cache_hints
from tilewright.semantics.named_ops import emit_named

__all__ = ["async_copy_global_to_shared", "async_load", "commit_group", "mbarrier_arrive", "wait_group"]


def async_load(
    smem: Any,
    pointer: Any,
    mask: Any = None,
    cache_modifier: Any = None,
    eviction_policy: Any = None,
    volatile: Any = False,
    cache_policy: Any = None,
) -> None:
    """Begin to copy what `pointer` points at to a buffer.

    Args:
        smem: the buffer.
        pointer: a tile of pointers of its shape.
        mask: which elements are copied; the others become zeros.
        cache_modifier, eviction_policy: hints.
        volatile: memory may change at any time.
        cache_policy: a `CachePolicy`, instead of these hints.
    """
    mask = unwrap(mask)
    if mask is not None:
        pointer, mask = broadcast(pointer, mask)
    shape = list(pointer.type.shape)
    shapes = f"smem.shape = {smem.shape}, pointer.shape = {shape}"
    require(smem.shape == shape, f"expected smem shape to match pointer shape but got {shapes}")
    attributes: dict[str, Attribute] = {"contiguity": Number(1, i32), "isVolatile": bool(unwrap(volatile))}
    modifier, eviction = unwrap(cache_modifier) or "", unwrap(eviction_policy) or ""
    hints = attributes_of_policy("async_load", cache_policy, (modifier, eviction), LOADS)
    attributes |= cache_hints("async_load", LOAD_CACHES, modifier, eviction) if hints is None else hints
    operands = {"src": pointer, "result": smem, "mask": mask}
    emit_named("ttg.async_copy_global_to_local", operands, (async_token,), attributes)


async_copy_global_to_shared = async_load


def mbarrier_arrive(mbarrier: Any, increment_count: Any = True) -> None:
    """Each thread arrives at a barrier when its copies so far are done.

    Args:
        mbarrier: the barrier.
        increment_count: these arrivals are beyond those that the barrier counts anyway.
    """
    attributes: dict[str, Attribute] = {} if unwrap(increment_count) else {"noIncrement": UNIT}
    active().emit("ttng.async_copy_mbarrier_arrive", [mbarrier.handle], (), attributes)


def commit_group() -> None:
    """The copies since the last call are a group."""
    active().emit("ttg.async_commit_group", (), (async_token,))


def wait_group(num_outstanding: Any = 0) -> None:
    """Wait until at most `num_outstanding` groups are on their way."""
    active().emit("ttg.async_wait", (), (async_token,), {"num": Number(unwrap(num_outstanding), i32)})


accept_semantic(globals())
