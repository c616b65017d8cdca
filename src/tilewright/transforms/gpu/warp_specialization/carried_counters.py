"""Values carried from one execution of a block to the next, through all enclosing loops and branches.

for … {                          for … iter_args(%n = %start) {
  if %c {                          %m = if %c {
    "here"()                ->       "here"(%n)
  }                                  yield %n + 1
}                                  } else { yield %n }
                                   yield %m
                                 }
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.scf import For, If
from tilewright.ir.core import Block, Value
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.pipelining.descriptors import with_result


class Counters:
    """Values that start as `starts` in the block `outside`, and are carried to the block `inside`.

    Attributes:
        values: the values as `inside` sees them when it begins.
    """

    def __init__(self, inside: Block, outside: Block, starts: Sequence[Value]) -> None:
        self._inside, self._around = inside, ops_around(inside, outside)
        self.values = list(starts)
        for op in self._around:
            if isinstance(op, For):
                self.values = [add_carried(op, value) for value in self.values]

    def hand_on(self, new: Sequence[Value]) -> list[Value]:
        """Let the next execution of the inner block begin with `new`; returns the values behind all loops."""
        count, old, inner = len(new), self.values, self._inside
        after = list(new)
        for op in reversed(self._around):
            if isinstance(op, For):
                end = op.body.terminator
                end.set_operands([*end.operands, *after])
                after, old = op.results[-count:], op.inits[-count:]
            else:
                after = [with_result(op, inner, taken, other) for taken, other in zip(after, old, strict=True)]
            assert op.block is not None, "a loop or branch is in a block"
            inner = op.block
        return after


def ops_around(inside: Block, outside: Block) -> list[For | If]:
    """The loops and branches of the block `outside` that are around `inside`, outermost first."""
    found: list[For | If] = []
    inner: Block | None = inside
    while inner is not outside:
        op = inner.region.op if inner is not None and inner.region is not None else None
        if isinstance(op, (For, If)):
            found.append(op)
        assert op is not None, "the outer block is around the inner one"
        inner = op.block
    return found[::-1]
