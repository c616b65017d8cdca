"""Gathers whose partners are in one vector: elements trade places in a register, and nothing goes through memory.

%p = arith.xori %i, dense<4>           →     vector.shuffle %x [4, 5, 6, 7, 0, 1, 2, 3, …]
%y = tt.gather %x[%p]

So the steps of a sorting network at distances below the lanes of a vector share a nest. Each asks its source for the
vector that it was asked for itself. Whoever would ask for other elements, one by one or along another axis, has such a
tile in a buffer, or each of a chain of gathers would double what is computed.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.analysis.gather_distance import distance_of_indices
from tilewright.backends.cpu.alignment import axis_of
from tilewright.dialects.cpu import Read, Write
from tilewright.dialects.tt_memory import Store
from tilewright.dialects.tt_shape import Gather
from tilewright.ir.core import Op, tile_type


def trades_within_vectors(gather: Gather, vector_bits: int) -> bool:
    """Whether the elements of each vector along the last axis trade places, if vectors have so many bits."""
    distance, source = distance_of_indices(gather), tile_type(gather.source)
    if distance is None or axis_of(gather) != len(source.shape) - 1 or tile_type(gather.result).shape != source.shape:
        return False
    return distance * max(source.element.bits, 8) < vector_bits


def asks_for_vectors(op: Op) -> bool:
    """Whether `op` asks its operands for whole vectors along their last axis, whatever loops it shares."""
    return isinstance(op, Write) or (isinstance(op, Store) and len(op.value.type.shape or ()) == 1)


def least_lanes(ops: Iterable[Op]) -> int:
    """The fewest lanes that chunks of a nest of these ops may have, so that partners are in one of them."""
    near = (distance_of_indices(op) for op in ops if isinstance(op, Gather) and not isinstance(op.source.op, Read))
    return max((1 << distance.bit_length() for distance in near if distance is not None), default=1)
