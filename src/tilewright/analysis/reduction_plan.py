"""The plan of a reduction on a GPU, as plain data: which index bits are folded where, and in which order.

    plan = reduction_plan(layout, 0, Function((32,)))
    plan.folds[0].registers, plan.folds[0].lanes       # (1, 2), (16, 8, 4, 2, 1): neighbours first; far lanes first
    plan.folds[1].registers, plan.folds[1].lanes       # (2, 1), (): each thread folds the results of four warps

Where each lane holds partial results of several rows, lanes divide the work: of every two rows, half of the lanes fold
one and half the other, so that the next step has half as many rows. Rows are recombined at the end, or by the exchange
between warps.

The scratch memory is that of the largest exchange: a conversion moves the partial results of warps into lanes, where
they are folded again; with very many warps this takes several rounds. Scans and gathers exchange less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from math import prod
from typing import NamedTuple

from tilewright.dialects.arith import Bitwise, Extreme, FloatExtreme, IntegerExtreme
from tilewright.ir.core import Op
from tilewright.ir.types import FloatType, IntType, Shape, Type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Blocked, Distributed, LayoutError
from tilewright.layouts.linear_layout import LinearLayout, from_bases
from tilewright.layouts.queries import contiguous_per_thread, threads_per_warp, warps_per_cta
from tilewright.layouts.swizzle import SwizzledBuffer, best_buffer, in_one_dimension, parts_in_blocks

Row = tuple[int, ...]
Rows = dict[str, list[Row]]


def reduction_bytes(layout: Distributed, shape: Shape, axis: int, bits: Sequence[int]) -> int:
    """Scratch memory in bytes of a reduction along `axis`; `bits` is the width of the elements of each operand."""
    linear = to_linear_layout(layout, shape)
    blocks, rows = parts_in_blocks(linear), without_copies(rows_of(linear))
    rows = folded(folded(rows, axis, "register"), axis, "lane")
    most = 0
    while is_split(rows, axis):
        moved = into_lanes(rows, axis)
        before, after = layout_of(rows), layout_of(moved)
        sizes = (cross_warp_elements(before, after, width) // blocks * (width // 8) for width in bits)
        most = max(most, sum(sizes))
        rows = folded(moved, axis, "lane")
    return most


def rows_of(layout: LinearLayout) -> Rows:
    """Per input, the step in the tile that each of its bits makes."""
    return {name: list(rows) for name, rows in layout.bases.items()}


def is_split(rows: Rows, axis: int) -> bool:
    """Whether there is more than one part along the axis."""
    return any(row[axis] for steps in rows.values() for row in steps)


def folded(rows: Rows, axis: int, name: str) -> Rows:
    """The layout after `name` was folded along `axis`; what is left along the axis is renumbered.

    Registers that hold the same after that are one.
    """
    place = 1
    found: Rows = {}
    for key, steps in rows.items():
        found[key] = []
        for row in steps:
            step = 0 if key == name or not row[axis] else place
            place <<= bool(step)
            found[key].append((*row[:axis], step, *row[axis + 1 :]))
    return without_copies(found)


def without_copies(rows: Rows) -> Rows:
    """The layout without bits of the register that change nothing."""
    return {**rows, "register": [row for row in rows["register"] if any(row)]}


def into_lanes(rows: Rows, axis: int) -> Rows:
    """The layout in which lanes hold what warps and blocks held along `axis`."""
    lanes, outer = list(rows["lane"]), {name: list(rows[name]) for name in ("warp", "block")}
    wanted = [(name, place) for name, steps in outer.items() for place, row in enumerate(steps) if row[axis]]
    free = [place for place, row in enumerate(lanes) if not any(row)]
    if len(free) < len(wanted):
        # Lanes give up places of theirs; a later conversion brings these back.
        free = list(range(len(lanes)))
        wanted = wanted if len(wanted) <= len(lanes) else [place for place in wanted if place[0] == "warp"]
    for lane, (name, place) in zip(free, wanted, strict=False):
        lanes[lane], outer[name][place] = outer[name][place], lanes[lane]
    return {**rows, "lane": lanes, **outer}


def layout_of(rows: Rows) -> LinearLayout:
    """The layout whose outputs are just large enough for its steps."""
    steps = [row for column in rows.values() for row in column]
    sizes = [1 << max(values, default=0).bit_length() for values in zip(*steps, strict=True)]
    return from_bases(rows, [(f"dim{dim}", size) for dim, size in enumerate(sizes)])


def cross_warp_buffer(before: LinearLayout, after: LinearLayout, bits: int) -> SwizzledBuffer:
    """The buffer between two layouts when loads and stores are the ordinary ones; see `swizzle.py`."""
    return best_buffer(in_one_dimension(before), in_one_dimension(after), bits, (), ())


def cross_warp_elements(before: LinearLayout, after: LinearLayout, bits: int) -> int:
    """The elements that lie in that buffer at once."""
    buffer = cross_warp_buffer(before, after, bits).layout
    return int(1 << buffer.out_bits) // buffer.in_size("reps")


class Run(NamedTuple):
    """Bits of the index along an axis that follow one another and are bits of one input of the layout.

    Attributes:
        name: `register`, `lane`, `warp` or `block`.
        masks: one per bit of the index, the lowest first: the bit of the input.
    """

    name: str
    masks: tuple[int, ...]


def axis_runs(layout: LinearLayout, axis: int) -> list[Run]:
    """The bits of the index along an axis, the lowest run first.

    Raises:
        LayoutError: a step along the axis also moves elsewhere, or several steps make one.
    """
    shift, mask = layout.shifts[axis]
    places = {
        column: (name, 1 << bit)
        for name, columns in reversed(layout.columns.items())
        for bit, column in reversed(list(enumerate(columns)))
        if column & mask << shift
    }
    runs: list[Run] = []
    for bit in range(mask.bit_length()):
        step = places.get(1 << (shift + bit))
        if step is None or len(places) != mask.bit_length():
            raise LayoutError(f"no bit of a thread's place makes the step {1 << bit} alone")
        name, place = step
        if runs and runs[-1].name == name:
            runs[-1] = Run(name, (*runs[-1].masks, place))
        else:
            runs.append(Run(name, (place,)))
    return runs


def scan_bytes(layout: Distributed, shape: Shape, axis: int, bits: Sequence[int]) -> int:
    """Scratch memory of a scan, in bytes; arguments as of `reduction_bytes`."""
    warps = warps_per_cta(layout, shape)
    if warps[axis] == 1:
        return 0
    return _scan_parts(layout, shape, axis) * sum(-(-width // 8) for width in bits)


def _scan_parts(layout: Distributed, shape: Shape, axis: int) -> int:
    """The number of totals that warps exchange: each stores the last element of each of its rows."""
    if not isinstance(layout, Blocked):
        linear = to_linear_layout(layout, shape)
        below = takewhile(lambda run: run.name != "warp", axis_runs(linear, axis))
        return prod(shape) >> sum(len(run.masks) for run in below)
    warps, inside, lanes = (
        warps_per_cta(layout, shape),
        contiguous_per_thread(layout, shape),
        threads_per_warp(layout, shape),
    )
    rows = prod(lanes) // lanes[axis] * prod(inside) // inside[axis]
    repeats = prod(-(-size // (a * b * c)) for size, a, b, c in zip(shape, inside, lanes, warps, strict=True))
    return prod(warps) * rows * repeats


def gather_bytes(
    source: Distributed, shape: Shape, indices: Distributed, index_shape: Shape, axis: int, bits: int
) -> int:
    """The bytes of scratch memory that a gather needs: the whole source, unless every column stays in one warp.

    Args:
        source, shape: layout and extents of the tile that is gathered from.
        indices, index_shape: layout and extents of the indices.
        axis: along which elements are looked up.
        bits: of an element.
    """
    ours, theirs = to_linear_layout(source, shape), to_linear_layout(indices, index_shape)
    return 0 if stays_in_warps(ours, theirs, axis) else prod(shape) * -(-bits // 8)


def stays_in_warps(source: LinearLayout, indices: LinearLayout, axis: int) -> bool:
    """Whether the elements that a gather looks for are in registers of the same warp, in registers known beforehand."""
    along, others = [f"dim{axis}"], [name for name in source.out_names if name != f"dim{axis}"]
    outside = ("warp", "block")
    if not (source.is_zero(outside, along) and indices.is_zero(outside, along)):
        return False
    return all(source.sublayout(ins, others) == indices.sublayout(ins, others) for ins in (outside, ("lane",)))


WARP = 32
WORD = 32
SHUFFLE = 2
"""The cost of a shuffle, where an ordinary instruction costs 1: it has half the throughput."""
VECTOR_WORDS = 4
"""The number of words that one load brings."""
LANES_ADDRESS = 2
"""The cost of an address that differs from lane to lane."""


class Function(NamedTuple):
    """The facts that a plan needs about the function that combines elements.

    Attributes:
        bits: of each operand's elements in memory.
        cost: instructions.
        folds_warps: one instruction folds a whole warp.
        is_paired: one instruction does two elements of a thread at once.
    """

    bits: tuple[int, ...]
    cost: int = 1
    folds_warps: bool = False
    is_paired: bool = False

    @property
    def words(self) -> int:
        """The number of words of 32 bits that an element of all operands takes."""
        return sum(max(1, width // WORD) for width in self.bits)


WARP_FOLDS_SINCE = 80
"""The first compute capability with `redux.sync`."""
FLOAT_WARP_FOLDS_ON = 100
"""The compute capability whose `redux.sync` knows f32."""
PAIRS_SINCE = {"bf16": 90, "f16": 90, "f32": 100}
"""The first compute capability, per type, on which two elements at once are worth it."""
MIN_TO_PAIR = 2
"""Min number of bits of the register that move along the axis for Triton to take two elements at once."""


def function_of(op: Op, capability: int) -> Function:
    """The function of a `tt.reduce` on a device."""
    bits = tuple(max(8, value.type.scalar.bits) for value in op.operands)
    cost = sum(1 for _ in op.regions[0].block) - 1
    folds_warps = capability >= WARP_FOLDS_SINCE and _folds_warps(op, capability)
    return Function(bits, cost, folds_warps, _is_paired(op, capability))


def only_op(op: Op) -> Op | None:
    """The op that the function of a reduction consists of; None if it is more than one."""
    block = op.regions[0].block
    ops = list(block)
    if len(ops) != 2 or set(ops[0].operands) != set(block.args) or ops[1].operands != ops[0].results:
        return None
    return ops[0]


def _element(op: Op) -> Type:
    """The type of the elements of the first operand."""
    first, *_ = op.operands
    return first.type.scalar


def _folds_warps(op: Op, capability: int) -> bool:
    type, only = _element(op), only_op(op)
    if isinstance(type, FloatType):
        return capability == FLOAT_WARP_FOLDS_ON and type.text == "f32" and isinstance(only, FloatExtreme)
    if only is None or not isinstance(type, IntType):
        return False
    if isinstance(only, IntegerExtreme):
        return type.bits <= WORD  # the parts of wider ones cannot be compared one by one
    return isinstance(only, Bitwise) or only.name == "arith.addi"


def _is_paired(op: Op, capability: int) -> bool:
    """Whether two elements of a thread are worth one instruction. Extremes of f32 have none."""
    element, only = _element(op).text, only_op(op)
    if only is None or not only.definition.commutative or (element == "f32" and isinstance(only, Extreme)):
        return False
    return capability >= PAIRS_SINCE.get(element, capability + 1)


class Fold(NamedTuple):
    """One round: what happens to the parts that threads hold.

    Attributes:
        layout: of the parts.
        registers: masks of bits of the register to fold, in order.
        is_paired: registers that differ in bit 0 are folded together, as pairs; bit 0 comes last.
        halves: then pairs of masks, of a bit of the register and one of the lane: lanes in which the second is set go
            on with the registers in which the first is set, the others with the others; each gets the other's part.
        lanes: then masks of bits of the lane to fold, in order.
        is_gathered: in the end the registers that were given up for `halves` come back from the other lanes.
        folds_warp: `lanes` are all lanes, and one instruction folds them.
    """

    layout: LinearLayout
    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    halves: tuple[tuple[int, int], ...] = ()
    is_gathered: bool = False
    folds_warp: bool = False
    is_paired: bool = False


class Reduction(NamedTuple):
    """A reduction without its function.

    Attributes:
        kept: the registers of the operands that are no copies of others.
        folds: one after the other; between two the parts are exchanged.
        results: per fold the layout that it leaves.
    """

    kept: tuple[int, ...]
    folds: tuple[Fold, ...]
    results: tuple[LinearLayout, ...]


@cache
def reduction_plan(layout: LinearLayout, axis: int, function: Function) -> Reduction:
    """The plan for reducing operands with `layout` along `axis` by `function`."""
    rows = rows_of(layout)
    copies = [bit for bit, row in enumerate(rows["register"]) if not any(row)]
    kept = tuple(
        register for register in range(layout.in_size("register")) if not any(register >> bit & 1 for bit in copies)
    )
    rows = without_copies(rows)
    first, left = _first_fold(rows, axis, function)
    rows = folded(folded(rows, axis, "register"), axis, "lane")
    folds, results = [first], [layout_of(left)]
    while is_split(rows, axis):
        count = _bits_for_registers(rows, axis, function) if len(folds) == 1 else 0
        moved = into_lanes(_into_registers(rows, axis, count), axis)
        registers, lanes = (_masks(moved, axis, name)[::-1] for name in ("register", "lane"))
        folds_warp = function.folds_warps and sum(lanes) == WARP - 1
        folds.append(Fold(layout_of(moved), registers, lanes, folds_warp=folds_warp))
        rows = folded(folded(moved, axis, "register"), axis, "lane")
        results.append(layout_of(rows))
    return Reduction(kept, tuple(folds), tuple(results))


def _masks(rows: Rows, axis: int, name: str) -> tuple[int, ...]:
    """The bits of an input that move along the axis."""
    moving = [(bit, row) for bit, row in enumerate(rows[name]) if row[axis]]
    assert all(not any(row[:axis] + row[axis + 1 :]) for _, row in moving), "steps along the axis move along it alone"
    return tuple(1 << bit for bit, _ in moving)


# --- within warps -----------------------------------------------------------------------------------------------


def _first_fold(rows: Rows, axis: int, function: Function) -> tuple[Fold, Rows]:
    """The fold that each warp does for itself, and the layout that this leaves."""
    registers, lanes = _masks(rows, axis, "register"), _masks(rows, axis, "lane")[::-1]
    plain = folded(folded(rows, axis, "register"), axis, "lane")
    is_last = not is_split(plain, axis)
    is_paired = function.is_paired and len(registers) >= MIN_TO_PAIR
    if is_paired and registers[0] == 1:
        registers = (*registers[1:], 1)
    if function.folds_warps and sum(lanes) == WARP - 1:
        return Fold(layout_of(rows), registers, lanes, folds_warp=True, is_paired=is_paired), plain
    kept = [bit for bit, row in enumerate(rows["register"]) if not row[axis]]
    least, count = min(
        (_lane_cost(len(kept), len(lanes), steps, function, is_gathered=is_last), steps)
        for steps in range(min(len(kept), len(lanes)) + 1)
    )
    # Neighbouring rows go to neighbouring lanes.
    halves = tuple((1 << bit, lane) for bit, lane in zip(kept[:count][::-1], lanes, strict=False))
    left = plain if is_last else _shared_out(plain, lanes[:count], count)
    assert least >= 0, "costs are no gains"
    return Fold(layout_of(rows), registers, lanes[count:], halves, is_last, is_paired=is_paired), left


def _lane_cost(rows: int, lanes: int, steps: int, function: Function, *, is_gathered: bool) -> int:
    """The cost of folding 2^rows registers over 2^lanes lanes, if the first `steps` steps halve the registers."""
    moved, choices = SHUFFLE * function.words, 2 * function.words
    before, after = 1 << rows, 1 << (rows - steps)
    halving = (before - after) * (moved + choices + function.cost)
    gathering = (before - after) * (moved + choices) if is_gathered else 0
    return halving + gathering + after * (lanes - steps) * (moved + function.cost)


def _shared_out(rows: Rows, lanes: tuple[int, ...], steps: int) -> Rows:
    """The layout `rows`, in which lanes are copies of each other, once lanes have given up rows for each other."""
    moved = list(rows["lane"])
    own = rows["register"]
    for place, lane in zip(range(steps)[::-1], lanes, strict=True):
        moved[lane.bit_length() - 1] = own[place]
    return {**rows, "register": own[steps:], "lane": moved}


# --- between warps ----------------------------------------------------------------------------------------------


def _into_registers(rows: Rows, axis: int, count: int) -> Rows:
    """The layout in which each thread holds what warps held that differ in the `count` highest bits along `axis`."""
    moving = [place for place, row in enumerate(rows["warp"]) if row[axis]]
    moving = moving[len(moving) - count :]
    still = [(0,) * len(row) if place in moving else row for place, row in enumerate(rows["warp"])]
    return {**rows, "register": [*rows["register"], *(rows["warp"][place] for place in moving)], "warp": still}


def _bits_for_registers(rows: Rows, axis: int, function: Function) -> int:
    """How many bits of the warp each thread folds alone; lanes fold the others.

    The plan counts that has the fewest instructions and registers, with one more for each part that is held at once.
    """
    if any(row[axis] for row in rows["block"]):
        return 0
    bits, kept = sum(bool(row[axis]) for row in rows["warp"]), 1 << len(rows["register"])
    address = 0 if any(map(any, rows["lane"])) else LANES_ADDRESS  # lanes with rows of their own have it anyway

    def cost(count: int) -> int:
        lanes = bits - count
        return _exchange_cost(kept, count, lanes, function) + (address if lanes else 0)

    return min(range(bits + 1), key=cost)


def _exchange_cost(rows: int, registers: int, lanes: int, function: Function) -> int:
    """The cost of reading 2^registers parts of each of the rows in each of 2^lanes lanes, and of folding them.

    The parts of one row take registers, which count as much as instructions: with four parts instead of two, kernels
    that reduce a row by eight warps take up to 46 registers instead of 40, and no instruction less.
    """
    parts = 1 << registers
    loads = -(-parts * function.words // VECTOR_WORDS) if registers else len(function.bits)
    in_lanes = lanes * (SHUFFLE * function.words + function.cost)
    if function.folds_warps and 1 << lanes == WARP:
        in_lanes = SHUFFLE
    return rows * (loads + (parts - 1) * function.cost + in_lanes) + parts * function.words


def planned_bytes(op: Op, layout: LinearLayout, axis: int, capability: int) -> int:
    """The scratch memory that a `tt.reduce` needs when it is done as `reduction_plan` says."""
    function = function_of(op, capability)
    plan = reduction_plan(layout, axis, function)
    pairs = zip(plan.results, plan.folds[1:], strict=False)
    return max((cross_warp_bytes(before, fold.layout, function.bits) for before, fold in pairs), default=0)


def cross_warp_bytes(before: LinearLayout, after: LinearLayout, bits: tuple[int, ...]) -> int:
    """The bytes that an exchange of one block needs."""
    blocks = parts_in_blocks(before)
    return sum(cross_warp_elements(before, after, width) // blocks * (width // 8) for width in bits)
