"""The order of ops: which block or op holds an op, and which comes first."""

from __future__ import annotations

from tilewright.ir.core import Block, Op


def is_under(op: Op, block: Block) -> bool:
    """Whether `op` is in `block`, or in a region of an op there."""
    here: Op | None = op
    while here is not None and here.block is not block:
        here = here.parent
    return here is not None


def is_inside(op: Op, outer: Op) -> bool:
    """Whether `op` is in a region of `outer`, at any depth."""
    parent = op.parent
    while parent is not None and parent is not outer:
        parent = parent.parent
    return parent is outer


def follows(op: Op, other: Op) -> bool:
    """Whether `op` comes after `other` in one block. Ops of different blocks do not."""
    if op.block is not other.block:
        return False
    step = other.next
    while step is not None and step is not op:
        step = step.next
    return step is op
