"""The error for inline assembly that a CPU refuses, and why.

refused("`ex2.approx.f32` is an instruction of GPUs")
"""

from __future__ import annotations

from tilewright.semantics.errors import NotOnThisTarget
from tilewright.support.diagnostics import SemanticError


def refused(reason: str) -> SemanticError:
    """The error that names what only GPUs have."""
    return SemanticError(NotOnThisTarget("inline_asm_elementwise", reason, "write the operation with tl functions"))
