"""Products of tiles that blocks of a cluster share: instructions that read factors from memory read the own block's."""

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


def demand_own_factors(op: Op, factors: Sequence[Value], parts: Bases) -> None:
    """Demand that each block has the factors of its part of the product.

    Args:
        op: the product.
        factors: its factors, of which those in shared memory matter.
        parts: how the result is divided among blocks.

    Raises:
        Unsupported: a block would need a factor that another one has.
    """
    for index, factor in enumerate(factors):
        if isinstance(factor.type, MemDescType) and factor.type.space == SHARED_MEMORY:
            wanted = tuple(tuple(step if axis == index else 0 for axis, step in enumerate(row)) for row in parts)
            if cga_layout(encoding(factor.type.encoding)) != wanted:
                raise located(
                    NotSupported("a product of factors that other blocks have", "launch the kernel with num_ctas=1"),
                    span_of(op.location),
                )
