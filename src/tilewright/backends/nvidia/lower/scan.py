"""`tt.scan`: each thread scans its registers, then lanes scan the totals, then warps theirs.

%c = "tt.scan"(%x) <{axis = 0, reverse = false}> ({ … arith.addf … }) : tensor<1024xf32, #blocked>

The bits of an index along the axis belong to registers, lanes, warps, and again registers, in this order for most
layouts; each such group of bits is a run. The next run scans the totals of each run. Its result is the carry into each
part, which is combined with each element once; the first part has none. Shuffles go to neighbours at distances 1, 2, 4,
…. A reverse scan is the same with all orders reversed, so it takes as many instructions.

Rows are computed on demand, in the order of the results: a total of another warp is read when a result needs it, so
that few are in registers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from tilewright.analysis.reduction_plan import Run, axis_runs
from tilewright.backends.nvidia.lower.access_plan import combinations, plan_of
from tilewright.backends.nvidia.lower.cross_lane import Combination, Row, mapped
from tilewright.backends.nvidia.lower.lowerer import WARP, Lowerer, Lowering, scratch_offset
from tilewright.backends.nvidia.lower.memory import both
from tilewright.backends.nvidia.lower.reshapes import elements_of, first_registers
from tilewright.backends.nvidia.lower.shared_tiles import (
    BYTE,
    Bytes,
    LoadedOnDemand,
    memory_bits,
    side_by_side,
    store_tile,
)
from tilewright.dialects import tt_reduce
from tilewright.layouts.linear_layout import LinearLayout


class ScanMemory:
    """The places of totals, in elements.

    Args:
        layout: of the tile.
        run: the bits of the warp along the axis.
        registers: masks of the bits of the register that number this thread's rows.
        lanes, warps: bits of lanes and warps that share a row.

    Attributes:
        store: from register (of a row), lane and warp to the offset of its total.
        load: the same, but the lowest bits of the register are those of the warp along the axis.
        size: how many elements there are.
    """

    def __init__(
        self, layout: LinearLayout, run: Run, registers: Sequence[int], *, lanes: int = 0, warps: int = 0
    ) -> None:
        places = _powers_from(len(run.masks))
        own = tuple(1 << bit for bit in range(len(run.masks)))
        lane_places = self._numbered(layout.columns["lane"], lanes, places)
        warp_places = self._numbered(layout.columns["warp"], warps | sum(run.masks), places)
        rows = tuple(next(places) for _ in registers)
        self.size = next(places)
        stored = list(warp_places)
        for place, mask in zip(own, run.masks, strict=True):
            stored[mask.bit_length() - 1] = place
        self.store = self._offsets(rows, lane_places, stored)
        self.load = self._offsets((*own, *rows), lane_places, warp_places)

    @staticmethod
    def _numbered(columns: Sequence[int], shared: int, places: Iterator[int]) -> list[int]:
        """A place for each bit that leads to other rows."""
        return [next(places) if column and not shared >> bit & 1 else 0 for bit, column in enumerate(columns)]

    def _offsets(self, registers: Sequence[int], lanes: Sequence[int], warps: Sequence[int]) -> LinearLayout:
        columns = {"register": tuple(registers), "lane": tuple(lanes), "warp": tuple(warps), "block": ()}
        return LinearLayout(columns, (("offset", self.size),))


def _powers_from(first: int) -> Iterator[int]:
    """The powers of two from bit `first` on."""
    bit = first
    while True:
        yield 1 << bit
        bit += 1


Rows: TypeAlias = Mapping[int, Row]
"""Per register a row."""
T = TypeVar("T")


class OnDemand(Mapping[int, T]):
    """Something per register; `compute` writes what is asked for, once."""

    def __init__(self, registers: Iterable[int], compute: Callable[[int], T]) -> None:
        self._registers, self._compute = list(registers), compute
        self._found: dict[int, T] = {}

    def __getitem__(self, register: int) -> T:
        if register not in self._found:
            self._found[register] = self._compute(register)
        return self._found[register]

    def __iter__(self) -> Iterator[int]:
        return iter(self._registers)

    def __len__(self) -> int:
        return len(self._registers)


class Carry(NamedTuple):
    """The combined elements before a row or run.

    Attributes:
        row: everything before it, combined; None: there is nothing.
        exists: an i1, false in threads where there is nothing; "": it is there in every thread.
    """

    row: Row | None
    exists: str = ""


NOTHING = Carry(None)


class Scanned(NamedTuple):
    """The results of a run.

    Attributes:
        through: per register everything up to the end of it.
        before: per register everything before it.
    """

    through: Rows
    before: Mapping[int, Carry]


def scan(lowerer: Lowerer, op: tt_reduce.Scan) -> None:
    """Combine each element with all before it along an axis, or with all behind it."""
    first, *_ = op.sources
    layout = lowerer.layout(first)
    scan = Scan(lowerer, op, layout)
    rows = scan.combine.rows()
    distinct = first_registers(layout)
    kept = {register: rows[register] for register in sorted(distinct.values())}
    found = scan.through(0, kept) if scan.runs else kept
    scan.combine.bind([found[distinct[element]] for element in elements_of(layout)])


class Scan:
    """One scan being written.

    Attributes:
        runs: which inputs of the layout number the elements along the axis.
        is_reverse: what is behind an element comes before it.
    """

    def __init__(self, lowerer: Lowerer, op: tt_reduce.Scan, layout: LinearLayout) -> None:
        self.lowerer, self.w, self.op, self.layout = lowerer, lowerer.w, op, layout
        self.combine = Combination(lowerer, op)
        self.is_reverse = op.reverse
        self.runs = axis_runs(layout, op.axis)
        self._conditions: dict[tuple[Run, int], str] = {}
        self._has_exchanged = False

    def through(self, level: int, rows: Rows) -> Rows:
        """Per register everything up to the end of it; `level` is the run whose elements the rows are."""
        return self._run(level, rows, needs_before=False).through

    def _run(self, level: int, rows: Rows, *, needs_before: bool) -> Scanned:
        run = self.runs[level]
        return {"register": self._registers, "lane": self._lanes, "warp": self._warps}[run.name](
            level, rows, needs_before
        )

    def _above(self, level: int, totals: Rows, *, needs_through: bool) -> Scanned:
        """The results of the runs above for the totals of this one."""
        if level + 1 < len(self.runs):
            return self._run(level + 1, totals, needs_before=True)
        return Scanned(totals if needs_through else {}, dict.fromkeys(totals, NOTHING))

    # ---- registers ----

    def _registers(self, level: int, rows: Rows, needs_before: bool) -> Scanned:
        mask = sum(self.runs[level].masks)
        steps = self._ordered(combinations(self.runs[level].masks))
        earlier = dict(zip(steps[1:], steps, strict=False))

        def previous(register: int) -> int:
            return register & ~mask | earlier[register & mask]

        def through(register: int) -> Row:
            first, step = register & ~mask, register & mask
            return above.through[first] if step == steps[-1] else self._carried(above.before[first], inside[register])

        def before(register: int) -> Carry:
            is_first = register & mask == steps[0]
            return above.before[register & ~mask] if is_first else Carry(found.through[previous(register)])

        def combined(register: int) -> Row:
            if register & mask == steps[0]:
                return rows[register]
            return self.combine(inside[previous(register)], rows[register])

        inside = OnDemand(rows, combined)
        firsts = [register for register in rows if not register & mask]
        totals = OnDemand(firsts, lambda first: inside[first | steps[-1]])
        above = self._above(level, totals, needs_through=True)
        found = Scanned(OnDemand(rows, through), OnDemand(rows, before))
        return found

    def _ordered(self, values: Sequence[int]) -> list[int]:
        """The values in the order of the scan."""
        return list(reversed(values)) if self.is_reverse else list(values)

    def _carried(self, carry: Carry, row: Row) -> Row:
        """The row with what comes before it."""
        if carry.row is None:
            return row
        found = self.combine(carry.row, row)
        return self.combine.choose(carry.exists, found, row) if carry.exists else found

    # ---- lanes ----

    def _lanes(self, level: int, rows: Rows, needs_before: bool) -> Scanned:
        run = self.runs[level]

        def before(register: int) -> Carry:
            neighbour = self._neighbour(run, through[register], 1)
            return self._either(self._has_neighbour(run, 1), neighbour, above.before[register])

        inside = OnDemand(rows, lambda register: self._warp_scan(run, rows[register]))
        above = self._above(level, self._totals(level, inside), needs_through=False)
        through = OnDemand(rows, lambda register: self._carried(above.before[register], inside[register]))
        return Scanned(through, OnDemand(rows, before))

    def _warp_scan(self, run: Run, row: Row) -> Row:
        distance = 1
        while distance < 1 << len(run.masks):
            before = self.combine(self._neighbour(run, row, distance), row)
            row = self.combine.choose(self._has_neighbour(run, distance), before, row)
            distance *= 2
        return row

    def _totals(self, level: int, inside: Rows) -> Rows:
        """The totals, which the last lanes have; warps take them from there, others get them from there."""
        if level + 1 == len(self.runs) or self.runs[level + 1].name == "warp":
            return inside
        mask = sum(self.runs[level].masks)
        opcode, operand = ("and", ~mask) if self.is_reverse else ("or", mask)
        last = self.w.emit(f"{opcode} i32 {self.lowerer.lane()}, {operand}")
        return OnDemand(inside, lambda register: self.combine.shuffled(inside[register], "idx", last))

    def _either(self, condition: str, row: Row, carry: Carry) -> Carry:
        """`row` on the condition, otherwise the carry."""
        if carry.row is None:
            return Carry(row, condition)
        exists = self.w.emit(f"or i1 {condition}, {carry.exists}") if carry.exists else ""
        return Carry(self.combine.choose(condition, row, carry.row), exists)

    def _neighbour(self, run: Run, row: Row, distance: int) -> Row:
        """The row of the lane that comes so many places before; anything where there is none."""
        stride = run.masks[0]
        if run.masks == tuple(stride << bit for bit in range(len(run.masks))):
            return self.combine.shuffled(row, "down" if self.is_reverse else "up", distance * stride)
        place = self.w.emit(f"{'add' if self.is_reverse else 'sub'} i32 {self._place(run)}, {distance}")
        others = self.w.emit(f"and i32 {self.lowerer.lane()}, {WARP - 1 - sum(run.masks)}")
        return self.combine.shuffled(
            row, "idx", self.w.emit(f"or i32 {others}, {mapped(self.lowerer, place, run.masks)}")
        )

    def _has_neighbour(self, run: Run, distance: int) -> str:
        """Whether so many come before this lane or warp."""
        if (run, distance) not in self._conditions:
            place, count = self._place(run), 1 << len(run.masks)
            test = f"ult i32 {place}, {count - distance}" if self.is_reverse else f"uge i32 {place}, {distance}"
            self._conditions[run, distance] = self.w.emit(f"icmp {test}")
        return self._conditions[run, distance]

    def _place(self, run: Run) -> str:
        """The number of this lane or warp along the axis."""
        columns = [0] * len(self.layout.columns[run.name])
        for bit, mask in enumerate(run.masks):
            columns[mask.bit_length() - 1] = 1 << bit
        return self.lowerer.linear({run.name: columns})

    # ---- warps ----

    def _warps(self, level: int, rows: Rows, needs_before: bool) -> Scanned:
        run = self.runs[level]

        def before(register: int) -> Carry:
            carry, (found, *prefixes) = above.before[register], inside[register][:-1]
            for distance, prefix in enumerate(prefixes, 2):
                found = self.combine.choose(self._has_neighbour(run, distance), prefix, found)
            return self._either(self._has_neighbour(run, 1), self._carried(carry, found), carry)

        parts = self._exchanged(level, rows)
        inside = OnDemand(rows, lambda register: self._prefixes(parts[register]))
        totals = OnDemand(rows, lambda register: inside[register][-1])
        above = self._above(level, totals, needs_through=False)
        carries = OnDemand(rows, before)
        through = OnDemand(rows, lambda register: self._carried(carries[register], rows[register]))
        return Scanned(through, carries)

    def _prefixes(self, parts: Sequence[Row]) -> list[Row]:
        found = [parts[0]]
        for part in parts[1:]:
            found.append(self.combine(found[-1], part))
        return found

    def _exchanged(self, level: int, rows: Rows) -> Mapping[int, list[Row]]:
        """Per register the rows of all warps, in order."""
        lanes, seen = self._below(level, "lane"), self._below(level, "warp")
        registers = list(rows)
        bits = [register for register in registers if register.bit_count() == 1]
        memory = ScanMemory(self.layout, self.runs[level], bits, lanes=lanes, warps=seen)
        in_order = [rows[register] for register in combinations(bits)]
        base = scratch_offset(self.op)
        places = side_by_side(self.combine.elements, base, lambda bits: memory.size * bits // BYTE)
        if self._has_exchanged:
            self.lowerer.barrier()
        self._has_exchanged = True
        self._store(memory, in_order, self._holds_total(lanes, seen), places)
        self.lowerer.barrier()
        columns = [
            LoadedOnDemand(self.lowerer, element, plan_of(memory.load, memory_bits(element)), place)
            for element, place in zip(self.combine.elements, places, strict=True)
        ]
        count, numbers = 1 << len(self.runs[level].masks), {r: at for at, r in enumerate(combinations(bits))}

        def parts(register: int) -> list[Row]:
            first = count * numbers[register]
            found = [[column[first + warp] for column in columns] for warp in range(count)]
            return found[::-1] if self.is_reverse else found

        return OnDemand(registers, parts)

    def _below(self, level: int, name: str) -> int:
        """The bits of lanes or warps that share a total."""
        return sum(mask for run in self.runs[:level] if run.name == name for mask in run.masks)

    def _store(self, memory: ScanMemory, rows: Sequence[Row], condition: str | None, places: Sequence[Bytes]) -> None:
        with self.lowerer.where(condition):
            for element, values, place in zip(self.combine.elements, zip(*rows, strict=True), places, strict=True):
                store_tile(self.lowerer, values, element, plan_of(memory.store, memory_bits(element)), place)

    def _holds_total(self, lanes: int, warps: int) -> str | None:
        """Whether to leave this thread's totals: the last lanes have them, and of copies one is enough."""
        free = self.layout.free_masks()
        looked_at, wanted = lanes | free["lane"], 0 if self.is_reverse else lanes
        condition = self._equals(self.lowerer.lane(), looked_at, wanted) if looked_at else None
        if warps | free["warp"]:
            condition = both(self.lowerer, condition, self._equals(self.lowerer.warp(), warps | free["warp"], 0))
        return condition

    def _equals(self, value: str, mask: int, wanted: int) -> str:
        return self.w.emit(f"icmp eq i32 {self.w.emit(f'and i32 {value}, {mask}')}, {wanted}")


LOWERINGS: dict[str, Lowering] = {"tt.scan": scan}
