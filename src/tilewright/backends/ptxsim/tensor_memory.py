"""The tensor memory of sm_100: 128 rows of 512 words per CTA, and the accesses of threads to it.

    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 128;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%r2 + 0], {%r3, %r4, %r5, %r6};      tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r3, %r4, %r5, %r6}, [%r2 + 0];     tcgen05.wait::ld.sync.aligned;

An address has the row in its upper half and the column in its lower one. Warp i of each four reaches rows 32i to 32i +
31. Loads and stores end when they are waited for: until then the words of a load are in use, and those of a store
pending, as are those that products (`tcgen05.py`) will write. The registers of a load have their values at once,
although PTX promises them only after the wait: ptxas orders their uses, and LLVM relies on that when it moves uses
before the wait. Accesses of different warps must be ordered by barriers, as in shared memory; products of one warp are
in order. Not simulated: `tcgen05.shift`, and loads that reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.accesses import WINDOWS, locate_shared, nothing, store
from tilewright.backends.ptxsim.bulk_copies import one
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Write, command, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.mma import read_warps
from tilewright.backends.ptxsim.shadow import AccessTimes
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Immediate, Instruction, number_of

ROWS, COLUMNS = 128, 512
SMALLEST = 32
"""Columns of the smallest allocation; others are powers of two."""
MEANINGLESS = np.uint32(0xFFFFFFFF)
"""The content of words that nothing has stored, a NaN: reading is no mistake, for kernels do it ahead of conditions."""
_SHAPES = ("32x32b", "16x32bx2", "16x64b", "16x128b", "16x256b")
Words: TypeAlias = tuple[int, Array, Array]
"""Words of tensor memory: CTA, rows and columns."""


@cache
def places(shape: str, repeats: int, split: int) -> tuple[Array, Array]:
    """Row and column of each word, by lane and register, from where the address points.

    `32x32b`: a lane has a row. `16x32bx2`: sixteen lanes have sixteen rows, the others the same rows `split` columns
    further. `16x256b`: as accumulators of `mma.sync`, two words side by side. `16x128b`: one word.
    `16x64b`: the lowest bit of the lane is the upper half of the rows, the next one the column.
    """
    lane, unit = np.ogrid[:WARP, :repeats]
    by_unit = {
        "32x32b": (lane, unit),
        "16x32bx2": (lane % 16, unit + lane // 16 * split),
        "16x64b": (lane // 4 + lane % 2 * 8, unit * 2 + lane // 2 % 2),
    }
    if shape in by_unit:
        row, column = np.broadcast_arrays(*by_unit[shape])
        return row, column
    words = 2 if shape == "16x256b" else 1
    lane, register = np.ogrid[:WARP, : repeats * words * 2]
    within = register % (words * 2)
    row = lane // 4 + within // words * 8
    column = register // (words * 2) * 4 * words + lane % 4 * words + within % words
    return row, column


class TensorMemory:
    """The tensor memory of all CTAs of a machine.

    Attributes:
        words: (CTA, row, column).
        pending: instructions that will still write a word.
        in_use: instructions that still read a word.
        in_order: those of them that the tensor core runs one behind the other: writing (0), and reading (1), a word.
        times: who has read and written each word last.
        owner: the allocation of each column, 0 for none: (CTA, column).
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        ctas = len(machine.ctas)
        self.words = np.full((ctas, ROWS, COLUMNS), MEANINGLESS)
        self.pending = np.zeros((ctas, ROWS, COLUMNS), np.int32)
        self.in_use = np.zeros((ctas, ROWS, COLUMNS), np.int32)
        self.in_order = np.zeros((2, ctas, ROWS, COLUMNS), np.int32)
        self.times = AccessTimes(ctas * ROWS * COLUMNS, machine.clocks)
        self.owner = np.zeros((ctas, COLUMNS), np.int32)
        self.relinquished = np.zeros(ctas, bool)
        self.loads: dict[int, list[Words]] = {}
        self.stores: dict[int, list[Words]] = {}
        self._made = 0
        machine.at_end.append(self._check_freed)

    def allocate(self, cta: int, columns: int, lane: int) -> int:
        """The first column of so many new ones."""
        machine = self.machine
        if columns < SMALLEST or columns > COLUMNS or columns & (columns - 1):
            machine.fail("tensor memory", f"allocations have 32, 64, 128, 256 or 512 columns, not {columns}", lane)
        if self.relinquished[cta]:
            machine.fail("tensor memory", "the CTA has relinquished its right to allocate", lane)
        free = [start for start in range(0, COLUMNS, columns) if not self.owner[cta, start : start + columns].any()]
        if not free:
            machine.fail("deadlock", f"no {columns} columns of tensor memory are free, and nobody frees some", lane)
        self._made += 1
        self.owner[cta, free[0] : free[0] + columns] = self._made
        self.words[cta, :, free[0] : free[0] + columns] = MEANINGLESS
        rows, places = np.ogrid[:ROWS, free[0] : free[0] + columns]
        self.times.forget_all(_units((cta, rows, places)))
        return free[0]

    def free(self, cta: int, start: int, columns: int, lane: int) -> None:
        """The columns of an allocation are free again."""
        owners = self.owner[cta, start : start + columns]
        if not owners.all() or (owners != owners[0]).any() or (self.owner[cta] == owners[0]).sum() != columns:
            self.machine.fail("tensor memory", f"columns {start} to {start + columns - 1} are no allocation", lane)
        flying = self.pending[cta, :, start : start + columns] + self.in_use[cta, :, start : start + columns]
        if flying.any():
            self.machine.fail("race", "columns are freed that an instruction in flight still uses", lane)
        self.owner[cta, start : start + columns] = 0

    def count(self, words: Words, change: int, *, reads: bool) -> None:
        """Instructions that will still read, or write, words have begun or ended."""
        (self.in_use if reads else self.pending)[words] += change

    def count_in_order(self, words: Words, change: int, *, reads: bool) -> None:
        """The tensor core has so many more of the instructions that are counted."""
        self.in_order[(int(reads), *words)] += change

    def note(self, words: Words, warp: int, *, reads: bool, time: int | None = None) -> None:
        """A warp has read, or written, words: now, or who waits for it knows that up to a time."""
        note = self.times.note_read_by_all if reads else self.times.note_write
        note(_units(words), np.array([warp]), time)

    def check(self, words: Words, lane: int, *, reads: bool, in_order: bool = False) -> None:
        """Check that words are allocated, that nothing in flight uses them, and that other warps' accesses are over.

        Args:
            in_order: the access is one of the tensor core, behind what it has in flight.

        Raises:
            SimulationError: they are not, or something does.
        """
        machine, (cta, rows, columns) = self.machine, words
        if int(rows.max()) >= ROWS or int(columns.max()) >= COLUMNS or not self.owner[cta, columns].all():
            machine.fail("out of bounds", "the tensor memory there is not allocated", lane)
        if self._others(words, reads=False, in_order=in_order).any():
            what = "read" if reads else "written"
            machine.fail("race", f"tensor memory is {what} that an instruction in flight will write", lane)
        if not reads and self._others(words, reads=True, in_order=in_order).any():
            machine.fail("race", "tensor memory is written that an instruction in flight still reads", lane)
        if machine.checks:
            self._check_order(words, lane, reads=reads)

    def _others(self, words: Words, *, reads: bool, in_order: bool) -> Array:
        """The instructions in flight that read, or write, each word; for the tensor core, those of others."""
        found = (self.in_use if reads else self.pending)[words]
        return found - self.in_order[(int(reads), *words)] if in_order else found

    def _check_order(self, words: Words, lane: int, *, reads: bool) -> None:
        units = _units(words)
        warps = np.full(len(units), self.machine.warp[lane])
        done = "read" if reads else "written"
        place = self.times.unordered_writes(units, warps)
        if place is not None:
            writer = self.times.writer(int(units[place]))
            text = f"tensor memory is {done} that warp {writer} has written, with no barrier between"
            self.machine.fail("race", text, lane)
        found = None if reads else self.times.unordered_reads(units, warps)
        if found is not None:
            text = f"tensor memory is written that warp {found[1]} has read, with no barrier between"
            self.machine.fail("race", text, lane)

    def _check_freed(self) -> None:
        if self.owner.any():
            cta = int(self.owner.any(axis=1).argmax())
            lane = cta * self.machine.padded
            self.machine.fail("tensor memory", "the CTA ends and has not freed its tensor memory", lane)


def _units(words: Words) -> Array:
    """The numbers of words among those of all CTAs."""
    cta, rows, columns = words
    return np.asarray((cta * ROWS + rows) * COLUMNS + columns).ravel()


def split_address(address: int) -> tuple[int, int]:
    """Row and column."""
    return address >> 16, address & 0xFFFF


def decode_allocate(instruction: Instruction, code: Decoder) -> Run:
    """tcgen05.alloc… [where the address goes], columns; each CTA of a pair allocates, and gets the same columns.

    The address is no store of a thread: an engine that reads the place when it is used otherwise needs no fence for it.
    """
    place, number = instruction.operands
    address, columns = code.address(place), code.source(number, "u32")

    def run(machine: Machine, active: Mask) -> None:
        memory = machine.family(TensorMemory)
        for warp in machine.whole_warps(active):
            lane = int(warp) * WARP
            start = memory.allocate(int(machine.cta[lane]), one(machine, columns, lane), lane)
            place = one(machine, address, lane)
            place -= WINDOWS["shared"] if place >= WINDOWS["shared"] else 0
            store(machine, "shared", np.array([place]), np.array([lane]), 4, [np.array([start], np.uint32)])
            index = locate_shared(machine, np.array([place]), np.array([lane]), 4, "store")
            machine.shared.engine_wrote(index + np.arange(4))

    return run


def decode_free(instruction: Instruction, code: Decoder) -> Run:
    """tcgen05.dealloc… address, columns."""
    address, columns = (code.source(operand, "u32") for operand in instruction.operands)

    def run(machine: Machine, active: Mask) -> None:
        for warp in machine.whole_warps(active):
            lane = int(warp) * WARP
            _, start = split_address(one(machine, address, lane))
            machine.family(TensorMemory).free(int(machine.cta[lane]), start, one(machine, columns, lane), lane)

    return run


def relinquish(machine: Machine, active: Mask) -> None:
    machine.family(TensorMemory).relinquished[np.unique(machine.cta[machine.active_lanes(active)])] = True


@dataclass(frozen=True)
class Form:
    """The words that a load or store moves: rows and columns by lane and register; and whether two share a register."""

    rows: Array
    columns: Array
    packed: bool

    def words(self, machine: Machine, address: int, warp: int, *, reads: bool) -> Words:
        """The words from an address on, of which a load or a store by the warp is under way from now on.

        Raises:
            SimulationError: the warp does not reach those rows, or something else uses them.
        """
        row, column = split_address(address)
        rows, columns = self.rows + row, self.columns + column
        first = warp % machine.warps_per_cta % 4 * WARP
        if int(rows.min()) < first or int(rows.max()) >= first + WARP:
            text = f"rows {int(rows.min())} to {int(rows.max())}; this warp reaches {first} to {first + WARP - 1}"
            machine.fail("out of bounds", f"tensor memory: {text}", warp * WARP)
        words, memory = (int(machine.cta[warp * WARP]), rows, columns), machine.family(TensorMemory)
        memory.check(words, warp * WARP, reads=reads)
        memory.count(words, 1, reads=reads)
        (memory.loads if reads else memory.stores).setdefault(warp, []).append(words)
        return words


def _form(instruction: Instruction, registers: int) -> Form:
    shape = next((part for part in instruction.parts if part in _SHAPES), None)
    if shape is None or instruction.has("red"):
        raise SimulationError("unsupported", "this access to tensor memory is not simulated")
    packed = instruction.has("pack::16b") or instruction.has("unpack::16b")
    repeats = int(next(part for part in instruction.parts if part[0] == "x" and part[1:].isdigit())[1:])
    numbers = [number_of(operand) for operand in instruction.operands if isinstance(operand, Immediate)]
    split = numbers[0] if numbers else 0
    rows, columns = places(shape, repeats, split)
    if rows.shape[1] != registers:
        raise SimulationError("syntax", f"{registers} registers do not fit {shape} {repeats} times")
    if packed:  # each register has two columns, so all other steps are twice as long
        _, without_split = places(shape, repeats, 0)
        columns = columns + without_split
        rows, columns = np.repeat(rows, 2, axis=1), np.repeat(columns, 2, axis=1) + np.arange(2 * registers) % 2
    return Form(rows, columns, packed)


def decode_load(instruction: Instruction, code: Decoder) -> Run:
    """tcgen05.ld… {registers}, [address]."""
    place, *_ = instruction.sources
    writes, address = code.targets(instruction.destination, "b32"), code.address(place)
    form = _form(instruction, len(writes))

    def run(machine: Machine, active: Mask) -> None:
        memory = machine.family(TensorMemory)
        for warp in machine.whole_warps(active).tolist():
            lane = warp * WARP
            words = form.words(machine, one(machine, address, lane), warp, reads=True)
            values = memory.words[words]
            if form.packed:
                values = (values[:, 0::2] & 0xFFFF) | (values[:, 1::2] << 16)
            _write(machine, np.arange(lane, lane + WARP), writes, values)

    return run


def _write(machine: Machine, lanes: Array, writes: Sequence[Write], words: Array) -> None:
    active = np.zeros(machine.lanes, bool)
    active[lanes] = True
    for number, write in enumerate(writes):
        write(machine, active, machine.spread(np.ascontiguousarray(words[:, number]), lanes))


def decode_store(instruction: Instruction, code: Decoder) -> Run:
    """tcgen05.st… [address], {registers}."""
    place, *_, values = instruction.operands
    address = code.address(place)
    reads = [code.source(item, "b32") for item in items_of(values)]
    form = _form(instruction, len(reads))

    def run(machine: Machine, active: Mask) -> None:
        memory = machine.family(TensorMemory)
        for warp in machine.whole_warps(active).tolist():
            words = form.words(machine, one(machine, address, warp * WARP), warp, reads=False)
            values = read_warps(machine, reads, np.array([warp]))[0]
            if form.packed:
                values = np.stack([values & 0xFFFF, values >> 16], axis=-1).reshape(WARP, -1)
            memory.words[words] = values

    return run


def wait(machine: Machine, active: Mask, *, loads: bool) -> None:
    """The end of the loads, or of the stores, that warps have under way."""
    memory = machine.family(TensorMemory)
    for warp in machine.whole_warps(active).tolist():
        for words in (memory.loads if loads else memory.stores).pop(warp, []):
            memory.count(words, -1, reads=loads)
            memory.note(words, warp, reads=loads)


HANDLERS: Handlers = {
    "tcgen05.alloc": decode_allocate,
    "tcgen05.dealloc": decode_free,
    "tcgen05.relinquish_alloc_permit": command(relinquish),
    "tcgen05.ld": decode_load,
    "tcgen05.st": decode_store,
    "tcgen05.wait::ld": command(partial(wait, loads=True)),
    "tcgen05.wait::st": command(partial(wait, loads=False)),
    "tcgen05.fence::before_thread_sync": nothing,
    "tcgen05.fence::after_thread_sync": nothing,
}
