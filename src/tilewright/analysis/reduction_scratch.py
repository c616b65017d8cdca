"""The size of the shared memory of reductions, scans and gathers: what warps have to tell each other.

A reduction first folds registers, then lanes. If warps still hold parts of a result, a conversion moves those parts
into lanes, where they are folded again; with very many warps this takes several rounds. The scratch memory is that of
the largest such conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod
from typing import NamedTuple

from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.distributed import Blocked
from tilewright.layouts.encoding import Distributed
from tilewright.layouts.errors import LayoutError
from tilewright.layouts.linear_layout import LinearLayout, from_bases
from tilewright.layouts.queries import contiguous_per_thread, cta_split, threads_per_warp, warps_per_cta
from tilewright.layouts.swizzle import SwizzledBuffer, best_buffer

Shape = tuple[int, ...]
Row = tuple[int, ...]
Rows = dict[str, list[Row]]


def reduction_bytes(layout: Distributed, shape: Shape, axis: int, bits: Sequence[int]) -> int:
    """Scratch memory of a reduction.

    Args:
        layout: of the operands.
        shape: of the operands.
        axis: the dimension that is folded.
        bits: the width of the elements of each operand.

    Returns:
        bytes.
    """
    blocks = prod(cta_split(layout))
    rows = without_copies(rows_of(to_linear_layout(layout, shape)))
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
    """The layout after `name` was folded along `axis`; what is left along the axis is numbered anew.

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


def in_one_dimension(layout: LinearLayout) -> LinearLayout:
    """The same columns with one output, in which dimension 0 is the fastest."""
    turned = layout.transpose_outs(layout.out_names[::-1])
    return LinearLayout(turned.columns, (("element", 1 << turned.out_bits),))


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
    """The number of parts that warps tell each other: each leaves the last element of each of its rows."""
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
    """Scratch memory of a gather, in bytes: the whole source, unless every column stays in one warp."""
    ours, theirs = to_linear_layout(source, shape), to_linear_layout(indices, index_shape)
    return 0 if stays_in_warps(ours, theirs, axis) else prod(shape) * -(-bits // 8)


def stays_in_warps(source: LinearLayout, indices: LinearLayout, axis: int) -> bool:
    """Whether the elements that a gather looks for are in registers of the same warp, in registers known beforehand."""
    along, others = [f"dim{axis}"], [name for name in source.out_names if name != f"dim{axis}"]
    outside = ("warp", "block")
    if not (source.is_zero(outside, along) and indices.is_zero(outside, along)):
        return False
    return all(source.sublayout(ins, others) == indices.sublayout(ins, others) for ins in (outside, ("lane",)))
