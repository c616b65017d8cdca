"""The CTAs of a cluster meet."""

from __future__ import annotations

from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.semantics.active import active
from tilewright.semantics.constexpr import unwrap

__all__ = ["arrive", "barrier", "wait"]


def barrier(relaxed: Any = False) -> None:
    """All threads of the cluster meet; with `relaxed`, nothing that they wrote is there for others."""
    active().emit("ttng.cluster_barrier", (), (), {"relaxed": bool(unwrap(relaxed))})


def arrive(relaxed: Any = False) -> None:
    """The first half of a meeting, as Triton had it before 3.9; with `relaxed` as in `barrier`."""
    active().emit("ttng.cluster_arrive", (), (), {"relaxed": bool(unwrap(relaxed))})


def wait() -> None:
    """The second half of a meeting."""
    active().emit("ttng.cluster_wait")


accept_semantic(globals())
