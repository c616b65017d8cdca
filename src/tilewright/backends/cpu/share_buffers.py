"""Tiles that several loops and branches in a row carry stay in one buffer.

    %x = cpu.read %a                                   scf.if %c {
    scf.if %c {                                          %x = cpu.read %a
      cpu.write f(%x), %b                                cpu.write f(%x), %a
    } else {                                     →     }
      cpu.write %x, %b                                 %y = cpu.read %a
    }
    %y = cpu.read %b

The write of `%x`, a copy, stands in an arm as here, or in front of a loop. `%b` becomes `%a` if nobody needs what `%a`
holds from the op with the copy on: no read of it follows, what was computed of it is not used any more, and where other
blocks see `%a`, as it is carried by a loop around, it is written anew, behind all that reads `%b`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.backends.cpu.costs import is_tile
from tilewright.dialects.cpu import Read, Write
from tilewright.dialects.scf import If
from tilewright.ir.core import Block, Op, Value, defining
from tilewright.ir.dominance import is_under

MAX_USES = 64
"""Max uses of a buffer that are looked at, so that long programs take no longer per op."""

Places = Mapping[Op, int]
"""The places of the ops of a block."""


def share_buffers(module: Op) -> None:
    """Let carried tiles stay where they are if they may."""
    places: dict[Block, Places] = {}
    for copy in module.ops_of(Write):
        read, target = defining(copy.value, Read), copy.buffer.op
        if read is None or target is None or read.buffer.type != copy.buffer.type:
            continue
        block = target.block
        if read.block is block and block is not None:
            if block not in places:
                places[block] = {op: place for place, op in enumerate(block.ops())}
            for changed in _Sharing(copy, read, block, places[block]).run():
                places.pop(changed, None)


class _Sharing:
    """The buffer that `copy` fills, with what `read` finds in another one; both ops are below `block`."""

    def __init__(self, copy: Write, read: Read, block: Block, places: Places) -> None:
        self.copy, self.read, self.block, self.places = copy, read, block, places
        self.source, self.target = read.buffer, copy.buffer
        self.top = self.around(copy)
        self.place = places[self.top] if self.top is not None else -1

    def around(self, op: Op) -> Op | None:
        """`op`, or the op around it that stands in the block itself."""
        here: Op | None = op
        while here is not None and here.block is not self.block:
            here = here.parent
        return here

    def place_of(self, op: Op) -> int | None:
        """Where in the block `op` is; None outside."""
        around = self.around(op)
        return None if around is None else self.places[around]

    def run(self) -> list[Block]:
        """Let the two buffers be one if they may; returns the arms in front of which a read was put."""
        top, alloc = self.top, self.target.op
        is_known = top is self.copy or isinstance(top, If)
        if not (is_known and alloc is not None and self.is_allowed()):
            return []
        arms = [arm.block for arm in top.arms] if isinstance(top, If) else []
        for arm in arms:
            self.read_in(arm)
        self.copy.erase()
        self.target.replace_by(self.source)
        alloc.erase()
        return arms

    def read_in(self, arm: Block) -> None:
        """Let uses in an arm read the buffer at its start: no one in front of the branch needs it then."""
        users = [user for user in self.read.result.uses if is_under(user, arm)]
        if any(user is not self.copy for user in users):
            again = arm.insert(self.read.clone(), arm.first)
            again.result.name = self.read.result.name
            self.read.result.replace_in(users, again.result)

    def is_allowed(self) -> bool:
        uses = [*self.source.uses, *self.target.uses]
        if len(uses) > MAX_USES or not all(isinstance(use, (Read, Write)) for use in uses):
            return False
        if self.places[self.read] > self.place or not self.is_target_later():
            return False
        written = self.written_anew()
        alloc = self.source.op
        if written is None and (alloc is None or alloc.block is not self.block):
            return False
        return all(self.is_over(use, written) for use in self.source.uses)

    def is_target_later(self) -> bool:
        """Whether nothing before the copy uses what it fills."""
        found = [self.place_of(use) for use in self.target.uses]
        return all(place is not None and place >= self.place for place in found)

    def written_anew(self) -> Write | None:
        """A write to the source in the block itself, behind all uses of the target."""
        last = max(self.places[around] for use in self.target.uses if (around := self.around(use)) is not None)
        writes = (use for use in self.source.uses if isinstance(use, Write) and use.block is self.block)
        return next((use for use in writes if self.places.get(use, -1) > last), None)

    def is_over(self, use: Op, written: Write | None) -> bool:
        """Whether a use of the source does not mind that it has other elements from the copy on."""
        place = self.place_of(use)
        if use is written or place is None:
            return True
        if place >= self.place:
            return False
        if isinstance(use, Read):
            return all(later <= self.place for later in self.later_uses(use.results[0]))
        return place < self.places[self.read]

    def later_uses(self, value: Value) -> Iterator[int]:
        """The places of the uses of what is computed of `value`, tile by tile, before the copy."""
        waiting, seen = [value], {value}
        while waiting:
            for user in waiting.pop().uses:
                place = self.place_of(user)
                assert place is not None, "a value is used where it is visible"
                yield place
                if place < self.place:
                    found = [result for result in user.results if is_tile(result) and result not in seen]
                    seen.update(found)
                    waiting += found
