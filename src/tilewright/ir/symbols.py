"""Finding functions by name."""

from __future__ import annotations

from tilewright.ir.core import Op


def lookup_symbol(op: Op, name: str) -> Op | None:
    """The op that defines the symbol `name` for `op`: the nearest one in the regions around it."""
    block = op.block
    while block is not None:
        other = block.first
        while other is not None:
            if other.definition.symbol and other.attributes.get("sym_name") == name:
                return other
            other = other.next
        owner = block.region.op if block.region is not None else None
        block = owner.block if owner is not None else None
    return None
