"""Loads and stores of all address spaces.

ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];      st.shared.b16 [%r5], %rs1;      ld.param.b64 %rd1, [k_param_0];

Generic addresses are the simulator's choice: global addresses are unchanged; each other space is a window of its own,
as on hardware. `split` groups lanes by the space of their generic addresses.

Asynchronous engines (bulk copies, wgmma and tcgen05) access shared memory through another proxy than threads do: stores
of threads must be fenced by `fence.proxy.async` before an engine may read them.

    engine_reads(machine, index, warps, lane)      # checked, and in use until `engine_has_read`
    engine_writes(machine, index, content, lane)   # checked, and pending until `engine_has_written`
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, command, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.memory import INITIALISED, SETTLED, VALID, WRITABLE, WRITTEN, Fault
from tilewright.backends.ptxsim.shared import OFFSET
from tilewright.backends.ptxsim.value_types import TYPES, Array, Mask
from tilewright.support.ptx_syntax import Instruction

WINDOWS = {"shared": 0x7000_0000_0000, "param": 0x7100_0000_0000, "local": 0x7200_0000_0000}
"""The first generic address of each space."""
WINDOW_SIZE = 1 << 32


def space_of(parts: tuple[str, ...]) -> str:
    """The space an instruction names: `global`, `shared`, `local`, `param`; "" for generic addresses."""
    for part in parts[1:]:
        name = part.split("::")[0]
        if name in ("global", "shared", "local", "param"):
            return name
        if name == "const":
            return "global"
    return ""


def split(addresses: Array) -> Iterator[tuple[str, Array, Array]]:
    """Per space: its name, which of the generic addresses lie there, and their addresses in it."""
    left = np.ones(len(addresses), bool)
    for name, start in WINDOWS.items():
        inside = (addresses >= start) & (addresses < start + WINDOW_SIZE)
        if inside.any():
            left &= ~inside
            chosen = np.flatnonzero(inside)
            yield name, chosen, addresses[chosen] - start
    if left.all():
        yield "global", np.arange(len(addresses)), addresses
    elif left.any():
        chosen = np.flatnonzero(left)
        yield "global", chosen, addresses[chosen]


def place_of(address: int) -> tuple[str, int]:
    """The space and the address in it of one generic address."""
    for name, start in WINDOWS.items():
        if start <= address < start + WINDOW_SIZE:
            return name, address - start
    return "global", address


def generic_bytes(machine: Machine, address: int, size: int, lane: int) -> bytes:
    """The bytes that one lane would read at a generic address; for reports, not for instructions.

    Raises:
        SimulationError: nothing is there.
    """
    space, offset = place_of(address)
    if space == "local":
        start = lane * machine.frame_stride + offset
        return bytes(machine.frame[1][start : start + size].tobytes())
    if space == "shared":
        cta = machine.shared.owners(offset, machine.cta[lane])
        start = int(machine.shared.base(cta)) + (offset & OFFSET)
        return bytes(machine.shared.data[start : start + size].tobytes())
    if space == "param":
        return bytes(machine.parameters[offset : offset + size].tobytes())
    start = machine.memory.offsets(np.array([offset]))
    machine.refuse(machine.memory.fault(start, 1, "load", needs=VALID | INITIALISED), lane)
    return bytes(machine.memory.views[1][start[0] : start[0] + size].tobytes())


def frame_fault(machine: Machine, addresses: Array, width: int, what: str) -> Fault | None:
    """The fault of accesses to local memory; None if they are good."""
    wrong = (addresses < 0) | (addresses + width > machine.code.frame)
    if wrong.any():
        index = int(wrong.argmax())
        size = machine.code.frame
        text = f"{what} of {width} bytes at local address {int(addresses[index]):#x}; the thread has {size} bytes"
        return Fault("out of bounds", text, index)
    if width > 1 and (addresses & (width - 1)).any():
        index = int(((addresses & (width - 1)) != 0).argmax())
        return Fault(
            "misaligned address", f"{what} of {width} bytes at local address {int(addresses[index]):#x}", index
        )
    return None


STRONG = ("volatile", "relaxed", "acquire", "mmio")
"""Loads that look for what other threads store: a loop of them polls."""
STRONG_STORES = ("volatile", "relaxed", "release", "mmio")
STORED = VALID | WRITABLE | INITIALISED | WRITTEN | SETTLED


def decode_load(instruction: Instruction, code: Decoder) -> Run:
    space, kind = _space(instruction, code), TYPES[instruction.type]
    place, *_ = instruction.sources
    writes, address = code.targets(instruction.destination, instruction.type), code.address(place)
    count, element, dtype = len(writes), kind.bytes, kind.dtype
    items = enumerate(items_of(instruction.destination), 1)
    needed = max((place for place, item in items if code.is_read(item)), default=1)
    polls = any(part in STRONG for part in instruction.parts)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        addresses = lanes_of(address(machine), lanes, machine)
        if polls:
            machine.polled = True
            synchronise(machine, lanes)
        values = load(machine, space, addresses, lanes, element, count, needed)
        for write, value in zip(writes, values, strict=True):
            write(machine, active, machine.spread(value.view(dtype), lanes))

    return run


def decode_store(instruction: Instruction, code: Decoder) -> Run:
    space, kind = _space(instruction, code), TYPES[instruction.type]
    place, values, *_ = instruction.operands
    reads = [code.source(item, f"b{kind.bits}") for item in items_of(values)]
    address = code.address(place)
    element = kind.bytes
    strong = any(part in STRONG_STORES for part in instruction.parts)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        addresses = lanes_of(address(machine), lanes, machine)
        if strong:
            synchronise(machine, lanes)
        store(machine, space, addresses, lanes, element, [lanes_of(read(machine), lanes, machine) for read in reads])

    return run


def _space(instruction: Instruction, code: Decoder) -> str:
    """Parameters of functions live in the frame, those of kernels in a space of their own."""
    space = space_of(instruction.parts)
    if space == "param" and "param::entry" not in instruction.parts:
        for operand in instruction.operands:
            base = getattr(operand, "base", None)
            if (code.function.name, getattr(base, "name", "")) in code.layout.frame:
                return "local"
    return space


def lanes_of(values: Array, lanes: Array, machine: Machine) -> Array:
    """The values of some lanes, of an array over all lanes or of one element."""
    if len(lanes) == len(values):
        return values
    return values[lanes] if len(values) == machine.lanes else np.repeat(values, len(lanes))


def load(
    machine: Machine, space: str, addresses: Array, lanes: Array, element: int, count: int, needed: int | None = None
) -> list[Array]:
    """Load values for lanes, as unsigned numbers.

    Args:
        space: a state space of PTX; "" for generic addresses.
        addresses: one for each of the lanes.
        lanes: their numbers.
        element: bytes of a value.
        count: values that each lane loads, side by side.
        needed: how many of them the program uses, all if None: LLVM reads four words of shared memory where three are
            wanted.

    Returns:
        `count` arrays with one value for each of the lanes.

    Raises:
        SimulationError: an address is wrong, or nothing was stored there.
    """
    if space == "shared":
        return load_shared(machine, addresses, lanes, element, count, needed)
    if space:
        return LOADS[space](machine, addresses, lanes, element, count)
    values = [np.zeros(len(lanes), f"u{element}") for _ in range(count)]
    for found, chosen, inner in split(addresses):
        for value, part in zip(values, LOADS[found](machine, inner, lanes[chosen], element, count), strict=True):
            value[chosen] = part
    return values


def load_global(machine: Machine, addresses: Array, lanes: Array, element: int, count: int) -> list[Array]:
    memory = machine.memory
    offsets = memory.offsets(addresses)
    machine.check(memory.fault(offsets, element * count, "load", needs=VALID | INITIALISED), lanes)
    watch_load(machine, offsets, lanes, element * count)
    units, view = offsets >> (element.bit_length() - 1), memory.views[element]
    return [view[units + number] for number in range(count)] if count > 1 else [view[units]]


def watch_load(machine: Machine, offsets: Array, lanes: Array, width: int) -> None:
    """Note loads from global memory, at offsets of the heap.

    Raises:
        SimulationError: one of them races with a store.
    """
    if machine.watcher is None:
        return
    wrong = machine.watcher.load(offsets, width, machine.accessors(lanes))
    if wrong.any():
        text = "load of what another CTA or warp has stored in this launch, with nothing that orders them"
        machine.fail("race", text, int(lanes[wrong.argmax()]))


def synchronise(machine: Machine, lanes: Array) -> None:
    """Lanes do something with an order: what others have done before may be known to them."""
    if machine.watcher is not None:
        machine.watcher.synchronise(machine.accessors(lanes))


def load_shared(
    machine: Machine, addresses: Array, lanes: Array, element: int, count: int, needed: int | None = None
) -> list[Array]:
    index = locate_shared(machine, addresses, lanes, element * count, "load")
    check_shared(machine, index, lanes, machine.shared.in_units(element * (needed or count)), "read")
    units, view = index >> (element.bit_length() - 1), machine.shared.views[element]
    return [view[units + number] for number in range(count)]


def load_frame(machine: Machine, addresses: Array, lanes: Array, element: int, count: int) -> list[Array]:
    machine.check(frame_fault(machine, addresses, element * count, "load"), lanes)
    units = (addresses + lanes * machine.frame_stride) >> (element.bit_length() - 1)
    return [machine.frame[element][units + number] for number in range(count)]


def load_parameters(machine: Machine, addresses: Array, lanes: Array, element: int, count: int) -> list[Array]:
    wrong = (addresses < 0) | (addresses + element * count > machine.code.parameter_bytes)
    if wrong.any():
        where = int(wrong.argmax())
        text = f"load at byte {int(addresses[where])} of {machine.code.parameter_bytes} bytes of parameters"
        machine.fail("out of bounds", text, int(lanes[where]))
    view = machine.parameters.view(f"u{element}")
    return [view[(addresses >> (element.bit_length() - 1)) + number] for number in range(count)]


LOADS = {"global": load_global, "shared": load_shared, "local": load_frame, "param": load_parameters}


def locate_shared(machine: Machine, addresses: Array, lanes: Array, width: int, what: str) -> Array:
    """Indices of the shared memory's bytes.

    Args:
        addresses: one for each of the lanes.
        lanes: their numbers.
        width: bytes that each of them accesses.
        what: the access, in words for messages.

    Raises:
        SimulationError: an address is outside, or not aligned.
    """
    index = machine.shared.locate(addresses, machine.cta[lanes], width, what)
    if isinstance(index, Fault):
        machine.check(index, lanes)
    return index


def check_shared(machine: Machine, index: Array, lanes: Array, width: int, what: str) -> None:
    """Check accesses of `width` bytes by lanes in the shadow, and record them; `what` is one of its methods.

    Args:
        index: indices of the first bytes, one for each of the lanes.
        lanes: their numbers.
        width: bytes that each of them accesses.
        what: `read`, `write` or `atomic`.
    """
    machine.check(machine.shared.access(what, index, machine.warp[lanes], width), lanes)


def store(machine: Machine, space: str, addresses: Array, lanes: Array, element: int, values: list[Array]) -> None:
    """Store values of lanes; arguments as for `load`, and `values` has one array for each of the values side by side.

    Raises:
        SimulationError: an address is wrong, or two threads store different values there at once.
    """
    if space:
        STORES[space](machine, addresses, lanes, element, values)
        return
    for found, chosen, inner in split(addresses):
        STORES[found](machine, inner, lanes[chosen], element, [value[chosen] for value in values])


def store_global(machine: Machine, addresses: Array, lanes: Array, element: int, values: list[Array]) -> None:
    memory = machine.memory
    offsets = memory.offsets(addresses)
    machine.check(memory.fault(offsets, element * len(values), "store", needs=VALID | WRITABLE), lanes)
    units, view, state = offsets >> (element.bit_length() - 1), memory.views[element], memory.state[element]
    mark = int.from_bytes(bytes([STORED]) * element, "little")
    if machine.watcher is not None:
        wrong = machine.watcher.store(offsets, element * len(values), machine.accessors(lanes))
        changes = [view[units + number] != value for number, value in enumerate(values)] if wrong.any() else []
        wrong &= np.logical_or.reduce(changes) if changes else False
        if wrong.any():
            text = "store where another CTA or warp has loaded or stored in this launch, with nothing that orders them"
            machine.fail("race", text, int(lanes[wrong.argmax()]))
    for number, value in enumerate(values):
        _note_change(machine, view, units + number, value)
        view[units + number] = value
        state[units + number] = mark
        _compare_back(machine, view[units + number], value, lanes)


def store_shared(machine: Machine, addresses: Array, lanes: Array, element: int, values: list[Array]) -> None:
    index = locate_shared(machine, addresses, lanes, element * len(values), "store")
    units, view = index >> (element.bit_length() - 1), machine.shared.views[element]
    warps, width = machine.warp[lanes], element * len(values)
    fault = machine.shared.access("write", index, warps, width)
    if fault is not None and fault.kind == "race":  # warps that hold the same elements may all store them
        same = np.logical_and.reduce([view[units + number] == value for number, value in enumerate(values)])
        fault = machine.shared.access("write", index, warps, width, same)
    machine.check(fault, lanes)
    for number, value in enumerate(values):
        _note_change(machine, view, units + number, value)
        view[units + number] = value
        _compare_back(machine, view[units + number], value, lanes)


def _note_change(machine: Machine, view: Array, units: Array, values: Array) -> None:
    """Record for the scheduler whether memory has changed, for which loops that poll may wait."""
    if not machine.changes:
        machine.changes = int((view[units] != values).any())


def _compare_back(machine: Machine, stored: Array, values: Array, lanes: Array) -> None:
    """Threads that store to one place at once must agree, or the result is chance."""
    wrong = stored != values
    if wrong.any():
        lane = int(lanes[wrong.argmax()])
        machine.fail("race", "another thread stores another value to the same address at the same time", lane)


def store_frame(machine: Machine, addresses: Array, lanes: Array, element: int, values: list[Array]) -> None:
    machine.check(frame_fault(machine, addresses, element * len(values), "store"), lanes)
    units = (addresses + lanes * machine.frame_stride) >> (element.bit_length() - 1)
    for number, value in enumerate(values):
        machine.frame[element][units + number] = value


def store_parameters(machine: Machine, _: Array, lanes: Array, element: int, values: list[Array]) -> None:
    machine.fail("read-only memory", "store to the parameters of the kernel", int(lanes[0]))


STORES = {"global": store_global, "shared": store_shared, "local": store_frame, "param": store_parameters}


nothing = command(lambda machine, active: None)
"""Hints and fences do nothing: lanes run in lockstep, so that memory is always in order."""


def unknown(instruction: Instruction, code: Decoder) -> Run:
    """Refuse instructions that look like ones we know, and do something else."""
    raise SimulationError("unsupported", "the simulator does not know this instruction")


def engine_reads(machine: Machine, index: Array, warps: Array, lane: int) -> None:
    """An engine begins to read bytes for warps: check, and hold them.

    Raises:
        SimulationError: a byte has no value, is not fenced, or races with another access.
    """
    machine.refuse(machine.shared.engine_read(index, warps), lane)
    machine.shared.hold_for_read(index)


def engine_has_read(machine: Machine, index: Array, warps: Array, time: int | None = None) -> None:
    """The engine has read the bytes, and warps have waited for it: now, or who waits knows them up to this time."""
    machine.shared.end_read(index)
    machine.shared.note_read_by_all(index, warps, time)


def engine_writes(machine: Machine, index: Array, content: Array, lane: int) -> None:
    """An engine begins to write bytes for a lane: check, and hold them.

    Raises:
        SimulationError: another access is not ordered before; a copy in flight that brings the same bytes may land
            before or behind this one.
    """
    machine.refuse(machine.shared.engine_write(index, content, np.full(len(index), machine.warp[lane])), lane)
    machine.shared.hold_for_write(index, content)


def engine_has_written(machine: Machine, index: Array, content: Array, lane: int, time: int) -> None:
    """The bytes have landed; a wait for them orders the accesses of the lane's warp up to this time.

    Args:
        index: indices of the bytes.
        content: the bytes.
        lane: the number of the lane that started the copy.
        time: a time of its warp.
    """
    shared = machine.shared
    shared.end_write(index)
    shared.data[index] = content
    shared.note_write(index, np.full(len(index), machine.warp[lane]), time)
    shared.engine_wrote(index)


def fence(machine: Machine, active: Mask) -> None:
    """fence.proxy.async: engines see what the warp knows to be stored."""
    machine.shared.fence(np.unique(machine.warp[machine.active_lanes(active)]))


HANDLERS: Handlers = {
    "ld": decode_load,
    "ldu": decode_load,
    "st": decode_store,
    "st.bulk": unknown,
    "red.async": unknown,
    "prefetch": nothing,
    "prefetchu": nothing,
    "discard": nothing,
    "applypriority": nothing,
    "membar": nothing,
    "fence": nothing,
    "nanosleep": nothing,
    "griddepcontrol": nothing,
    "pmevent": nothing,
    "fence.proxy.async": command(fence),
    "fence.proxy.async::generic": command(fence),
    "fence.proxy.async.global": nothing,
}
