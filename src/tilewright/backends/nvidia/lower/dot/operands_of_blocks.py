"""Products of tiles that blocks of a cluster share: instructions read operands from their own block's memory."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.ttg_attributes import SHARED_MEMORY
from tilewright.ir.core import Op, Value
from tilewright.ir.spans import span_of
from tilewright.ir.types import MemDescType
from tilewright.layouts.encodings import encoding
from tilewright.layouts.keys import Bases
from tilewright.layouts.queries import cga_layout
from tilewright.support.diagnostics import NotSupported, located


def demand_own_operands(op: Op, operands: Sequence[Value], parts: Bases) -> None:
    """Demand that each block has the operands of its part of the product.

    Args:
        op: the product.
        operands: its operands, of which those in shared memory matter.
        parts: how the result is divided among blocks.

    Raises:
        Unsupported: a block would need an operand that another one has.
    """
    for index, operand in enumerate(operands):
        if isinstance(operand.type, MemDescType) and operand.type.space == SHARED_MEMORY:
            wanted = tuple(tuple(step if axis == index else 0 for axis, step in enumerate(row)) for row in parts)
            if cga_layout(encoding(operand.type.encoding)) != wanted:
                raise located(
                    NotSupported("a product of operands that other blocks have", "launch the kernel with num_ctas=1"),
                    span_of(op.location),
                )
