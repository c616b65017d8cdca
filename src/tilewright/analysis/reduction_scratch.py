"""How much shared memory reductions, scans and gathers need: what warps have to tell each other.

A reduction first folds registers, then lanes. If warps still hold parts of a result, a conversion moves those parts
into lanes, where they are folded again; with very many warps this takes several rounds. The scratch memory is that of
the largest such conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.distributed import Blocked
from tilewright.layouts.encoding import Distributed
from tilewright.layouts.linear_layout import LinearLayout, from_bases
from tilewright.layouts.queries import contiguous_per_thread, cta_split, threads_per_warp, warps_per_cta
from tilewright.layouts.swizzle import best_buffer

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
    rows: Rows = {name: list(rows) for name, rows in to_linear_layout(layout, shape).bases.items()}
    rows = _folded(_without_copies(_folded(rows, axis, "register")), axis, "lane")
    most = 0
    while any(row[axis] for steps in rows.values() for row in steps):
        moved = _into_lanes(rows, axis)
        before, after = _layout(rows), _layout(moved)
        most = max(most, sum(_buffer_elements(before, after, width) // blocks * (width // 8) for width in bits))
        rows = _folded(moved, axis, "lane")
    return most


def _folded(rows: Rows, axis: int, name: str) -> Rows:
    """The layout after `name` was folded along `axis`; what is left along the axis is numbered anew."""
    place = 1
    found: Rows = {}
    for key, steps in rows.items():
        found[key] = []
        for row in steps:
            step = 0 if key == name or not row[axis] else place
            place <<= bool(step)
            found[key].append((*row[:axis], step, *row[axis + 1 :]))
    return found


def _without_copies(rows: Rows) -> Rows:
    return {**rows, "register": [row for row in rows["register"] if any(row)]}


def _into_lanes(rows: Rows, axis: int) -> Rows:
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


def _layout(rows: Rows) -> LinearLayout:
    """The layout whose outputs are just large enough for its steps."""
    steps = [row for column in rows.values() for row in column]
    sizes = [2 * max(values) or 1 for values in zip(*steps, strict=True)]
    return from_bases(rows, [(f"dim{dim}", size) for dim, size in enumerate(sizes)])


def _buffer_elements(before: LinearLayout, after: LinearLayout, bits: int) -> int:
    """The elements of the buffer between two layouts when loads and stores are the ordinary ones."""
    buffer = best_buffer(_in_one_dimension(before), _in_one_dimension(after), bits, (), ()).layout
    return int(1 << buffer.out_bits) // buffer.in_size("reps")


def _in_one_dimension(layout: LinearLayout) -> LinearLayout:
    turned = layout.transpose_outs(layout.out_names[::-1])
    return LinearLayout(turned.columns, (("element", 1 << turned.out_bits),))


def scan_bytes(layout: Distributed, shape: Shape, axis: int, bits: Sequence[int]) -> int:
    """Scratch memory of a scan, in bytes; arguments as of `reduction_bytes`."""
    warps = warps_per_cta(layout, shape)
    if not isinstance(layout, Blocked) or warps[axis] == 1:
        return 0
    inside, lanes = contiguous_per_thread(layout, shape), threads_per_warp(layout, shape)
    # Each warp leaves the last element of each of its rows.
    rows = prod(lanes) // lanes[axis] * prod(inside) // inside[axis]
    repeats = prod(-(-size // (a * b * c)) for size, a, b, c in zip(shape, inside, lanes, warps, strict=True))
    return prod(warps) * rows * repeats * sum(-(-width // 8) for width in bits)


def gather_bytes(
    source: Distributed, shape: Shape, indices: Distributed, index_shape: Shape, axis: int, bits: int
) -> int:
    """Scratch memory of a gather, in bytes: the whole source, unless every column stays in one warp."""
    ours, theirs = to_linear_layout(source, shape), to_linear_layout(indices, index_shape)
    along, others = [f"dim{axis}"], [name for name in ours.out_names if name != f"dim{axis}"]
    outside = ("warp", "block")
    fixed = ours.is_zero(outside, along) and theirs.is_zero(outside, along)
    if fixed and all(ours.sublayout(ins, others) == theirs.sublayout(ins, others) for ins in (outside, ("lane",))):
        return 0
    return prod(shape) * -(-bits // 8)
