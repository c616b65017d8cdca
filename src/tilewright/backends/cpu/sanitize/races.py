"""Races between programs, found by shadows that record which program accessed an element last.

Each element of an argument that the kernel stores to has two 32-bit stamps: of the last write, and of the first read.
A stamp says program, epoch, access, and (bit 0) that other programs did the same; stamps of earlier launches are less
than `base`. An atomic counts as a write that other atomics may meet. A plain load must not meet another program's
write, a plain store neither its write nor its read, an atomic none of these but for atomics.

Programs that wait for each other with atomics are ordered, and then they may touch the same element. An access of
program P is before what program Q does now if P released afterwards, before Q last acquired, through a lock that Q
knows of. For that each program keeps for each of its epochs (which end with a release) the time when it was released
first and a set of locks; Q keeps the time of its last acquire, and the locks that it acquired, with those that their
earlier holders knew. Locks are told apart by 6 bits of their address, and a program has 4 epochs; beyond that accesses
may count as ordered that are not, never the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.backends.cpu.sanitize import layout
from tilewright.backends.cpu.sanitize.code import NOBODY, Term
from tilewright.backends.cpu.sanitize.places import Place
from tilewright.backends.cpu.sanitize.table import Argument, Table
from tilewright.dialects.traits import Atomic
from tilewright.ir.core import Op
from tilewright.ir.types import i32, i64


class _Met(NamedTuple):
    """Stamps at the elements of an access: where they are another program's, which stamps, and where they lie."""

    others: Term
    stamps: Term
    pointer: Term


class Races:
    """The part of the sanitizer that looks for races.

    Attributes:
        syncs: the kernel has atomics that order memory.
        plain: how many of its accesses are no atomics; they have the lower numbers.
    """

    def __init__(self, table: Table, accesses: Sequence[Op]) -> None:
        self.table, self.code = table, table.code
        atomics = [op for op in accesses if isinstance(op, Atomic)]
        self.plain = len(accesses) - len(atomics)
        self.has_atomics = bool(atomics)
        self.syncs = any(op.sem != "relaxed" for op in atomics)
        self.sites = layout.rounded_sites(len(accesses))
        self.stamps = layout.program_stamps(len(accesses))
        self.mine = table.base + table.program * self.stamps
        self.state = table.sync + (table.program.to(i64) * layout.STATE + layout.STATES) * 8

    # ------------------------------------------------------------------ one access

    def check(self, kind: str, site: int, place: Place, argument: Argument, mask: Term | None, good: Term) -> None:
        """Compare and update the stamps of the elements that an access goes to.

        Args:
            kind: what the access does, such as `load`.
            site: the number of the access.
            place: its addresses.
            argument: a pointer argument that they may belong to.
            mask: an i1 per lane; None: all are on.
            good: an i1, whether all lanes are in bounds.
        """
        code = self.code
        with code.when(good & argument.writers.differs(0)):
            met = [self._met(kind, "writers", place, argument, mask)]
            if kind != "load":
                met.append(self._met(kind, "readers", place, argument, mask))
            if self.syncs:
                self._compare_in_order(kind, site, place, argument, mask, met)
            else:
                self._compare(site, place, met)
            self._update(kind, site, place, argument, mask)
            if self.syncs:
                self._set(layout.DIRTY, 1)

    def _met(self, kind: str, plane: str, place: Place, argument: Argument, mask: Term | None) -> _Met:
        pointer = self._pointer(plane, place, argument)
        stamps = self.code.load(pointer, mask)
        others = self._is_others(stamps)
        if plane == "writers" and kind == "atomic":
            others = others & self._is_plain(stamps)
        elif not self.syncs and (plane == "readers" or self.has_atomics):
            others = (others | (stamps & 1).differs(0)) & stamps.at_least(self.table.base)
        return _Met(others if mask is None else others & mask, stamps, pointer)

    def _pointer(self, plane: str, place: Place, argument: Argument) -> Term:
        address = argument.writers if plane == "writers" else argument.readers
        return place.element(argument.low, address, i32, argument.size)

    def _is_others(self, stamps: Term) -> Term:
        """Whether stamps of this launch are another program's."""
        return (stamps - self.mine).unsigned_at_least(self.stamps) & stamps.at_least(self.table.base)

    def _is_plain(self, stamps: Term) -> Term:
        """Whether stamps are those of plain accesses."""
        return ((stamps - self.table.base) & (2 * self.sites - 1)).at_most(2 * self.plain - 1)

    def _compare(self, site: int, place: Place, met: Sequence[_Met]) -> None:
        found, other = met[0].others, met[0].stamps
        for more in met[1:]:
            other = more.others.choose(more.stamps, other, i32)
            found = found | more.others
        lane = self.code.first(found)
        with self.code.when(lane.differs(NOBODY)):
            self.table.report(site, "races", place, lane, self.code.at_lane(other, lane))

    def _update(self, kind: str, site: int, place: Place, argument: Argument, mask: Term | None) -> None:
        code = self.code
        mine = self.mine + site * 2
        if self.syncs:
            mine = mine + self._get(layout.EPOCH).to(i32) * (2 * self.sites)
        pointer = self._pointer("readers" if kind == "load" else "writers", place, argument)
        if kind == "store":
            code.store(pointer, mine, mask)
            if self.syncs:
                code.store(self._pointer("readers", place, argument), 0, mask)
            return
        stamps = code.load(pointer, mask)
        is_others = self._is_others(stamps)
        is_own = (stamps - self.mine).unsigned_below(self.stamps)
        if kind == "load":
            new = is_others.choose(stamps | 1, is_own.choose((stamps & 1) | mine, mine, i32), i32)
        else:
            again = stamps.at_least(self.table.base).choose(stamps & 1, 0, i32)
            new = (is_others.to(i32) | again) | mine
            new = (is_own & self._is_plain(stamps)).choose(stamps, new, i32)  # a plain write weighs more
        code.store(pointer, new, mask)

    # ------------------------------------------------------------------ order through atomics

    def _compare_in_order(
        self, kind: str, site: int, place: Place, argument: Argument, mask: Term | None, met: Sequence[_Met]
    ) -> None:
        """Compare as `_compare` does, but ordered accesses may overlap. Mostly all stamps are those of one program."""
        code = self.code
        least: Term | None = None
        most: Term | None = None
        for stamps in met:
            low, high = (stamps.others.choose(stamps.stamps, limit, i32) for limit in (NOBODY, 0))
            least = low if least is None else least.least(low)
            most = high if most is None else most.most(high)
        assert least is not None
        assert most is not None
        low, high = least.reduced("arith.minsi"), most.reduced("arith.maxsi")
        with code.when(high.differs(0)):
            is_one = self._epoch_number(low).equals(self._epoch_number(high))
            with code.when((is_one & self._unordered(low).negated).negated):
                again = [self._met(kind, "writers", place, argument, mask)]
                if kind != "load":
                    again.append(self._met(kind, "readers", place, argument, mask))
                self._compare(
                    site, place, [m._replace(others=m.others & self._unordered(m.stamps, m.others)) for m in again]
                )

    def _epoch_number(self, stamps: Term) -> Term:
        """program · EPOCHS + epoch."""
        return (stamps - self.table.base).shifted_down(self.sites.bit_length())

    def _unordered(self, stamps: Term, mask: Term | None = None) -> Term:
        """Whether the accesses that left the stamps are unordered with what this program does now."""
        code = self.code
        number = self._epoch_number(stamps)
        program, epoch = number.shifted_down(layout.EPOCHS.bit_length() - 1), number & (layout.EPOCHS - 1)
        word = program.to(i64) * layout.STATE + epoch.to(i64)
        states = code.pointer(self.table.sync + layout.STATES * 8, i64)
        released = code.load(states.plus_elements(word + layout.RELEASED), mask)
        through = code.load(states.plus_elements(word + layout.THROUGH), mask)
        in_time = released.differs(0) & released.at_most(self._get(layout.ACQUIRED))
        return (in_time & (through & self._get(layout.KNOWN)).differs(0)).negated

    def order(self, op: Atomic, place: Place, mask: Term | None) -> None:
        """Emit the effect of an atomic on the order of this program and others."""
        sem = op.sem
        if sem == "relaxed":
            return
        code = self.code
        lock = place.addresses.shifted_down(place.size.bit_length() - 1) & (layout.LOCKS - 1)
        bit = code.number(1, lock.type).shifted_up(lock)
        locks = (bit if mask is None else mask.choose(bit, 0, i64)).reduced("arith.ori")
        known_by = code.pointer(self.table.sync + layout.KNOWN_BY_LOCK * 8, i64)
        used: Term | None = None
        if lock.type.shape:
            every = code.range(layout.LOCKS).to(i64)
            known_by = known_by.plus_elements(every)
            used = (locks.like_shape(every).shifted_down_unsigned(every) & 1).differs(0)
        else:
            known_by = known_by.plus_elements(lock)
        if sem in ("release", "acq_rel"):
            self._release(locks, known_by, used)
        code.move_after(op)
        if sem in ("acquire", "acq_rel"):
            known = code.load(known_by, used).reduced("arith.ori") | locks
            self._set(layout.ACQUIRED, code.load(code.pointer(self.table.sync, i64)))
            self._set(layout.KNOWN, self._get(layout.KNOWN) | known)

    def _release(self, locks: Term, known_by: Term, used: Term | None) -> None:
        code = self.code
        with code.when(self._get(layout.DIRTY).differs(0)):
            clock = code.pointer(self.table.sync + layout.CLOCK * 8, i64)
            now = code.atomic("add", clock, code.number(1, i64)) + 1
            epoch = self._get(layout.EPOCH)
            times = code.pointer(self.state + layout.RELEASED * 8, i64).plus_elements(epoch)
            before = code.load(times)
            code.store(times, before.equals(0).choose(now, before, i64))
            self._set(layout.EPOCH, (epoch + 1).least(layout.EPOCHS - 1))
            self._set(layout.DIRTY, 0)
        for number in range(layout.EPOCHS):
            ended = self._get(layout.RELEASED + number).differs(0)
            through = self._get(layout.THROUGH + number)
            self._set(layout.THROUGH + number, ended.choose(through | locks, through, i64))
        known = self._get(layout.KNOWN).like_shape(known_by)
        is_new = (code.load(known_by, used) & known).differs(known)  # who waits asks often, and should not write
        is_new = is_new if used is None else is_new & used
        with code.when(is_new.to(i32).reduced("arith.maxsi").differs(0)):
            code.atomic("or", known_by, known, used)

    def _get(self, word: int) -> Term:
        """A word of this program's state."""
        return self.code.load(self.code.pointer(self.state + word * 8, i64))

    def _set(self, word: int, value: Term | int) -> None:
        self.code.store(self.code.pointer(self.state + word * 8, i64), value)
