"""Ops that have no lowering for NVIDIA's GPUs yet, and why: the error that a kernel with one gets says so."""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.ir.spans import span_of
from tilewright.support.diagnostics import InternalError, NotSupported, TilewrightError, located

NOT_YET: dict[str, str] = {}
"""Names of ops, sorted, and what is missing."""


def refuse(op: Op) -> TilewrightError:
    """The error for an op without lowering."""
    reason = NOT_YET.get(op.name)
    if reason is None:
        return InternalError(f"{op.name} has no lowering for NVIDIA GPUs", print_op(op))
    return located(NotSupported(f"the op {op.name}", reason), span_of(op.location))
