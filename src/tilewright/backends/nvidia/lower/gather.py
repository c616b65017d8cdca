"""Indexed elements: `tt.gather`, buffers indexed by a tile, and the bins of `tt.histogram`.

%g = tt.gather %x[%i] {axis = 0}        within a warp: shuffles from the lane that has the element, one for each
                                        register that may hold it; otherwise through shared memory
%g = tt.gather %x[%i ^ 16]              in sorting networks: one shuffle of each register, or a renumbering of registers

%y = ttg.local_gather %b[%i] {axis = 0 : i32} : …          %y[r, c] = %b[%i[r, c], c]
ttg.local_scatter %b[%i], %x {axis = 0 : i32} : …          %b[%i[r, c], c] = %x[r, c]

The layout of a buffer is linear, so an address is the XOR of two parts: one from an element's other coordinates, which
depends on the thread only, and one from its index.

The bins of a histogram are in shared memory; every thread adds its elements one by one:

@%p st.shared.b32 [bin of this thread], 0
@%q red.shared.add.u32 [bin of an element], 1        %q: there is such a bin, the mask, and no other thread has a copy
ld.shared.b32                                        the bins of this thread
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import xor
from typing import NamedTuple

from tilewright.analysis.gather_distance import distance_of, step_of
from tilewright.analysis.reduction_plan import stays_in_warps
from tilewright.backends.llvm.spelling import bits_of
from tilewright.backends.nvidia.lower.access_plan import (
    Move,
    Place,
    Plan,
    Unit,
    combinations,
    place_of,
    plan_of,
)
from tilewright.backends.nvidia.lower.buffers import buffer_layout, byte_size
from tilewright.backends.nvidia.lower.cross_lane import added, mapped, shuffled
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering, scratch_offset, shared_results
from tilewright.backends.nvidia.lower.memory import both, only_once
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.backends.nvidia.lower.reshapes import first_registers
from tilewright.backends.nvidia.lower.shared_tiles import BYTE, Bytes, load_tile, memory_bits, offset, store_tile
from tilewright.dialects.tt_shape import Gather, Histogram
from tilewright.dialects.ttg_memory import LocalAtomicScatter, LocalGather, LocalScatter
from tilewright.ir.core import Value, buffer_type, tile_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.walk import dimension_names

INDEX_BITS = 32


def gather(lowerer: Lowerer, op: Gather) -> None:
    """Find each index's element."""
    distance = distance_of(op)
    if distance is not None:
        lowerer.bind(op.result, _from_partners(lowerer, op, distance))
        return
    source, indices = lowerer.layout(op.source), lowerer.layout(op.indices)
    find = _by_shuffles if stays_in_warps(source, indices, op.axis) else _in_shared_memory
    lowerer.bind(op.result, find(lowerer, op))


def index_of(lowerer: Lowerer, indices: Value, value: str) -> str:
    """A number of any width as i32; a narrow one is positive."""
    element = lowerer.element(indices.type)
    opcode = "zext" if bits_of(element) < INDEX_BITS else "trunc"
    return lowerer.w.convert(opcode, value, element, "i32")


# --- at a fixed distance ----------------------------------------------------------------------------------------


def _from_partners(lowerer: Lowerer, op: Gather, distance: int) -> list[str]:
    """The partner of each element, from the thread that holds it."""
    tile = op.source
    layout, element, values = lowerer.layout(tile), lowerer.element(tile.type), lowerer.registers(tile)
    step = step_of(layout, op.axis, distance)
    assert not step["block"], "partners are in one block"
    sent = [values[register ^ step["register"]] for register in range(len(values))]
    if step["warp"]:
        return _through_memory(lowerer, op, sent, layout.image({"lane": step["lane"], "warp": step["warp"]}))
    if not step["lane"]:
        return sent
    return shared_results(sent, lambda value: shuffled(lowerer, "bfly", element, value, step["lane"]))


def _through_memory(lowerer: Lowerer, op: Gather, sent: Sequence[str], step: int) -> list[str]:
    """Let each thread read what the thread `step` elements (by XOR) away has left."""
    layout, element = lowerer.layout(op.source), lowerer.element(op.source.type)
    bits, base = memory_bits(element), str(scratch_offset(op))
    plan = plan_of(_in_memory(layout), bits)
    store_tile(lowerer, sent, element, plan, Bytes(base))
    lowerer.barrier()
    return load_tile(lowerer, element, plan, Bytes(base, str(step * bits // BYTE)))


def _in_memory(layout: LinearLayout) -> LinearLayout:
    """A tile in memory in row-major order."""
    return LinearLayout(layout.columns, (("offset", 1 << layout.out_bits),))


def _columns(source: LinearLayout, indices: LinearLayout, axis: int) -> LinearLayout:
    """The layout from the places of indices to the elements of the source in the same column whose number is 0."""
    rows = {name: [(*row[:axis], 0, *row[axis + 1 :]) for row in rows] for name, rows in indices.bases.items()}
    return LinearLayout({name: tuple(map(source.pack, steps)) for name, steps in rows.items()}, source.outs)


# --- through shared memory --------------------------------------------------------------------------------------


def _in_shared_memory(lowerer: Lowerer, op: Gather) -> list[str]:
    """Leave the whole tile there in row-major order, and look up what is wanted."""
    w, tile, indices = lowerer.w, op.source, op.indices
    source, axis, element = lowerer.layout(tile), op.axis, lowerer.element(tile.type)
    bits, scratch = memory_bits(element), scratch_offset(op)
    store_tile(lowerer, lowerer.registers(tile), element, plan_of(_in_memory(source), bits), Bytes(str(scratch)))
    lowerer.barrier()
    columns = _columns(source, lowerer.layout(indices), axis)
    start, shift = place_of(_in_memory(columns), 0), source.shifts[axis][0]

    def looked_up(key: tuple[str, int, str]) -> str:
        thread, fixed, value = key
        number = w.emit(f"shl i32 {index_of(lowerer, indices, value)}, {shift}")
        number = number if thread == "0" else w.emit(f"add i32 {number}, {thread}")
        place = lowerer.shared(w.emit(f"mul i32 {number}, {bits // BYTE}"))
        return load_element(lowerer, element, offset(lowerer, place, scratch + fixed * bits // BYTE))

    registers = enumerate(lowerer.registers(indices))
    return shared_results(((*lowerer.placed(start, register), value) for register, value in registers), looked_up)


def load_element(lowerer: Lowerer, element: str, pointer: str) -> str:
    """One element from shared memory."""
    w, words = lowerer.w, PackedWords.of(memory_bits(element), 1)
    word = w.emit(f"load {words.type}, {SHARED_POINTER} {pointer}, align {words.width // BYTE}")
    (found,) = words.unpack(w, element, [word])
    return found


# --- within warps -----------------------------------------------------------------------------------------------


def _by_shuffles(lowerer: Lowerer, op: Gather) -> list[str]:
    """Read each register of the column from the lane that has the element, and select."""
    tile, indices = op.source, op.indices
    values, element = lowerer.registers(tile), lowerer.element(tile.type)
    owner = owners(lowerer.layout(tile), lowerer.layout(indices), op.axis)

    def found(key: tuple[int, str]) -> str:
        column, value = key
        number = index_of(lowerer, indices, value)
        lane = added(lowerer, lowerer.linear(owner.lanes), mapped(lowerer, number, owner.lane_steps))
        held = [column ^ step for step in combinations([step for step in owner.register_steps if step])]
        asked = {place: shuffled(lowerer, "idx", element, values[place], lane) for place in dict.fromkeys(held)}
        return _chosen(lowerer, element, asked, column, mapped(lowerer, number, owner.register_steps))

    registers = enumerate(lowerer.registers(indices))
    return shared_results(((owner.column(register), value) for register, value in registers), found)


class Owners(NamedTuple):
    """The lane and the register that have the element that an index names.

    Attributes:
        lanes: per bit of the lane, what it adds to the number of the source lane, whatever the index is.
        columns: per bit of the register of the index, what it adds to the register that is asked for.
        lane_steps: per bit of the index, what it adds to the lane.
        register_steps: per bit of the index, what it adds to the register.
    """

    lanes: dict[str, tuple[int, ...]]
    columns: tuple[int, ...]
    lane_steps: tuple[int, ...]
    register_steps: tuple[int, ...]

    def column(self, register: int) -> int:
        """The register that has the column's first element."""
        return reduce(xor, (step for bit, step in enumerate(self.columns) if register >> bit & 1), 0)


@cache
def owners(source: LinearLayout, indices: LinearLayout, axis: int) -> Owners:
    """The owners of elements in a gather that stays in its warps."""
    places = source.pseudo_invert()
    whole = _columns(source, indices, axis).compose(places).transpose_outs(("lane", "register", "warp", "block"))
    found = {name: tuple(row[:2] for row in rows) for name, rows in whole.bases.items()}
    along = places.sublayout([f"dim{axis}"], ["lane", "register"]).transpose_outs(("lane", "register"))
    (steps,) = along.bases.values()
    assert not any(register for name in ("lane", "warp") for _, register in found[name]), "registers are the same ones"
    return Owners(
        {"lane": tuple(lane for lane, _ in found["lane"])},
        tuple(register for _, register in found["register"]),
        tuple(lane for lane, _ in steps),
        tuple(register for _, register in steps),
    )


def _chosen(lowerer: Lowerer, element: str, asked: Mapping[int, str], column: int, register: str) -> str:
    """The answer about the register that is wanted: `register`, counted from the column's."""
    w, ((_, found), *others) = lowerer.w, list(asked.items())
    for held, answer in others:
        is_it = w.emit(f"icmp eq i32 {register}, {held ^ column}")
        found = w.emit(f"select i1 {is_it}, {element} {answer}, {element} {found}")
    return found


# --- buffers indexed by a tile ----------------------------------------------------------------------------------


def _local_gather(lowerer: Lowerer, op: LocalGather) -> None:
    element = lowerer.element(op.result.type)
    found = [load_tile(lowerer, element, ONE, where)[0] for where in indexed_places(lowerer, op)]
    lowerer.bind(op.result, found)


def _scatter(lowerer: Lowerer, op: LocalScatter) -> None:
    places = indexed_places(lowerer, op)
    for value, where in zip(lowerer.registers(op.value), places, strict=True):
        store_tile(lowerer, [value], lowerer.element(op.value.type), ONE, where)


ONE = Plan(Unit.VECTOR, Place({}), (Move((0,), 0),), (0,))
"""One element, at the beginning of what is given as the buffer."""


def indexed_places(lowerer: Lowerer, op: LocalGather | LocalScatter | LocalAtomicScatter) -> list[Bytes]:
    """Per register of the tile of indices the place of its element."""
    type, indices = buffer_type(op.buffer), op.indices
    if any(buffer_layout(type).columns["block"]):
        raise refused(op, f"{op.name} of a buffer of several blocks", "launch the kernel with num_ctas=1")
    others, along = _index_parts(lowerer.layout(indices), type, op.axis)
    where = lowerer.buffer(op.buffer).bytes(type)
    found = []
    for register, index in enumerate(lowerer.registers(indices)):
        offset = mapped(lowerer, index_of(lowerer, indices, index), along)
        base, fixed = lowerer.placed(others, register)
        for part in (base, str(fixed), where.within):
            offset = added(lowerer, offset, part)
        found.append(Bytes(where.base, offset, -1, where.pads))
    return found


def _index_parts(layout: LinearLayout, type: MemDescType, axis: int) -> tuple[Place, list[int]]:
    """The offsets of a tile's coordinates beside `axis`, and of each bit of the index; both in bytes."""
    places, size = buffer_layout(type).pseudo_invert(), byte_size(type)
    names = dimension_names(len(type.shape))

    def offset(row: tuple[int, ...]) -> int:
        return places.apply(**dict(zip(names, row, strict=True)))[0] * size

    beside = {
        name: tuple(offset((*row[:axis], 0, *row[axis + 1 :])) for row in rows) for name, rows in layout.bases.items()
    }
    bits = range((type.shape[axis] - 1).bit_length())
    return Place(beside), [offset(tuple(1 << bit if dim == axis else 0 for dim in range(len(names)))) for bit in bits]


# --- histograms -------------------------------------------------------------------------------------------------

COUNT, COUNT_BITS = 4, 32
"""Bytes and bits of a bin."""


def histogram(lowerer: Lowerer, op: Histogram) -> None:
    """Count how many elements have each value."""
    bins, scratch = tile_type(op.result).numel, lowerer.scratch(op)
    _clear(lowerer, scratch, bins)
    lowerer.barrier()
    for value, condition in _counted(lowerer, op.source, op.mask):
        _count(lowerer, scratch, bins, value, condition)
    lowerer.barrier()
    lowerer.bind(op.result, _bins(lowerer, op))


def _clear(lowerer: Lowerer, scratch: str, bins: int) -> None:
    """Let every thread clear some of the bins."""
    w, threads = lowerer.w, lowerer.target.threads
    own = offset(lowerer, scratch, w.emit(f"shl i32 {lowerer.thread()}, 2"))
    for start in range(0, bins, threads):
        place = offset(lowerer, own, start * COUNT)
        if bins - start >= threads:
            w.do(f"store i32 0, {SHARED_POINTER} {place}, align {COUNT}")
        else:
            left = w.emit(f"icmp ult i32 {lowerer.thread()}, {bins - start}")
            lowerer.assembly("@$1 st.shared.b32 [ $0 ], 0;", [(SHARED_POINTER, place), ("i1", left)])


def _counted(lowerer: Lowerer, source: Value, mask: Value | None) -> Iterator[tuple[str, str | None]]:
    """The elements that this thread counts, and on which condition."""
    values, masks = lowerer.registers(source), lowerer.registers(mask) if mask is not None else None
    alone = only_once(lowerer, source.type, per_block=True)
    for register in sorted(first_registers(lowerer.layout(source)).values()):
        value = index_of(lowerer, source, values[register])
        yield value, both(lowerer, alone, masks[register] if masks is not None else None)


def _count(lowerer: Lowerer, scratch: str, bins: int, value: str, condition: str | None) -> None:
    w = lowerer.w
    known = w.emit(f"icmp ult i32 {value}, {bins}")
    place = offset(lowerer, scratch, w.emit(f"shl i32 {value}, 2"))
    wanted = both(lowerer, known, condition) or known
    lowerer.assembly("@$1 red.shared.add.u32 [ $0 ], 1;", [(SHARED_POINTER, place), ("i1", wanted)])


def _bins(lowerer: Lowerer, op: Histogram) -> list[str]:
    plan = plan_of(_in_memory(lowerer.layout(op.result)), COUNT_BITS)
    return load_tile(lowerer, "i32", plan, Bytes(str(scratch_offset(op))))


LOWERINGS: dict[str, Lowering] = {
    "tt.gather": gather,
    "ttg.local_gather": _local_gather,
    "ttg.local_scatter": _scatter,
    "tt.histogram": histogram,
}
