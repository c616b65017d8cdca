"""Ops that have no lowering for NVIDIA's GPUs, each with the reason that its compile error gives."""

from __future__ import annotations

from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.support.diagnostics import InternalError, NotSupported, TilewrightError, located

UNSUPPORTED: dict[str, str] = {
    "tti.experimental_fpsan_embed": "floats are not replaced by integers",
    "tti.experimental_fpsan_unembed": "floats are not replaced by integers",
    "ttng.clc_try_cancel_sync": "programs take over the work of others with an mbarrier only",
    "ttng.tmem_wait": "loads and stores of tensor memory wait at once",
}
"""Names of ops, sorted, and what is missing."""


def unsupported(op: Op) -> TilewrightError:
    """The error for an op without lowering."""
    reason = UNSUPPORTED.get(op.name)
    if reason is None:
        return InternalError(f"{op.name} has no lowering for NVIDIA GPUs", print_op(op))
    return refused(op, f"the op {op.name}", reason)


def refused(op: Op, what: str, reason: str) -> TilewrightError:
    """The error at the place of an op for what is not supported, and why."""
    return located(NotSupported(what, reason), span_of(op.location))
