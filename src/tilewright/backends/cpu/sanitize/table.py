"""The table that a sanitized kernel receives, read once per program, and the reports that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tilewright.backends.cpu.options import CHECKS
from tilewright.backends.cpu.sanitize import layout
from tilewright.backends.cpu.sanitize.code import Code, Term
from tilewright.backends.cpu.sanitize.places import Place
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Value
from tilewright.ir.types import i32, i64


class Argument(NamedTuple):
    """A pointer argument: its extent, the addresses of its shadows, bytes per element."""

    low: Term
    bytes: Term
    writers: Term
    readers: Term
    written: Term
    size: int


class Table:
    """The words of the table, as values at the start of the kernel.

    Attributes:
        code: the place where ops are inserted.
        arguments: by the number of the argument.
        program: the number of the program in the grid, x running fastest; i32.
        base: the least stamp of this launch; i32.
        reports, sync, waste: addresses.
    """

    def __init__(self, code: Code, table: Value, sizes: Mapping[int, int], checks: Sequence[str]) -> None:
        self.code = code
        self._pointer = code.of(table)
        self._unused = code.number(0, i64)
        self.base = self._word(layout.BASE).to(i32)
        self.reports, self.sync, self.waste = map(self._word, (layout.REPORTS, layout.SYNC, layout.WASTE))
        self.arguments = {}
        for position, (number, size) in enumerate(sizes.items()):
            first = layout.HEADER + position * layout.ARGUMENT
            self.arguments[number] = Argument(
                low=self._word(first + layout.LOW),
                bytes=self._word(first + layout.BYTES),
                writers=self._word(first + layout.WRITERS, used="races" in checks),
                readers=self._word(first + layout.READERS, used="races" in checks),
                written=self._word(first + layout.WRITTEN, used="uninit" in checks),
                size=size,
            )
        self.program = self._program()

    def _word(self, number: int, *, used: bool = True) -> Term:
        return self.code.load(self._pointer.plus_elements(number)) if used else self._unused

    def _program(self) -> Term:
        x, y, z = (self._axis("tt.get_program_id", axis) for axis in "xyz")
        width, height = (self._axis("tt.get_num_programs", axis) for axis in "xy")
        return x + width * (y + height * z)

    def _axis(self, name: str, axis: str) -> Term:
        return self.code.emit(name, (), i32, {"axis": Keyword(axis)})

    def report(self, site: int, check: str, place: Place, lane: Term, other: Term | int = 0) -> None:
        """Note that a check failed, first at `lane`; the first few times with all that is known.

        Args:
            site: the number of the access.
            check: the name of the check.
            place: the addresses of the access.
            lane: the number of the first lane that failed.
            other: a number that the check adds, such as the stamp of the access that races with it.
        """
        code = self.code
        number = site * len(CHECKS) + CHECKS.index(check)
        record = code.pointer(self.reports + number * layout.CHECK * 8, i64)
        count = code.atomic("add", record, code.number(1, i64))
        with code.when(count.unsigned_below(layout.SLOTS)):
            first = record.plus_elements(count * layout.RECORD + 1)
            fields: dict[int, Term | int] = {
                layout.PROGRAM: self.program.to(i64),
                layout.LANE: lane.to(i64),
                layout.ADDRESS: code.at_lane(place.addresses, lane),
                layout.OTHER: other if isinstance(other, int) else other.to(i64),
            }
            for field, value in fields.items():
                code.store(first.plus_elements(field), value)
