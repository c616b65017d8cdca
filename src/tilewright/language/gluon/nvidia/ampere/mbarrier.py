"""Barriers in shared memory, which count arrivals (and bytes) in phases.

    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    …                                   # other threads arrive
    mbarrier.wait(bar, phase)           # until the phase of this parity has ended: 0 first, then 1, then 0 …
    mbarrier.invalidate(bar)
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.types import i32
from tilewright.language.core import accept_semantic
from tilewright.language.gluon.buffers import allocate_shared_memory
from tilewright.semantics.active import active, context
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.buffers import require
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.layout_values import plain
from tilewright.semantics.named_ops import emit_named
from tilewright.semantics.shared_layouts import SwizzledSharedLayout
from tilewright.semantics.types import int64

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "init", "invalidate", "wait"]


class MBarrierLayout(SwizzledSharedLayout):
    """The layout of barriers; `cga_layout` says which CTAs of a cluster share one."""

    def __init__(self, cga_layout: Any = None) -> None:
        super().__init__(vec=1, per_phase=1, max_phase=1, order=[0], cga_layout=unwrap(cga_layout) or [])

    @staticmethod
    def multicta(num_ctas: Any, two_cta: Any = False) -> MBarrierLayout:
        """The layout of one barrier per CTA, or per pair of CTAs.

        Args:
            num_ctas: a power of two.
            two_cta: pairs share a barrier.
        """
        count, pairs = unwrap(num_ctas), bool(unwrap(two_cta))
        assert count > 0, "num_ctas must be positive"
        assert count & (count - 1) == 0, "num_ctas must be a power of two"
        assert not pairs or count % 2 == 0, "num_ctas must be even for two-CTA mode"
        steps = [1 << bit for bit in range((count // 2 if pairs else count).bit_length() - 1)]
        return MBarrierLayout([[step] for step in ([0, *steps] if pairs else steps)])


def allocate_mbarrier(batch: Any = None, two_ctas: Any = False) -> Any:
    """A barrier of each CTA, or `batch` of them.

    Args:
        batch: how many; None for one, without an axis.
        two_ctas: pairs of CTAs share one.
    """
    number, pairs, ctas = unwrap(batch), bool(unwrap(two_ctas)), context().ctas
    own = [ctas // 2 if pairs else ctas]
    shape = own if number is None else [number, *own]
    return allocate_shared_memory(int64, shape, MBarrierLayout.multicta(ctas, pairs))


def init(mbarrier: Any, count: Any) -> None:
    """Make it a barrier whose phases end after `count` arrivals."""
    active().emit("ttng.init_barrier", [mbarrier.handle], (), {"count": Number(unwrap(count), i32)})


def invalidate(mbarrier: Any) -> None:
    """Make it plain memory again."""
    active().emit("ttng.inval_barrier", [mbarrier.handle])


def wait(mbarrier: Any, phase: Any, pred: Any = True, deps: Any = ()) -> None:
    """Wait until the phase with this parity has ended.

    Args:
        mbarrier: the barrier.
        phase: 0 or 1.
        pred: whether to wait at all.
        deps: buffers that must live until then.
    """
    phase, pred = to_tensor(phase), to_tensor(pred)
    operands = {"alloc": mbarrier, "phase": phase, "pred": pred, "deps": tuple(unwrap(deps))}
    emit_named("ttng.wait_barrier", operands)


def arrive(mbarrier: Any, *, pred: Any = True, from_cta: Any = None) -> None:
    """Arrive once.

    Args:
        mbarrier: the barrier.
        pred: whether to.
        from_cta: which CTAs of a cluster arrive, and where; see `routing`.
    """
    emit_arrive(mbarrier, 1, pred, from_cta)


def emit_arrive(mbarrier: Any, count: Any, pred: Any, from_cta: Any) -> None:
    """Arrive `count` times, if `pred` holds."""
    require(isinstance(unwrap(count), int), f"expected 'count' to be an int but got {unwrap(count)}")
    attributes: dict[str, Attribute] = {"count": Number(unwrap(count), i32), **routing(mbarrier, from_cta)}
    emit_named("ttng.arrive_barrier", {"alloc": mbarrier, "pred": to_tensor(pred)}, (), attributes)


def routing(mbarrier: Any, from_cta: Any) -> dict[str, Attribute]:
    """The attributes of an op that say which CTAs of a cluster signal which barriers.

    Args:
        mbarrier: the barrier, one of each CTA.
        from_cta: a mask of bits of the number of a CTA. CTAs that have no other bits signal the barriers of all those
            whose numbers differ in the other bits: with 0 the first one signals all. None, or all bits: each signals
            its own.
    """
    mask, ctas = unwrap(from_cta), context().ctas
    if mask is None:
        return {}
    fits = isinstance(mask, int) and 0 <= mask < ctas
    require(fits, f"from_cta is a number from 0 to {ctas - 1}, the bits of the number of a CTA, not {mask}")
    own = [[1 << bit] for bit in range(ctas.bit_length() - 1)]
    each = mbarrier.shape == [ctas] and plain(mbarrier.layout.cga_layout) == own
    expected = f"a barrier of each CTA, with shape [{ctas}] and cga_layout={own}"
    require(each, f"from_cta is for {expected}, not {mbarrier.type}")
    return {} if mask == ctas - 1 else {"fromCTA": Number(mask, i32)}


accept_semantic(globals())
