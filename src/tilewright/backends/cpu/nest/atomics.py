"""Atomic read-modify-write, one lane at a time; lanes that are masked off do nothing."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import Index, Lane, Vector
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw


def lower_atomic(c: Context, op: AtomicRmw | AtomicCas, operands: Sequence[Lane], index: Index) -> None:
    """The atomic `op` on the one lane of a scalar loop; its result becomes known."""
    assert c.lanes == 1, "atomics run one element at a time"
    values = [c.as_vector(lane, v.type.scalar).value for lane, v in zip(operands, op.operands, strict=True)]
    scalar = c.b.copy(op, values)
    if op.results:
        c.remember((op.result, index), Vector(scalar.result, c.depth))
