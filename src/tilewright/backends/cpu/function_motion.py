"""Analysis: how the values of a kernel with loops change in the next program along an axis of the grid.

    %total = scf.for … iter_args(%sum = %zero)      shifts, if %zero and what an iteration yields do
    tt.reduce %total, axis 0                        shifts, as the axis that is left does

What a loop carries shifts by induction: it is taken to, and then each iteration has to yield what does. The same goes
for scalars that stay. `are_loops_alike` says whether all of that has turned out to be true.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.alignment import Tags, axis_of, operand_tags
from tilewright.backends.cpu.costs import is_tile
from tilewright.backends.cpu.program_motion import UNKNOWN, Motion, Moved
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op, Value

WIDE, OTHER = 1, 0
"""The tags of the axis that continues in the next program, and of the others."""

RANK = 2


def tags_of(value: Value, axis: int | None) -> Tags:
    """The tags of a value that continues along `axis`; None: it is the same in all programs."""
    return tuple(WIDE if place == axis else OTHER for place in range(len(value.type.shape or ())))


def carried_by(value: Value) -> tuple[For, int] | None:
    """The loop that carries `value`, from one iteration to the next or to its end, and as which of its values."""
    if isinstance(value.op, For):
        return value.op, value.index
    region = None if value.op is not None or value.block is None else value.block.region
    loop = None if region is None else region.op
    return (loop, value.index - 1) if isinstance(loop, For) and value.index else None


class FunctionMotion(Motion):
    """The change of values of a function between programs along `axis`."""

    def __init__(self, axis: str) -> None:
        super().__init__(axis, RANK)

    def is_inside(self, op: Op) -> bool:
        return True

    def shifts(self, value: Value, axis: int | None) -> bool:
        """Whether `value` in the next program is this one, further along `axis`."""
        return self.of(value, tags_of(value, axis)).shifts

    def are_loops_alike(self, loops: Sequence[For], axes: dict[Value, int | None]) -> bool:
        """Whether loops run as often in all programs, and what they carry moves as was taken for granted.

        Args:
            loops: those of the function.
            axes: per carried tile the axis along which it continues.
        """
        counts = all(self.is_uniform(bound) for loop in loops for bound in loop.bounds)
        return counts and all(
            self.shifts(value, axes.get(value)) if is_tile(value) else self.is_uniform(value)
            for loop in loops
            for value in loop.carried
        )

    def _new(self, value: Value, tags: Tags) -> Moved:
        place = carried_by(value)
        if place is None or not is_tile(value):
            return super()._new(value, tags)
        loop, number = place
        if value.op is loop:
            return self.of(loop.carried[number], tags)
        self._moved[value, tags] = Moved(stays=False, shifts=True)
        parts = [self.of(part, tags) for part in (loop.inits[number], loop.yielded[number])]
        return Moved(stays=False, shifts=all(part.shifts for part in parts))

    def _made(self, op: Op, tags: Tags) -> Moved:
        moved = super()._made(op, tags) if not isinstance(op, Reduce) else UNKNOWN
        if isinstance(op, (Load, Reduce)):
            parts = [self.of(*asked) for asked in asked_by(op, tags)]
            is_known = isinstance(op, Reduce) or moved.shifts
            return Moved(stays=False, shifts=is_known and all(part.shifts for part in parts))
        return moved

    def _new_step(self, value: Value) -> int | None:
        place = carried_by(value)
        if place is not None:
            loop, number = place
            self._steps[value] = 0
            parts = (loop.inits[number], loop.yielded[number])
            return 0 if value.op is None and all(self.is_uniform(part) for part in parts) else None
        region = None if value.op is not None or value.block is None else value.block.region
        if region is not None and isinstance(region.op, For):
            return 0 if all(self.is_uniform(bound) for bound in region.op.bounds) else None
        return super()._new_step(value)


def asked_by(op: Op, tags: Tags) -> list[tuple[Value, Tags]]:
    """The axes by which each operand of `op` is asked for when its result is asked for by `tags`."""
    if not isinstance(op, Reduce):
        return operand_tags(op, tags)
    axis = axis_of(op)
    return [(source, (*tags[:axis], OTHER, *tags[axis:])) for source in op.sources]
