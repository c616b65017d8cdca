"""Analysis: how the values of a nest change in the next program along an axis of the grid.

    %pid * 16 + range(16)       shifts: lane i of program p + 1 is lane 16 + i of program p
    %n, range over rows         stays, and shifts: it is the same in all lanes
    range(16)                   stays, and does not shift
    %pid                        neither

`%pid // n` stays and `%pid % n` grows by one as long as no multiple of n lies between: `divided` has such divisions. If
the iterations of a loop belong to different programs, its counter stands for %pid.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.value_forms import ValueForms, is_integral
from tilewright.backends.cpu.alignment import Tags, operand_tags
from tilewright.backends.cpu.costs import SINKS, STORES, is_tile
from tilewright.dialects.arith import Constant, Division
from tilewright.dialects.cpu import Nest, Within
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import MakeRange, ProgramId
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect

QUOTIENTS, REMAINDERS = ("arith.divsi", "arith.divui"), ("arith.remsi", "arith.remui")


class Moved(NamedTuple):
    """How a value differs in the next program: it is the same, or that of as many lanes further as a tile has."""

    stays: bool
    shifts: bool


UNKNOWN, UNIFORM = Moved(stays=False, shifts=False), Moved(stays=True, shifts=True)


class Motion:
    """The change of values between programs along `axis`, or between the numbers that `counter` takes if there is one.

    Attributes:
        rank: that of the tiles whose last axis continues in the next program.
        tags: by which axes of such a tile each load and store is asked for.
        divided: numbers of programs and what they are divided by, with quotients that are taken to stay.
    """

    def __init__(self, axis: str, rank: int, counter: Value | None = None) -> None:
        self.axis, self.rank, self.counter = axis, rank, counter
        self.forms = ValueForms(sees_scalars=True, goes_on=True)
        self.tags: dict[Op, Tags] = {}
        self.divided: dict[tuple[Value, Value], None] = {}
        self._moved: dict[tuple[Value, Tags], Moved] = {}
        self._steps: dict[Value, int | None] = {}

    def inner(self, tags: Tags) -> int | None:
        """The axis of a value that continues in the next program."""
        return tags.index(self.rank - 1) if self.rank - 1 in tags else None

    def is_inside(self, op: Op) -> bool:
        """Whether the result of `op` is looked into by the ops that it is computed from."""
        raise NotImplementedError

    def is_uniform(self, scalar: Value) -> bool:
        """Whether `scalar`, which is computed before the nest, is the same in the next program."""
        return self._step(scalar) == 0

    def of(self, value: Value, tags: Tags) -> Moved:
        """How `value` moves, asked for by the axes `tags`."""
        key = (value, tags)
        if key not in self._moved:
            self._moved[key] = UNKNOWN
            self._moved[key] = self._new(value, tags)
        return self._moved[key]

    def _new(self, value: Value, tags: Tags) -> Moved:
        op = value.op
        if isinstance(op, Constant) and is_tile(value):
            return UNIFORM if isinstance(op.value, Number) else UNKNOWN
        if is_integral(value) and not isinstance(op, Load):
            return self._of_form(value, tags)
        if op is None or not self.is_inside(op):
            return UNIFORM if not is_tile(value) and self._step(value) == 0 else UNKNOWN
        return self._made(op, tags)

    def _made(self, op: Op, tags: Tags) -> Moved:
        """How the result of an op that is looked into moves, by its operands."""
        if isinstance(op, Within):
            return self.of(op.tile, tags)
        if isinstance(op, Load):
            if op.is_volatile or self.tags.setdefault(op, tags) != tags:
                return UNKNOWN
            return self.of(op.pointer, tags)
        if isinstance(op, Division) or not (
            op.definition.elementwise or isinstance(op, (Splat, ExpandDims, Broadcast))
        ):
            return UNKNOWN
        parts = [self.of(*asked) for asked in operand_tags(op, tags)]
        return Moved(all(part.stays for part in parts), all(part.shifts for part in parts))

    def _of_form(self, value: Value, tags: Tags) -> Moved:
        """How an integer or an address moves, by its form."""
        form, inner = self.forms.of(value), self.inner(tags)
        along: int | None = 0
        stays, shifts, ahead = True, True, 0
        for monomial, table in form.terms.items():
            if table.rest is not None:
                return UNKNOWN
            lanes = [symbol for symbol in monomial if symbol.is_lane]
            steps = [self._step(symbol.source) for symbol in monomial if not symbol.is_lane]
            if None in steps or ((lanes or any(steps)) and not table.is_uniform):
                return UNKNOWN
            for symbol in lanes:
                part = self._of_lane(symbol.source, value, tags)
                stays, shifts = stays and part.stays, shifts and part.shifts
            if any(steps):
                if len(monomial) > 1:
                    return UNKNOWN
                ahead += table.first
            elif inner is not None and table.steps[inner]:
                along = along + table.steps[inner] if not monomial and along is not None else None
        wanted = 0 if inner is None else None if along is None else along * form.shape[inner]
        return Moved(stays and ahead == 0, shifts and ahead == wanted)

    def _of_lane(self, source: Value, value: Value, tags: Tags) -> Moved:
        """How a symbol that each lane has for itself moves; it may be the value itself."""
        if source is not value:
            return self.of(source, tags)
        op = value.op
        return (
            UNKNOWN
            if op is None or not self.is_inside(op) or isinstance(op, MakeRange)
            else self._made(op, tags)
        )

    def _step(self, value: Value) -> int | None:
        """How much larger a scalar is in the next program; None: unknown."""
        if value not in self._steps:
            self._steps[value] = None
            self._steps[value] = self._new_step(value)
        return self._steps[value]

    def _new_step(self, value: Value) -> int | None:
        op = value.op
        if op is None or isinstance(op, ProgramId):
            return int(self._is_number(value))
        if op.definition.effect is not Effect.NONE or op.regions:
            return None
        steps = [self._step(operand) for operand in op.operands]
        if not any(step != 0 for step in steps):
            return 0
        if (
            isinstance(op, Division)
            and self._is_number(op.lhs)
            and steps[1] == 0
            and op.name in (*QUOTIENTS, *REMAINDERS)
        ):
            self.divided[op.lhs, op.rhs] = None
            return int(op.name in REMAINDERS)
        return None

    def _is_number(self, value: Value) -> bool:
        """Whether `value` counts the programs; it is never negative."""
        if self.counter is not None:
            return value is self.counter
        op = value.op
        return isinstance(op, ProgramId) and op.name == "tt.get_program_id" and op.axis == self.axis


class NestMotion(Motion):
    """The change of values of `nest` between programs along `axis`, or between iterations of `loop` if there is one."""

    def __init__(self, nest: Nest, axis: str, loop: For | None = None) -> None:
        super().__init__(axis, len(nest.outer) + 1, None if loop is None else loop.induction_variable)
        self.nest = nest

    def is_inside(self, op: Op) -> bool:
        return op.block is self.nest.body

    def is_continued(self) -> bool:
        """Whether the nest of the next program is this one, further along its rows."""
        sinks = self.nest.body.ops_of(SINKS)
        own, shapes = tuple(range(self.rank)), set()
        for sink in sinks:
            if not isinstance(sink, STORES) or not is_tile(sink.pointer):
                return False
            shapes.add(sink.value.type.shape)
            self.tags[sink] = own
            place, value = self.of(sink.pointer, own), self.of(sink.value, own)
            if place.stays or not place.shifts or not value.shifts:
                return False
        shape = shapes.pop() if len(shapes) == 1 else None
        return shape is not None and shape[:-1] == self.nest.outer and shape[-1] > 1

    def of_mask(self, access: Op, part: Value) -> Moved:
        """How a condition in the mask of `access` moves."""
        tags = self.tags.get(access)
        shape = part.type.shape or ()
        if tags is None or len(tags) != len(shape):
            return UNKNOWN
        return self.of(part, tuple(None if extent == 1 else tag for extent, tag in zip(shape, tags, strict=True)))
