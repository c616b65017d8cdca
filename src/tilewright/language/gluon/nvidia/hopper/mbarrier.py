"""Barriers in shared memory, which also count the bytes of copies; see `ampere.mbarrier`."""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.types import i32
from tilewright.language.core import accept_semantic
from tilewright.language.gluon.nvidia.ampere.mbarrier import (
    MBarrierLayout,
    allocate_mbarrier,
    emit_arrive,
    init,
    invalidate,
    routing,
    wait,
)
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.named_ops import emit_named

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "expect", "init", "invalidate", "wait"]


def expect(mbarrier: Any, bytes_per_cta: Any = None, pred: Any = True, *, from_cta: Any = None) -> None:
    """Let this phase wait for more bytes, and arrive once.

    Args:
        mbarrier: the barrier.
        bytes_per_cta: how many.
        pred: whether to.
        from_cta: which CTAs of a cluster arrive, and where; see `ampere.mbarrier.routing`.
    """
    attributes: dict[str, Attribute] = {"size": Number(unwrap(bytes_per_cta), i32), **routing(mbarrier, from_cta)}
    emit_named("ttng.barrier_expect", {"alloc": mbarrier, "pred": to_tensor(pred)}, (), attributes)


def arrive(mbarrier: Any, *, count: Any = 1, pred: Any = True, from_cta: Any = None) -> None:
    """Arrive `count` times.

    Args:
        mbarrier: the barrier.
        count: a constant.
        pred: whether to.
        from_cta: which CTAs of a cluster arrive, and where; see `ampere.mbarrier.routing`.
    """
    emit_arrive(mbarrier, count, pred, from_cta)


accept_semantic(globals())
