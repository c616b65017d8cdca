"""Asynchronous matrix products of a warp group.

    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {d…}, %rd1, %rd2, 1, 1, 1, 0, 1;
    wgmma.commit_group.sync.aligned;      wgmma.wait_group.sync.aligned 0;

The result is computed when the product is issued, from the current contents of its operands. Until a wait covers it,
the operands in shared memory are in use, and the registers of the accumulator hold a poison pattern: a read before the
wait shows in the results, and stores to the registers are lost. A product that continues with the same accumulator
finds the sums of the one before.

A product sees values that threads stored to its registers only after a `wgmma.fence`; without one it also overwrites
sums that threads may still be reading. Registers are unfenced at first, and again when another instruction stores to
them or, if they are accumulators, reads them. Plain moves do not count: compilers put them anywhere, and ptxas
coalesces both registers. Not simulated: sparse products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.accesses import engine_has_read, engine_reads
from tilewright.backends.ptxsim.code import Run, Step
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read, Write, command, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.matrix_descriptors import WGMMA_SWIZZLES, byte_addresses, read_descriptor
from tilewright.backends.ptxsim.mma import (
    accumulator,
    by_warp,
    extents_of,
    finish,
    first_operand,
    fragment_values,
    gather,
    multiply,
    read_warps,
    spread,
)
from tilewright.backends.ptxsim.value_types import WIDTHS, Array, Mask, read_elements
from tilewright.support.ptx_syntax import Immediate, Instruction, Operand, Register, Vector, number_of

GROUP = 4
"""Warps of a warp group."""
ROWS = 64
MEANINGLESS = np.uint32(0x7FDEAD00)
"""The content of an accumulator's registers while a product is in flight: NaNs."""

Accumulator: TypeAlias = tuple[int, tuple[str, ...]]
"""The first warp of the group, and the registers."""


@dataclass
class Sums:
    """An accumulator in flight.

    Attributes:
        words: (warp, lane, register), what the registers will hold.
        products: the number of products still in flight.
        writes: of the registers.
        registers: their numbers.
    """

    words: Array
    products: int
    writes: Sequence[Write]
    registers: Sequence[int]


@dataclass
class Product:
    """A product in flight: its accumulator, and the bytes of shared memory that it reads."""

    accumulator: Accumulator
    operands: list[Array]


class WarpGroupProducts:
    """The products in flight of all warp groups, by the first warp."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.open: dict[int, list[Product]] = {}
        self.committed: dict[int, list[list[Product]]] = {}
        self.sums: dict[Accumulator, Sums] = {}
        self._fenced = {register: np.zeros(machine.warps, bool) for register in machine.followed}
        machine.follow = self._touch

    def fence(self, first: int) -> None:
        """Writes of the group to registers come before its next products."""
        for fenced in self._fenced.values():
            fenced[first : first + GROUP] = True

    def _touch(self, step: Step, doing: Mask) -> None:
        """Note that an instruction other than a product does something to registers of products.

        Raises:
            SimulationError: it reads the sums of a product in flight.
        """
        if step.instruction.opcode in ("wgmma", "mov"):
            return
        read = step.uses.reads & self.machine.code.accumulators
        if read and self.sums:
            self._refuse_early(read, doing)
        warps = slice(None) if doing is None else doing.reshape(-1, WARP).any(axis=1)
        for register in (step.uses.writes | read) & self.machine.followed:
            self._fenced[register][warps] = False

    def _refuse_early(self, read: set[int], doing: Mask) -> None:
        """Refuse to read sums of products in flight."""
        for (first, _), sums in self.sums.items():
            lane = first * WARP
            group = slice(lane, lane + GROUP * WARP)
            if not read.isdisjoint(sums.registers) and (doing is None or doing[group].any()):
                text = "the sums of a product are read, and no wgmma.wait_group has waited for it"
                self.machine.fail("race", text, lane if doing is None else lane + int(doing[group].argmax()))

    def check_fenced(self, first: int, registers: Sequence[int]) -> None:
        """Refuse a product on registers that the group has used since its last fence."""
        for register in registers:
            fenced = self._fenced.get(register)
            if fenced is not None and not fenced[first : first + GROUP].all():
                lane = (first + int(fenced[first : first + GROUP].argmin())) * WARP
                text = "a product takes registers that the warp has used, with no wgmma.fence in between"
                self.machine.fail("race", text, lane)

    def current(self, key: Accumulator) -> Array | None:
        """The sums of a product in flight on the same registers; None if there is none.

        Raises:
            SimulationError: a product in flight uses some of the registers, and not as this one.
        """
        found = self.sums.get(key)
        if found is None:
            for first, names in self.sums:
                if first == key[0] and not set(names).isdisjoint(key[1]):
                    text = "a product in flight has some of the registers in another accumulator"
                    self.machine.fail("race", text, first * WARP)
        return None if found is None else found.words

    def issue(self, product: Product, words: Array, writes: Sequence[Write], registers: Sequence[int]) -> None:
        """A product is under way; `words` are the sums it will leave in these registers."""
        key = product.accumulator
        self.open.setdefault(key[0], []).append(product)
        found = self.sums.get(key)
        if found is None:
            self.sums[key] = Sums(words, 1, writes, registers)
            self._write(key[0], writes, np.full(words.shape, MEANINGLESS))
        else:
            found.words, found.products, found.writes = words, found.products + 1, writes

    def wait(self, first: int, kept: int) -> None:
        """All but the newest groups of products have come to their end."""
        groups = self.committed.get(first, [])
        while len(groups) > kept:
            for product in groups.pop(0):
                self._end(product)

    def _end(self, product: Product) -> None:
        first = product.accumulator[0]
        for index in product.operands:
            engine_has_read(self.machine, index, np.arange(first, first + GROUP))
        found = self.sums[product.accumulator]
        found.products -= 1
        if not found.products:
            del self.sums[product.accumulator]
            self._write(first, found.writes, found.words)

    def _write(self, first: int, writes: Sequence[Write], words: Array) -> None:
        machine = self.machine
        whole = machine.warps == GROUP
        active = None if whole else (machine.warp >= first) & (machine.warp < first + GROUP)
        for number, write in enumerate(writes):
            column = np.ascontiguousarray(words[..., number]).ravel()
            if not whole:
                full = np.zeros(machine.lanes, words.dtype)
                full[first * WARP : (first + GROUP) * WARP] = column
                column = full
            write(machine, active, column)


def warp_groups(machine: Machine, active: Mask) -> list[int]:
    """The first warps of the groups that execute an instruction.

    Raises:
        SimulationError: of some group only a part is here.
    """
    warps = machine.whole_warps(active)
    inside = warps % machine.warps_per_cta
    first = warps - inside % GROUP
    found, counts = np.unique(first, return_counts=True)
    if (counts != GROUP).any():
        lane = int(found[(counts != GROUP).argmax()]) * WARP
        machine.fail("divergent warp", "the instruction wants a whole group of four warps", lane)
    return [int(number) for number in found]


@dataclass(frozen=True)
class Form:
    """The form that the instruction names.

    Attributes:
        columns, depth: extents; there are 64 rows.
        result: type of the accumulator.
        first, second: types of the operands.
        negate: signs of the operands.
        transposed: whether the rows of the operands are contiguous in shared memory.
        saturate: whether integer sums saturate.
    """

    columns: int
    depth: int
    result: str
    first: str
    second: str
    signs: tuple[int, int]
    transposed: tuple[bool, bool]
    saturate: bool


def _form(instruction: Instruction) -> Form:
    _, columns, depth = extents_of(instruction)
    result, first, second = [part for part in instruction.parts if part in WIDTHS][:3]
    if first == "b1" or instruction.has("sp"):
        raise SimulationError("unsupported", "products of bits and sparse products of warp groups are not simulated")
    _, factor, _, _, *others = instruction.operands
    numbers = [number_of(operand) for operand in others if isinstance(operand, Immediate)]
    signs, across = ((numbers[0], numbers[1]), numbers[2:]) if len(numbers) >= 2 else ((1, 1), [])
    in_registers = isinstance(factor, Vector)
    transposed = [False, *across] if in_registers else across
    pair = (bool(transposed[0]), bool(transposed[1])) if len(transposed) == 2 else (False, False)
    return Form(columns, depth, result, first, second, signs, pair, instruction.has("satfinite"))


def decode_product(instruction: Instruction, code: Decoder) -> Run:
    """wgmma.mma_async… d, a or descriptor, descriptor, {p | 1}{, sign, sign{, transposed…}}."""
    form = _form(instruction)
    result, first, second, goes_on = instruction.operands[:4]
    names = tuple(item.name for item in items_of(result) if isinstance(item, Register))
    writes = code.targets(result, "b32")
    reads = [code.source(item, "b32") for item in items_of(result)]
    read_first, read_second = _first_reader(first, form, code), _shared_reader(second, form, code, first=False)
    adds = code.source(goes_on, "pred")
    places = accumulator(ROWS // GROUP, form.columns)
    sums, operands = (
        [code.register(item.name) for item in items if isinstance(item, Register)]
        for items in (items_of(result), first.items if isinstance(first, Vector) else ())
    )
    code.kernel.accumulators.update(sums)
    code.kernel.fragments.update(operands)

    def run(machine: Machine, active: Mask) -> None:
        products = machine.family(WarpGroupProducts)
        for warp in warp_groups(machine, active):
            products.check_fenced(warp, (*sums, *operands))
            key, warps = (warp, names), np.arange(warp, warp + GROUP)
            (a, held), (b, more) = read_first(machine, warp), read_second(machine, warp)
            total = multiply(a * form.signs[0], b.T * form.signs[1]).reshape(GROUP, ROWS // GROUP, form.columns)
            total = gather(total, *places)
            if np.broadcast_to(adds(machine), machine.lanes)[warp * WARP]:
                words = products.current(key)
                words = read_warps(machine, reads, warps) if words is None else words
                total = total + read_elements(np.ascontiguousarray(words).view(np.uint8), form.result)
            else:
                products.current(key)
            finished = finish(total, form.result, saturate=form.saturate).view(np.uint32)
            products.issue(Product(key, [*held, *more]), finished, writes, sums)

    return run


Operands: TypeAlias = Callable[[Machine, int], tuple[Array, list[Array]]]
"""(machine, first warp) → values as (row, depth), and the bytes of shared memory that were read."""


def _first_reader(operand: Operand, form: Form, code: Decoder) -> Operands:
    if not isinstance(operand, Vector):
        return _shared_reader(operand, form, code, first=True)
    reads: list[Read] = [code.source(item, "b32") for item in operand.items]
    places = first_operand(ROWS // GROUP, form.depth, WIDTHS[form.first])

    def registers(machine: Machine, warp: int) -> tuple[Array, list[Array]]:
        words = read_warps(machine, reads, np.arange(warp, warp + GROUP))
        values = fragment_values(words, form.first, len(reads))
        return spread(values, *places, (ROWS // GROUP, form.depth)).reshape(ROWS, form.depth), []

    return registers


def _shared_reader(operand: Operand, form: Form, code: Decoder, *, first: bool) -> Operands:
    read = code.source(operand, "b64")
    rows, element = (ROWS, form.first) if first else (form.columns, form.second)
    transposed = form.transposed[0 if first else 1]

    def shared(machine: Machine, warp: int) -> tuple[Array, list[Array]]:
        lane = warp * WARP
        bits = int(by_warp(machine, read(machine), np.array([warp]))[0, 0])
        descriptor = read_descriptor(bits, WGMMA_SWIZZLES)
        if descriptor is None:
            machine.fail("unsupported", f"the matrix descriptor {bits:#x} is not simulated", lane)
        size = WIDTHS[element] // 8
        addresses = byte_addresses(descriptor, rows=rows, depth=form.depth, size=size, transposed=transposed)
        index = addresses + machine.shared.base(int(machine.cta[lane]))
        if int(addresses.max()) >= machine.shared.size:
            machine.fail("out of bounds", "the matrix reaches out of the CTA's shared memory", lane)
        held = index.ravel()
        engine_reads(machine, held, np.arange(warp, warp + GROUP), lane)
        return read_elements(machine.shared.data[index], element), [held]

    return shared


def fence(machine: Machine, active: Mask) -> None:
    for first in warp_groups(machine, active):
        machine.family(WarpGroupProducts).fence(first)


def commit(machine: Machine, active: Mask) -> None:
    products = machine.family(WarpGroupProducts)
    for first in warp_groups(machine, active):
        products.committed.setdefault(first, []).append(products.open.pop(first, []))


def decode_wait(instruction: Instruction, code: Decoder) -> Run:
    (kept,) = map(number_of, instruction.operands)

    def run(machine: Machine, active: Mask) -> None:
        for warp in warp_groups(machine, active):
            machine.family(WarpGroupProducts).wait(warp, kept)

    return run


HANDLERS: Handlers = {
    "wgmma.fence": command(fence),
    "wgmma.mma_async": decode_product,
    "wgmma.commit_group": command(commit),
    "wgmma.wait_group": decode_wait,
}
