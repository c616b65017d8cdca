"""Checks of copy barriers that the CTAs of a cluster share otherwise than in the pairs that multiply together.

    module attributes {"ttng.two-ctas" = true}
    ttng.async_tma_copy_global_to_local %d[…] %buffer, %barrier, %p      %barrier: [[0], [0]], of all four CTAs

    error: TMA barrier cga_layout must be [[1], [2]] or [[0], [1]], got [[0], [0]]

A copy signals the barrier of its own CTA or, in programs whose products are those of CTA pairs, that of the even CTA of
its pair. The message is Triton's.
"""

from __future__ import annotations

from tilewright.dialects.ttg_attributes import TWO_CTAS
from tilewright.dialects.ttng_descriptors import AsyncTmaCopyGlobalToLocal, AsyncTmaGather
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op, buffer_type
from tilewright.layouts.encoding import encoding
from tilewright.layouts.queries import cga_layout
from tilewright.support.diagnostics import Diagnostic, located

Rows = tuple[tuple[int, ...], ...]


class WrongBarrier(Diagnostic):
    """A copy signals a barrier that is shared by other CTAs than copies can signal."""

    title = "TMA barrier cga_layout must be {expected}, got {found}"
    label = "it signals this barrier"
    expected: str
    found: str


def check_barriers(module: Op) -> bool:
    """Refuse copies whose barriers are shared by other CTAs than the hardware allows.

    Raises:
        CompilationError: there is one.
    """
    pairs = bool(module.attributes.get(TWO_CTAS))
    for op in module.walk():
        if isinstance(op, (AsyncTmaCopyGlobalToLocal, AsyncTmaGather)):
            found = cga_layout(encoding(buffer_type(op.barrier).encoding))
            allowed = [_shared_by(len(found), 0), *([_shared_by(len(found), 1)] if pairs and found else [])]
            if found not in allowed:
                raise located(WrongBarrier(" or ".join(map(_text, allowed)), _text(found)), span_of(op.location))
    return False


def _shared_by(bits: int, shared: int) -> Rows:
    """The steps of barriers, one for all CTAs that differ in the first `shared` bits of their numbers."""
    return ((0,),) * shared + tuple((1 << bit,) for bit in range(bits - shared))


def _text(rows: Rows) -> str:
    return str([list(row) for row in rows])
