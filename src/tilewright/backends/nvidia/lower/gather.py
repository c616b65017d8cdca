"""`tt.gather`: elements of a tile by their number along an axis.

%g = tt.gather %x[%i] {axis = 0}        within warps: the lane that has the element is asked for each register that
                                        may be it; otherwise the tile goes to shared memory, and each thread looks
%g = tt.gather %x[%i ^ 16]              as sorting networks do: one shuffle of each register, or only other registers
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from operator import xor
from typing import NamedTuple

from tilewright.analysis.gather_distance import distance_of, step_of
from tilewright.analysis.reduction_plan import stays_in_warps
from tilewright.backends.llvm.spelling import bits_of
from tilewright.backends.nvidia.lower.access_plan import combinations, plan_of
from tilewright.backends.nvidia.lower.address import place_of
from tilewright.backends.nvidia.lower.cross_lane import added, mapped, shuffled
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering, scratch_offset
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.backends.nvidia.lower.shared_tiles import BYTE, Bytes, load_tile, memory_bits, offset, store_tile
from tilewright.dialects.tt_shape import Gather
from tilewright.ir.core import Value
from tilewright.layouts.linear_layout import LinearLayout

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
    known = {value: shuffled(lowerer, "bfly", element, value, step["lane"]) for value in dict.fromkeys(sent)}
    return [known[value] for value in sent]


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
    known: dict[tuple[str, int, str], str] = {}
    found = []
    for register, value in enumerate(lowerer.registers(indices)):
        thread, fixed = lowerer.placed(start, register)
        key = thread, fixed, value
        if key not in known:
            number = w.emit(f"shl i32 {index_of(lowerer, indices, value)}, {shift}")
            number = number if thread == "0" else w.emit(f"add i32 {number}, {thread}")
            place = lowerer.shared(w.emit(f"mul i32 {number}, {bits // BYTE}"))
            known[key] = load_element(lowerer, element, offset(lowerer, place, scratch + fixed * bits // BYTE))
        found.append(known[key])
    return found


def load_element(lowerer: Lowerer, element: str, pointer: str) -> str:
    """One element from shared memory."""
    w, words = lowerer.w, PackedWords.of(memory_bits(element), 1)
    word = w.emit(f"load {words.type}, {SHARED_POINTER} {pointer}, align {words.width // BYTE}")
    (found,) = words.unpack(w, element, [w.convert("zext", word, words.type, words.register)])
    return found


# --- within warps -----------------------------------------------------------------------------------------------


def _by_shuffles(lowerer: Lowerer, op: Gather) -> list[str]:
    """Ask the lane that has the element for each of its registers that are in the column, and choose."""
    tile, indices = op.source, op.indices
    values, element = lowerer.registers(tile), lowerer.element(tile.type)
    owner = owners(lowerer.layout(tile), lowerer.layout(indices), op.axis)
    known: dict[tuple[int, str], str] = {}
    for register, value in enumerate(lowerer.registers(indices)):
        key = owner.column(register), value
        if key not in known:
            number = index_of(lowerer, indices, value)
            lane = added(lowerer, lowerer.linear(owner.lanes), mapped(lowerer, number, owner.lane_steps))
            asked = {key[0] ^ step: "" for step in combinations([step for step in owner.register_steps if step])}
            for held in asked:
                asked[held] = shuffled(lowerer, "idx", element, values[held], lane)
            known[key] = _chosen(lowerer, element, asked, key[0], mapped(lowerer, number, owner.register_steps))
    return [known[owner.column(register), value] for register, value in enumerate(lowerer.registers(indices))]


class Owners(NamedTuple):
    """The lane and the register that have the element that an index names.

    Attributes:
        lanes: per bit of the lane, what it adds to the number of the lane that is asked, whatever the index is.
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


LOWERINGS: dict[str, Lowering] = {"tt.gather": gather}
