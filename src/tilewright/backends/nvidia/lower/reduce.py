"""`tt.reduce`: each thread folds its registers, then lanes fold theirs by shuffles, then warps theirs through memory.

%s = "tt.reduce"(%x) <{axis = 0}> ({ … arith.addf … }) : (tensor<1024xf32, #blocked>) -> f32        4 warps

%v1 = fadd …                                     registers, neighbours first
%v9 = llvm.nvvm.shfl.sync.bfly.i32 … 16          lanes, the highest bit first; or all at once by redux.sync
store float …, ptr addrspace(3) …                one part of each warp
barrier
load <4 x i32> …                                 all parts, into registers or lanes: whichever takes fewer instructions

The scratch memory is what `analysis/reduction_scratch.py` reserves. Sums are added in Triton's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tilewright.analysis.reduction_scratch import folded, into_lanes, is_split, layout_of, rows_of, without_copies
from tilewright.backends.nvidia.lower.combine import Combination, Row, axis_of
from tilewright.backends.nvidia.lower.exchange import exchange, exchange_bytes, scratch_offset
from tilewright.backends.nvidia.lower.lanes import shuffled
from tilewright.backends.nvidia.lower.lowerer import WARP, Lowerer, Lowering
from tilewright.backends.nvidia.lower.warp_folds import fold_warp, has_warp_fold
from tilewright.ir.core import Op
from tilewright.ir.types import TensorType
from tilewright.layouts.linear_layout import LinearLayout

SHUFFLE_COST = 2
"""What a shuffle costs, where an ordinary instruction costs 1: it has half the throughput."""
VECTOR_WORDS = 4


class Fold(NamedTuple):
    """One round: what happens to the parts that threads hold.

    Attributes:
        layout: of the parts.
        registers: masks of bits of the register to fold, in order.
        lanes: masks of bits of the lane to fold, in order.
    """

    layout: LinearLayout
    registers: tuple[int, ...]
    lanes: tuple[int, ...]


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
def reduction_plan(layout: LinearLayout, axis: int, elements: tuple[str, ...], cost: int, words: int) -> Reduction:
    """How to reduce a tile.

    Args:
        layout: of the operands.
        axis: the dimension that is folded.
        elements: the LLVM types of the operands.
        cost: instructions of the function.
        words: how many words of 32 bits the elements take.
    """
    rows = rows_of(layout)
    copies = [bit for bit, row in enumerate(rows["register"]) if not any(row)]
    kept = tuple(
        register for register in range(layout.in_size("register")) if not any(register >> bit & 1 for bit in copies)
    )
    rows = without_copies(rows)
    first = Fold(layout_of(rows), _masks(rows, axis, "register"), _masks(rows, axis, "lane")[::-1])
    rows = folded(folded(rows, axis, "register"), axis, "lane")
    folds, results = [first], [layout_of(rows)]
    while is_split(rows, axis):
        lanes, registers = into_lanes(rows, axis), _into_registers(rows, axis)
        if len(folds) == 1 and _prefers_registers(rows, axis, elements, cost, words):
            folds.append(Fold(layout_of(registers), _masks(registers, axis, "register")[::-1], ()))
            rows = folded(registers, axis, "register")
        else:
            folds.append(Fold(layout_of(lanes), (), _masks(lanes, axis, "lane")[::-1]))
            rows = folded(lanes, axis, "lane")
        results.append(layout_of(rows))
    return Reduction(kept, tuple(folds), tuple(results))


def _masks(rows: dict[str, list[tuple[int, ...]]], axis: int, name: str) -> tuple[int, ...]:
    """The bits of an input that move along the axis."""
    moving = [(bit, row) for bit, row in enumerate(rows[name]) if row[axis]]
    assert all(not any(row[:axis] + row[axis + 1 :]) for _, row in moving), "steps along the axis move along it alone"
    return tuple(1 << bit for bit, _ in moving)


def _into_registers(rows: dict[str, list[tuple[int, ...]]], axis: int) -> dict[str, list[tuple[int, ...]]]:
    """The layout in which each thread holds what all warps held along `axis`."""
    moving = [row for row in rows["warp"] if row[axis]]
    still = [(0,) * len(row) if row[axis] else row for row in rows["warp"]]
    return {**rows, "register": [*rows["register"], *moving], "warp": still}


def _prefers_registers(
    rows: dict[str, list[tuple[int, ...]]], axis: int, elements: tuple[str, ...], cost: int, words: int
) -> bool:
    """Whether each thread should fold the parts of all warps alone; it must fit into the same scratch memory."""
    if any(row[axis] for row in rows["block"]):
        return False
    bits = sum(bool(row[axis]) for row in rows["warp"])
    kept, parts = 1 << len(rows["register"]), 1 << bits
    in_lanes = kept * (bits * (SHUFFLE_COST * words + cost) + len(elements)) + 2
    in_registers = kept * ((parts - 1) * cost + -(-parts * words // VECTOR_WORDS))
    if in_registers > in_lanes:
        return False
    before = layout_of(rows)
    sizes = [exchange_bytes(before, layout_of(after(rows, axis)), elements) for after in (_into_registers, into_lanes)]
    return sizes[0] <= sizes[1]


def reduce(lowerer: Lowerer, op: Op) -> None:
    """Fold a tile, or several together, along an axis."""
    combine = Combination(lowerer, op)
    layout, axis = lowerer.layout(op.operands[0]), axis_of(op)
    plan = reduction_plan(layout, axis, tuple(combine.elements), combine.cost, combine.words)
    rows = combine.rows()
    rows = [rows[register] for register in plan.kept]
    for index, fold in enumerate(plan.folds):
        if index > 1:
            lowerer.barrier()
        if index:
            rows = exchange(lowerer, rows, plan.results[index - 1], fold.layout, combine.elements, scratch_offset(op))
        rows = _folded_lanes(combine, _folded_registers(combine, rows, fold.registers), fold.lanes)
    _bind(lowerer, op, combine, rows, plan)


def _folded_registers(combine: Combination, rows: Sequence[Row], masks: Sequence[int]) -> list[Row]:
    """The rows of the registers that are left."""
    found = dict(enumerate(rows))
    for mask in masks:
        found = {
            register: combine(row, found[register | mask]) for register, row in found.items() if not register & mask
        }
    return list(found.values())


def _folded_lanes(combine: Combination, rows: list[Row], masks: Sequence[int]) -> list[Row]:
    if sum(masks) == WARP - 1 and has_warp_fold(combine):
        return [[fold_warp(combine, row[0])] for row in rows]
    for mask in masks:
        rows = [combine(row, _from_lane(combine, row, mask)) for row in rows]
    return rows


def _from_lane(combine: Combination, row: Row, mask: int) -> Row:
    return [
        shuffled(combine.lowerer, "bfly", element, value, mask)
        for element, value in zip(combine.elements, row, strict=True)
    ]


def _bind(lowerer: Lowerer, op: Op, combine: Combination, rows: list[Row], plan: Reduction) -> None:
    """Give the results what is left, in their layout."""
    type, left = op.results[0].type, plan.results[-1]
    if not isinstance(type, TensorType):
        combine.bind(rows)
        return
    axis, wanted = axis_of(op), lowerer.layout(type)
    rest = _without_axis(left, axis, wanted)
    places = rest.without_zeros("register")
    if any(rest.columns[name] != wanted.columns[name] for name in ("lane", "warp", "block")):
        lowerer.barrier()
        result = wanted.without_zeros("register")
        rows = exchange(lowerer, rows, places, result, combine.elements, scratch_offset(op))
        places = result
    first = {places.image({"register": register}): row for register, row in reversed(list(enumerate(rows)))}
    combine.bind([first[wanted.image({"register": register})] for register in range(wanted.in_size("register"))])


def _without_axis(layout: LinearLayout, axis: int, wanted: LinearLayout) -> LinearLayout:
    """The layout of the result; the axis has no bits left, so the columns stay as they are."""
    return LinearLayout(layout.columns, wanted.outs)


LOWERINGS: dict[str, Lowering] = {"tt.reduce": reduce}
