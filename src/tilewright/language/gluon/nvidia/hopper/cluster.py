"""Synchronisation of the CTAs of a cluster."""

from __future__ import annotations

from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.semantics.active import active, context
from tilewright.semantics.constexpr import unwrap
from tilewright.support.diagnostics import NotSupported, SemanticError

__all__ = ["arrive", "barrier", "wait"]


def barrier(relaxed: Any = False) -> None:
    """A barrier of all threads of the cluster; with `relaxed`, it does not make their writes visible to others."""
    active().emit("ttng.cluster_barrier", (), (), {"relaxed": bool(unwrap(relaxed))})


def arrive(relaxed: Any = False) -> None:
    """The first half of a barrier, as in Triton before 3.9; `relaxed` as in `barrier`."""
    _refuse_in_parts("arrive")
    active().emit("ttng.cluster_arrive", (), (), {"relaxed": bool(unwrap(relaxed))})


def wait() -> None:
    """The second half of a barrier."""
    _refuse_in_parts("wait")
    active().emit("ttng.cluster_wait")


def _refuse_in_parts(function: str) -> None:
    """Refuse halves of barriers inside of `gl.warp_specialize`: hardware counts all warps of the cluster."""
    if context().specialized:
        reason = "all warps of the cluster come to it: take cluster.barrier(), by which those of one function meet"
        raise SemanticError(NotSupported(f"cluster.{function} in warp_specialize", reason))


accept_semantic(globals())
