"""Live ranges of values, as intervals of op numbers.

    0  %a = ttg.local_alloc        %a lives in [0, 4)
    1  %x = "make"                 an op with regions is numbered after the ops inside,
    2  scf.if %c { "use"(%a) : 2 } : 3      so a value that the inside needs lives until the whole op ends

The placing of buffers (placement.py) works on such intervals.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.dominance import around_in
from tilewright.support.named_tuple import NamedTuple


class Interval(NamedTuple):
    """The numbers from `start` up to, but not including, `end`."""

    start: int
    end: int

    def overlaps(self, other: Interval) -> bool:
        """Whether some number is in both."""
        return self.start < other.end and other.start < self.end

    def joined(self, other: Interval) -> Interval:
        """The shortest interval that holds both."""
        return Interval(min(self.start, other.start), max(self.end, other.end))


def inner_first(op: Op) -> Iterator[Op]:
    """`op` and all ops inside, an op after those in its regions."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block:
                yield from inner_first(inner)
    yield op


class LiveRanges:
    """The live ranges of the values in `root`.

    Attributes:
        number: the place of every op in the order of `inner_first`.
    """

    def __init__(self, root: Op) -> None:
        self.number = {op: place for place, op in enumerate(inner_first(root))}
        self._live_out: dict[Block, set[Value]] = {}
        for op in self.number:
            for region in op.regions:
                if len(region.blocks) > 1:
                    self._live_out.update(_live_out(region))

    def of(self, value: Value) -> Interval:
        """The interval from the op that makes `value` (the start of the block, for an argument) to its last use."""
        spans = [self._within(block, value) for block in self._blocks(value)]
        return Interval(min(span.start for span in spans), max(span.end for span in spans))

    def _blocks(self, value: Value) -> Iterator[Block]:
        """The blocks in which `value` is made, used, or only kept for blocks that come later."""
        home = value.block
        assert home is not None, "the op that makes the value is in a block"
        yield home
        # A use inside of a loop or branch keeps the value through all of it: what counts is the block that this is in.
        users = {_block_beside(home, user): None for user in value.uses}
        yield from (block for block in users if block is not None and block is not home)
        for block, live in self._live_out.items():
            if value in live and block is not home:
                yield block

    def _within(self, block: Block, value: Value) -> Interval:
        """The numbers of the ops directly in `block` during which `value` lives."""
        made_here = isinstance(value.owner, Op) and value.owner.block is block
        first = value.owner if made_here else block.first
        assert isinstance(first, Op), "a block holds an op"
        if value in self._live_out.get(block, ()):
            last = self.number[block.terminator]
        else:
            ends = (ancestor_in(user, block) for user in value.uses)
            last = max((self.number[end] for end in ends if end is not None), default=self.number[first])
        return Interval(self.number[first], max(self.number[first], last) + 1)


def ancestor_in(op: Op, block: Block | None) -> Op | None:
    """`op` or the op around it that stands directly in `block`; None if there is none."""
    found: Op | None = op
    while found is not None and found.block is not block:
        found = found.parent
    return found


def _block_beside(home: Block, user: Op) -> Block | None:
    """The block of the region of `home` that `user` stands in, directly or not."""
    op = around_in(user, home.region)
    return op.block if op is not None else None


def _live_out(region: Region) -> dict[Block, set[Value]]:
    """Per block the values that blocks after it need: backward data flow until nothing changes."""
    needed = {block: _needed(block) for block in region.blocks}
    out: dict[Block, set[Value]] = {block: set() for block in region.blocks}
    changed = True
    while changed:
        changed = False
        for block in reversed(region.blocks):
            after = set().union(*(needed[target] for target in block.terminator.successors))
            if after != out[block]:
                out[block] = after
                needed[block] |= {value for value in after if value.block is not block}
                changed = True
    return out


def _needed(block: Block) -> set[Value]:
    """The values that `block` uses, its nested regions included, and does not make itself."""
    used = {value for op in block for inner in op.walk() for value in inner.operands}
    return {value for value in used if not _is_inside(block, value)}


def _is_inside(block: Block, value: Value) -> bool:
    home = value.block
    while home is not None and home is not block:
        op = home.region.op if home.region is not None else None
        home = op.block if op is not None else None
    return home is block
