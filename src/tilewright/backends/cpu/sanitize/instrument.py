"""Kernels that check their own accesses: TTIR → TTIR, before anything becomes a loop.

    %x = tt.load %p, %m        →        %lane = the first lane of %m whose address is in no argument
                                        scf.if %lane != none { report }
                                        scf.if %x has a shadow { compare and update it }
                                        %x = tt.load %p, %m & %lane == none

Checks are made of ordinary tile ops, so they become vector loops like everything else. The kernel gets one more
argument, a table with the extents of its arguments and the addresses of shadows and reports (`layout.py`); the runtime
fills it and reads the reports after the launch (`runtime/sanitizer.py`). An access that would leave its argument is not
executed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

from tilewright.analysis.value_flow import pointer_origins
from tilewright.backends.cpu.sanitize.code import NOBODY, Code, Term
from tilewright.backends.cpu.sanitize.intervals import interval_of_place
from tilewright.backends.cpu.sanitize.places import place_of
from tilewright.backends.cpu.sanitize.races import Races
from tilewright.backends.cpu.sanitize.table import Argument, Table
from tilewright.dialects.traits import Atomic
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store, pointee_type
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Op, Value
from tilewright.ir.types import FunctionType, PointerType, Type, i1, i8, i64, with_element
from tilewright.transforms.functions import functions_of, is_public

Access: TypeAlias = Load | Store | AtomicCas | AtomicRmw


def instrument(module: Op, checks: Sequence[str]) -> str:
    """Let the kernel of `module` check its accesses.

    Args:
        module: TTIR without calls.
        checks: of `options.CHECKS`.

    Returns: what the runtime needs to explain reports, as JSON: see `Facts`.
    """
    function = next(function for function in functions_of(module) if is_public(function))
    return json.dumps(_Instrument(function, checks).run()._asdict())


class Site(NamedTuple):
    """One access of the kernel.

    Attributes:
        kind: `load`, `store` or `atomic`.
        shape: of its tile.
        size: bytes per element.
        places: file, line, column, end line, end column of the access, of the call that led to it, …
        arguments: which pointer arguments it may go to.
    """

    kind: str
    shape: tuple[int, ...]
    size: int
    places: list[tuple[str, int, int, int, int]]
    arguments: list[int]


class Facts(NamedTuple):
    """Facts about a sanitised kernel that the runtime needs.

    Attributes:
        checks: the checks that it makes.
        sites: its accesses.
        sizes: bytes per element of each pointer argument; None for the other arguments.
        stored: which pointer arguments it may store to.
        syncs: it has atomics that order memory.
    """

    checks: Sequence[str]
    sites: list[Site]
    sizes: list[int | None]
    stored: list[int]
    syncs: bool


class _Instrument:
    """The pass on one kernel."""

    def __init__(self, function: Func, checks: Sequence[str]) -> None:
        self.function = function
        self.checks = checks
        self.origins = pointer_origins(function)
        found = [op for op in function.walk() if isinstance(op, Access)]
        self.accesses = sorted(found, key=lambda op: isinstance(op, Atomic))  # as `Races.plain` wants them
        self.inputs = list(function.body.args)

    def run(self) -> Facts:
        sites = [self._site(op) for op in self.accesses]
        code = Code(self.function.body)
        pointers = {arg.index: _size(arg.type) for arg in self.inputs if isinstance(arg.type, PointerType)}
        table = Table(code, self._table_argument(), pointers, self.checks)
        races = Races(table, self.accesses) if "races" in self.checks else None
        for number, (op, site) in enumerate(zip(self.accesses, sites, strict=True)):
            _Checks(op, number, table, self.checks, [table.arguments[i] for i in site.arguments]).add(races)
        stored = {i for site in sites if site.kind != "load" for i in site.arguments}
        sizes = [pointers.get(arg.index) for arg in self.inputs]
        return Facts(self.checks, sites, sizes, sorted(stored), races is not None and races.syncs)

    def _site(self, op: Access) -> Site:
        pointer = op.pointer
        origins = self.origins.get(pointer) or {a.index for a in self.inputs if isinstance(a.type, PointerType)}
        chain = [
            (place.file, place.line, place.column, place.end_line, place.end_column)
            for place in span_of(op.location).chain()
        ]
        return Site(_kind_of(op), pointer.type.shape or (), _size(pointer.type), chain, sorted(origins))

    def _table_argument(self) -> Value:
        function, added = self.function, PointerType(i64)
        inputs, outputs, details = function.type.inputs, function.type.outputs, function.argument_attributes
        function.type = FunctionType((*inputs, added), outputs)
        if "arg_attrs" in function.attributes:
            function.argument_attributes = [*details, {}]
        return function.body.add_argument(added, "sanitizer")


def _size(pointers: Type) -> int:
    """Bytes per element of what they point at."""
    return max(8, pointee_type(pointers.scalar).bits) // 8


def _kind_of(op: Access) -> str:
    return "load" if isinstance(op, Load) else "store" if isinstance(op, Store) else "atomic"


def _mask_of(op: Access) -> Value | None:
    return None if isinstance(op, AtomicCas) else op.mask


class _Checks:
    """The checks of one access."""

    def __init__(
        self, op: Access, number: int, table: Table, checks: Sequence[str], arguments: Sequence[Argument]
    ) -> None:
        self.op, self.number, self.table, self.checks, self.arguments = op, number, table, checks, arguments
        self.kind = _kind_of(op)
        self.code = table.code
        self.code.move_before(op)
        mask = _mask_of(op)
        self.mask = None if mask is None else self.code.of(mask)
        self.place = place_of(self.code, op.pointer)

    def add(self, races: Races | None) -> None:
        insides = [self._inside(argument) for argument in self.arguments]
        lane = self._first_outside(insides)
        good = lane.equals(NOBODY)
        if "bounds" in self.checks:
            with self.code.when(good.negated):
                self.table.report(self.number, "bounds", self.place, lane)
        for argument, inside in zip(self.arguments, insides, strict=True):
            mask = self.mask if len(insides) == 1 else _both(inside, self.mask)
            if races is not None and self.place.size >= argument.size:
                races.check(self.kind, self.number, self.place, argument, mask, good)
            if "uninit" in self.checks and self.place.size >= argument.size:
                self._check_written(argument, mask, good)
        if "bounds" in self.checks:
            self._guard(good)
        if races is not None and isinstance(self.op, Atomic):
            races.order(self.op, self.place, self.mask)

    def _first_outside(self, insides: Sequence[Term]) -> Term:
        """The first lane that is in no argument. Mostly the ends of the tile show that there is none."""

        def search() -> Term:
            return self.code.first(_both(self._in_any(insides).negated, self.mask))

        ends = interval_of_place(self.place) if insides and self.place.elements.type.shape else None
        if ends is None:
            return search()
        inside = [ends.within(argument.low, argument.bytes) for argument in self.arguments]
        return self.code.number_unless(self._in_any(inside), NOBODY, search)

    def _in_any(self, conditions: Sequence[Term]) -> Term:
        """Whether one of the conditions holds. None does where there is no argument."""
        if not conditions:
            return self.code.number(0, with_element(self.place.elements.type, i1))
        return reduce(or_, conditions)

    def _inside(self, argument: Argument) -> Term:
        """Whether each lane lies in the argument."""
        limit = (argument.bytes - (self.place.size - 1)).most(0)
        return self.place.offset(argument.low).unsigned_below(limit)

    def _check_written(self, argument: Argument, mask: Term | None, good: Term) -> None:
        with self.code.when(good & argument.written.differs(0)):
            shadow = self.place.element(argument.low, argument.written, i8, argument.size)
            if self.kind != "store":
                lane = self.code.first(_both(self.code.load(shadow, mask).equals(0), mask))
                with self.code.when(lane.differs(NOBODY)):
                    self.table.report(self.number, "uninit", self.place, lane)
            if self.kind != "load":
                self.code.store(shadow, 1, mask)

    def _guard(self, good: Term) -> None:
        """Make the access only when it is good."""
        op, code = self.op, self.code
        pointer = code.of(op.pointer)
        if isinstance(op, AtomicCas):
            waste = code.pointer(self.table.waste, pointee_type(op.pointer.type.scalar))
            op.pointer = good.like_shape(pointer).choose(pointer, waste, pointer.type.scalar).value
            return
        good = good.like_shape(pointer)
        op.mask = (good if self.mask is None else self.mask & good).value


def _both(condition: Term, mask: Term | None) -> Term:
    return condition if mask is None else condition & mask
