"""Matrix products of sm_100: operands in shared and tensor memory, accumulators in tensor memory.

    @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1 + 0], %rd1, %rd2, %r2, %p2;
    @%p1 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p2;
    @%p1 tcgen05.cp.cta_group::1.warpx4.32x128b [%r3], %rd3;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];
    @%p1 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], 3;

One thread issues the instructions, and they execute in order. Results are computed at once; until the mbarrier of a
later commit is tested, accumulators are pending and operands in use.

A pair of CTAs, of ranks 2i and 2i + 1 in a cluster, computes 256 or 128 rows: each has half of the rows of A and of the
accumulator, and half of the columns of B, at the same addresses; it has the scales of its rows of A, and of all columns
of B. With 128 rows, each CTA keeps its 64 rows twice: for one half of the columns at the given row, and for the other
half 64 rows further on. The simulator refuses pairs with 128 rows whose A is in tensor memory, or with scales; sparse
products, `.ws`, and masks of output rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.backends.ptxsim.accesses import engine_has_read, engine_reads
from tilewright.backends.ptxsim.bulk_copies import named_ctas, one
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.matrix_descriptors import (
    BLOCKS,
    STEP_BYTES,
    TENSOR_MEMORY_SWIZZLES,
    InstructionDescriptor,
    byte_addresses,
    instruction_descriptor,
    read_descriptor,
)
from tilewright.backends.ptxsim.mbarriers import Key, MBarriers, Pending, located_barriers
from tilewright.backends.ptxsim.mma import finish, multiply, scaled
from tilewright.backends.ptxsim.tensor_memory import TensorMemory, Words, split_address
from tilewright.backends.ptxsim.value_types import WIDTHS, Array, Mask, read_elements
from tilewright.support.ptx_syntax import Address, Instruction, Vector

QUARTER, HALF = 32, 64
"""Parts of the rows of tensor memory."""
WHOLE_PAIR = 256
"""The rows of a product in which a pair of CTAs uses all rows of its tensor memory."""


@dataclass(eq=False)
class InFlight:
    """An instruction that has not ended: the bytes and words that it reads, and the words that it writes."""

    lane: int
    shared: list[Array] = field(default_factory=list)
    reads: list[Words] = field(default_factory=list)
    writes: list[Words] = field(default_factory=list)


class TensorCore:
    """The instructions that the tensor cores of all CTAs have in flight, in order of issue."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flying: list[InFlight] = []
        self.commits: dict[int, list[Pending]] = {}

    def begin(self, instruction: InFlight) -> None:
        """An instruction is in flight from now on. Those that come later find done what it does to tensor memory."""
        memory = self.machine.family(TensorMemory)
        self.flying.append(instruction)
        for held, reads in ((instruction.reads, True), (instruction.writes, False)):
            for words in held:
                memory.count_in_order(words, 1, reads=reads)

    def end(self, instructions: list[InFlight], time: int) -> None:
        """Instructions have ended; who waits for that knows the accesses of their warp up to this time."""
        memory = self.machine.family(TensorMemory)
        for instruction in instructions:
            if instruction not in self.flying:
                continue
            self.flying.remove(instruction)
            warps = np.array([self.machine.warp[instruction.lane]])
            for index in instruction.shared:
                engine_has_read(self.machine, index, warps, time)
            for held, reads in ((instruction.reads, True), (instruction.writes, False)):
                for words in held:
                    memory.count(words, -1, reads=reads)
                    memory.count_in_order(words, -1, reads=reads)
                    memory.note(words, int(warps[0]), reads=reads, time=time)

    def commit(self, keys: Sequence[Key], lane: int) -> None:
        """Mbarriers are signalled when all that a lane has issued has ended; earlier commits come first."""
        mine = [flight for flight in self.flying if flight.lane == lane]
        commits = self.commits.setdefault(lane, [])
        earlier = list(commits)

        def land(time: int) -> None:
            for commit in earlier:
                commit.finish()
            self.end(mine, time)
            commits[:] = [commit for commit in commits if commit not in earlier]

        commits.extend(self.machine.family(MBarriers).arrive_later(keys, lane, land))

    def read_words(self, words: Words, flight: InFlight) -> Array:
        """Words that an instruction reads; those of instructions before it are there for it."""
        self._claim(words, flight, reads=True)
        return self.machine.family(TensorMemory).words[words]

    def write_words(self, words: Words, values: Array, flight: InFlight) -> None:
        """Words that an instruction writes."""
        self._claim(words, flight, reads=False)
        self.machine.family(TensorMemory).words[words] = values

    def _claim(self, words: Words, flight: InFlight, *, reads: bool) -> None:
        """Check an access to words, and note that it is under way."""
        memory = self.machine.family(TensorMemory)
        memory.check(words, flight.lane, reads=reads, in_order=True)
        memory.count(words, 1, reads=reads)
        (flight.reads if reads else flight.writes).append(words)

    def read_shared(self, index: Array, flight: InFlight) -> Array:
        """Bytes of shared memory that an instruction reads."""
        held = index.ravel()
        engine_reads(self.machine, held, np.array([self.machine.warp[flight.lane]]), flight.lane)
        flight.shared.append(held)
        return self.machine.shared.data[index]


def matrix_bytes(
    core: TensorCore,
    bits: int,
    cta: int,
    flight: InFlight,
    *,
    rows: int,
    depth: int,
    size: int,
    transposed: bool,
    used: Array | None = None,
) -> Array:
    """The bytes of a matrix in a CTA's shared memory, as an array (row, depth * size).

    Args:
        core: the tensor core that reads them.
        bits: the matrix descriptor.
        cta: the CTA in whose memory the matrix lies.
        flight: the product that reads it.
        rows, depth: extents of the matrix.
        size: bytes of an element.
        transposed: columns lie side by side, not rows.
        used: the bytes of a row that are read; None: all.
    """
    machine, lane = core.machine, flight.lane
    descriptor = read_descriptor(bits, TENSOR_MEMORY_SWIZZLES)
    if descriptor is None:
        machine.fail("unsupported", f"the matrix descriptor {bits:#x} is not simulated", lane)
    addresses = byte_addresses(descriptor, rows=rows, depth=depth, size=size, transposed=transposed)
    if int(addresses.max()) >= machine.shared.size:
        machine.fail("out of bounds", "the matrix reaches out of the CTA's shared memory", lane)
    addresses = addresses + machine.shared.base(cta)
    if used is None or used.all():
        return core.read_shared(addresses, flight)
    found = np.zeros(addresses.shape, np.uint8)
    found[:, used] = core.read_shared(addresses[:, used], flight)
    return found


def operand_values(
    core: TensorCore, bits: int, cta: int, form: InstructionDescriptor, flight: InFlight, *, second: bool = False
) -> Array:
    """An operand in a CTA's shared memory: (row or column, depth).

    Args:
        core: the tensor core that reads the operand.
        bits: the matrix descriptor.
        cta: the CTA in whose memory the operand lies.
        form: the instruction descriptor.
        flight: the product that reads it.
        second: it is the right operand.
    """
    element, rows = (form.second, form.columns) if second else (form.first, form.rows)
    used, size = form.used_bytes(element), form.size
    raw = matrix_bytes(
        core,
        bits,
        cta,
        flight,
        rows=rows,
        depth=STEP_BYTES // size,
        size=size,
        transposed=form.across[second],
        used=used,
    )
    return form.values(raw, element) * form.signs[second]


def rows_of(count: int) -> Array:
    """The rows of tensor memory that hold the rows of a matrix: 64 rows leave each second sixteen free."""
    row = np.arange(count)
    return row if count > 64 else row // 16 * 32 + row % 16


def decode_product(instruction: Instruction, code: Decoder) -> Run:
    """tcgen05.mma… [sums], a or [a], b, form{, [scales], [scales]}, goes on."""
    if instruction.has("sp") or instruction.has("ws"):
        raise SimulationError("unsupported", "sparse products and .ws are not simulated")
    kind = next(part.removeprefix("kind::") for part in instruction.parts if part.startswith("kind::"))
    sums, first, second, form, *rest = instruction.operands
    if any(isinstance(operand, Vector) for operand in rest):
        raise SimulationError("unsupported", "masks of output rows are not simulated")
    to, descriptor, shape = code.address(sums), code.source(second, "b64"), code.source(form, "b32")
    in_tensor_memory = isinstance(first, Address)
    left = code.address(first) if in_tensor_memory else code.source(first, "b64")
    scales = [code.address(operand) for operand in rest if isinstance(operand, Address)]
    goes_on = code.source(next(operand for operand in rest if not isinstance(operand, Address)), "pred")
    block = next((BLOCKS[part] for part in instruction.parts if part in BLOCKS), None)
    is_pair = instruction.has("cta_group::2")

    def run(machine: Machine, active: Mask) -> None:
        core = machine.family(TensorCore)
        for lane in machine.active_lanes(active).tolist():
            bits, ctas = one(machine, shape, lane), pair_of(machine, lane) if is_pair else (int(machine.cta[lane]),)
            found = instruction_descriptor(kind, bits, pairs=is_pair)
            if found is None:
                machine.fail("unsupported", f"the product {bits:#x} is not simulated", lane)
            flight, part = InFlight(lane), found.share(len(ctas))
            read = _first_in_tensor_memory if in_tensor_memory else operand_values
            if in_tensor_memory and is_pair and found.rows != WHOLE_PAIR:
                text = f"a product of a pair of CTAs with {found.rows} rows and A in tensor memory is not simulated"
                machine.fail("unsupported", text, lane)
            place, second = one(machine, left, lane), one(machine, descriptor, lane)
            a = np.concatenate([read(core, place, cta, part, flight) for cta in ctas])
            b = np.concatenate([operand_values(core, second, cta, part, flight, second=True) for cta in ctas])
            places = [one(machine, address, lane) for address in scales]
            adds, address = bool(one(machine, goes_on, lane)), one(machine, to, lane)
            for cta, own in zip(ctas, np.split(a, len(ctas)), strict=True):
                factors = _scaled(core, own, b, cta, places, found, flight, block) if scales else (own, b)
                total = multiply(factors[0], factors[1].T)
                _accumulate(core, total, cta, address, found, flight, in_halves=is_pair, adds=adds)
            core.begin(flight)

    return run


def pair_of(machine: Machine, lane: int) -> tuple[int, int]:
    """The two CTAs of a lane's pair."""
    cta = int(machine.cta[lane])
    if machine.cluster_size % 2:
        text = f"a cluster of {machine.cluster_size} CTAs has no pairs"
        machine.fail("launch", text, lane)
    return cta & ~1, cta | 1


def _first_in_tensor_memory(
    core: TensorCore, address: int, cta: int, form: InstructionDescriptor, flight: InFlight
) -> Array:
    row, column = split_address(address)
    rows, columns = np.broadcast_arrays(row + rows_of(form.rows)[:, None], column + np.arange(STEP_BYTES // 4))
    words = core.read_words((cta, rows, columns), flight)
    return form.values(np.ascontiguousarray(words).view(np.uint8), form.first) * form.signs[0]


def _scaled(
    core: TensorCore,
    a: Array,
    b: Array,
    cta: int,
    places: list[int],
    form: InstructionDescriptor,
    flight: InFlight,
    block: int | None,
) -> tuple[Array, Array]:
    count = form.depth // (block or form.block)
    of_rows = _scales(core, cta, places[0], len(a), form.scale_places[0], count, form.scale, flight)
    of_columns = _scales(core, cta, places[1], form.columns, form.scale_places[1], count, form.scale, flight)
    return scaled(a, of_rows, 1), scaled(b, of_columns, 1)


def _scales(
    core: TensorCore, cta: int, address: int, lines: int, first: int, count: int, element: str, flight: InFlight
) -> Array:
    """Scales of each row in a CTA: row i is in row i % 32, word i // 32; `count` bytes of it from `first` on."""
    row, column = split_address(address)
    line = np.arange(lines)
    words = core.read_words((cta, row + line % QUARTER, column + line // QUARTER), flight)
    raw = np.ascontiguousarray(words).view(np.uint8).reshape(lines, 4)
    return read_elements(raw[:, first : first + count], element)


def _accumulate(
    core: TensorCore,
    total: Array,
    cta: int,
    address: int,
    form: InstructionDescriptor,
    flight: InFlight,
    *,
    in_halves: bool,
    adds: bool,
) -> None:
    """Add a CTA's rows of a product to its tensor memory, or put them there.

    Args:
        in_halves: of 64 rows, the second half of the columns is 64 rows further on.
    """
    row, column = split_address(address)
    places = np.arange(form.columns)
    if in_halves and len(total) == HALF:
        half = form.columns // 2
        rows, columns = row + np.arange(HALF)[:, None] + places // half * HALF, column + places % half
    else:
        rows, columns = row + rows_of(len(total))[:, None], column + places
    rows, columns = np.broadcast_arrays(rows, columns)
    words = cta, rows, columns
    if adds:
        held = np.ascontiguousarray(core.read_words(words, flight)).view(np.uint8)
        flight.reads.pop()
        core.machine.family(TensorMemory).count(words, -1, reads=True)
        width = WIDTHS[form.result] // 8
        total = total + read_elements(held.reshape(*total.shape, 4)[..., :width], form.result)[..., 0]
    raw = finish(total, form.result, saturate=form.saturate).reshape(*total.shape, -1)
    padded = np.zeros((*total.shape, 4), np.uint8)
    padded[..., : raw.shape[-1]] = raw
    core.write_words(words, padded.view(np.uint32)[..., 0], flight)


_LANE = np.arange(4 * QUARTER)
COPIES: dict[str, tuple[Array, int]] = {
    "128x256b": (_LANE, 32),
    "128x128b": (_LANE, 16),
    "64x128b.warpx2::02_13": (_LANE % (2 * QUARTER), 16),
    "64x128b.warpx2::01_23": (_LANE // (2 * QUARTER) * QUARTER + _LANE % QUARTER, 16),
    "32x128b.warpx4": (_LANE % QUARTER, 16),
}
"""The row of the source that each row of tensor memory gets, and the bytes of a row."""


def decode_copy(instruction: Instruction, code: Decoder) -> Run:
    """tcgen05.cp… [words], descriptor: rows of 16 or 32 bytes, some of them for several warps."""
    parts = sorted(part for part in instruction.parts if part.endswith("b") or part.startswith("warpx"))
    form = COPIES.get(".".join(parts))
    if form is None or any(part.startswith("b8x16") for part in instruction.parts):
        raise SimulationError("unsupported", "this copy to tensor memory is not simulated")
    chosen, width = form
    place, descriptor = instruction.operands
    to, source = code.address(place), code.source(descriptor, "b64")
    is_pair = instruction.has("cta_group::2")

    def run(machine: Machine, active: Mask) -> None:
        core = machine.family(TensorCore)
        for lane in machine.active_lanes(active).tolist():
            flight = InFlight(lane)
            bits, count = one(machine, source, lane), int(chosen.max()) + 1
            row, column = split_address(one(machine, to, lane))
            rows, columns = np.broadcast_arrays(row + _LANE[:, None], column + np.arange(width // 4))
            for cta in pair_of(machine, lane) if is_pair else (int(machine.cta[lane]),):
                raw = matrix_bytes(core, bits, cta, flight, rows=count, depth=width, size=1, transposed=False)
                words = np.ascontiguousarray(raw).view(np.uint32)[chosen]
                core.write_words((cta, rows, columns), words, flight)
            core.begin(flight)

    return run


def decode_commit(instruction: Instruction, code: Decoder) -> Run:
    """tcgen05.commit… [mbarrier]{, mask}: it is signalled when everything that the thread has issued has ended.

    With a mask, so are the mbarriers at its place in other CTAs of the cluster.
    """
    place, *masks = instruction.operands
    address, mask = code.address(place), [code.source(operand, "b16") for operand in masks]

    def run(machine: Machine, active: Mask) -> None:
        core, lanes = machine.family(TensorCore), machine.active_lanes(active)
        for lane, key in zip(lanes.tolist(), located_barriers(machine, address(machine), lanes), strict=True):
            core.commit(_in_ctas(machine, key, mask, lane), lane)

    return run


def _in_ctas(machine: Machine, key: Key, mask: Sequence[Read], lane: int) -> list[Key]:
    """The mbarrier, or those at its place in the CTAs that the mask names."""
    own = machine.shared.base(int(machine.cta[lane]))
    ctas = [cta for chosen in mask for cta in named_ctas(machine, chosen, lane)]
    return [key - own + int(machine.shared.base(cta)) for cta in ctas] if mask else [key]


HANDLERS: Handlers = {"tcgen05.mma": decode_product, "tcgen05.cp": decode_copy, "tcgen05.commit": decode_commit}
