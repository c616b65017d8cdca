"""`tt.reduce`: each thread reduces its registers, then lanes by shuffles, then warps through shared memory.

%s = "tt.reduce"(%x) <{axis = 0}> ({ … arith.addf … }) : (tensor<1024xf32, #blocked>) -> f32        4 warps

%v1 = fadd …                                     registers, neighbours first
%v9 = llvm.nvvm.shfl.sync.bfly.i32 … 16          lanes, the highest bit first; or all at once by redux.sync
%v21 = llvm.nvvm.shfl.sync.idx.i32 … %first      if not commutative: all lanes take the first one's result
store float …, ptr addrspace(3) …                one partial result of each warp
barrier
load <4 x i32> …                                 some partial results in a thread, the rest by shuffles

The scratch memory is reserved by `analysis/reduction_plan.py`. Additions happen in Triton's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import starmap

from tilewright.analysis.reduction_plan import (
    Fold,
    Reduction,
    cross_warp_buffer,
    cross_warp_bytes,
    function_of,
    only_op,
    reduction_plan,
)
from tilewright.backends.llvm.spelling import vector
from tilewright.backends.nvidia.lower.convert_layout import Conversion, plan_through
from tilewright.backends.nvidia.lower.cross_lane import Combination, Row, fold_warp
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, scratch_offset
from tilewright.backends.nvidia.lower.shared_tiles import (
    cluster_barrier,
    load_tile,
    memory_bits,
    side_by_side,
    store_tile,
)
from tilewright.dialects.math import Approximate
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op
from tilewright.ir.types import TensorType, f32
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.swizzle import in_one_dimension


@cache
def cross_warp_plan(before: LinearLayout, after: LinearLayout, bits: int) -> Conversion:
    """The plan by which a tile goes from one layout to another.

    Args:
        before: the layout that the tile has.
        after: the layout that it gets.
        bits: bits of one element in memory.
    """
    return plan_through(in_one_dimension(before), in_one_dimension(after), cross_warp_buffer(before, after, bits), bits)


def exchange_across_warps(
    lowerer: Lowerer, rows: Sequence[Row], before: LinearLayout, after: LinearLayout, elements: Sequence[str], base: int
) -> list[Row]:
    """The rows in the registers of `after`.

    Args:
        rows: per register of `before` its element of each operand.
        before: the layout that the rows have.
        after: the layout that they get.
        elements: the LLVM types of a row.
        base: where the scratch memory begins, in bytes.
    """
    plans = [cross_warp_plan(before, after, memory_bits(element)) for element in elements]
    places = side_by_side(elements, base, lambda bits: cross_warp_bytes(before, after, (bits,)))
    columns = list(zip(*rows, strict=True))
    found: list[dict[int, str]] = [{} for _ in elements]
    rounds = max(len(plan.parts) for plan in plans)
    between_blocks = any(plan.load.block is not None for plan in plans)
    wait = partial(cluster_barrier, lowerer) if between_blocks else lowerer.barrier
    for number in range(rounds):
        if number:
            wait()
        active = [index for index, plan in enumerate(plans) if number < len(plan.parts)]
        for index in active:
            values = [columns[index][register] for register in plans[index].parts[number].stored]
            store_tile(lowerer, values, elements[index], plans[index].store, places[index])
        wait()
        for index in active:
            values = load_tile(lowerer, elements[index], plans[index].load, places[index])
            found[index].update(zip(plans[index].parts[number].loaded, values, strict=True))
    if between_blocks:
        wait()  # what follows may write, or end the block
    return [[column[register] for column in found] for register in range(after.in_size("register"))]


def reduce(lowerer: Lowerer, op: Reduce) -> None:
    """Lower `tt.reduce`: fold a tile, or several together, along an axis."""
    combine = Combination(lowerer, op)
    first, *_ = op.sources
    plan = reduction_plan(lowerer.layout(first), op.axis, function_of(op, lowerer.target.capability))
    rows = combine.rows()
    rows = [rows[register] for register in plan.kept]
    factors = _factors(lowerer, op, plan.kept)
    for index, fold in enumerate(plan.folds):
        if index > 1:
            lowerer.barrier()
        if index:
            rows = exchange_across_warps(
                lowerer, rows, plan.results[index - 1], fold.layout, combine.elements, scratch_offset(op)
            )
            factors = None
        rows = _folded_lanes(combine, _folded_registers(combine, rows, fold, factors), fold)
    _bind(lowerer, op, combine, rows, plan)


def _factors(lowerer: Lowerer, op: Reduce, kept: Sequence[int]) -> list[Row] | None:
    """Per register the factors of which the operand is the product, if it is one of f32 that nothing else needs."""
    source, *others = op.sources
    product = source.op
    if others or product is None or product.name != "arith.mulf" or len(source.uses) > 1:
        return None
    if source.type.scalar is not f32:
        return None
    factors = [list(row) for row in zip(*map(lowerer.registers, product.operands), strict=True)]
    return [factors[register] for register in kept]


def _folded_registers(
    combine: Combination, rows: Sequence[Row], fold: Fold, factors: Sequence[Row] | None
) -> list[Row]:
    """The rows of the registers that are left; `factors` as from `_factors`."""
    found = dict(enumerate(rows))
    masks = fold.registers
    if fold.is_paired and not _is_of_functions(combine.op):
        found = _folded_pairs(combine, found, [mask for mask in masks if mask != 1], factors)
        masks = masks[-1:] if masks[-1] == 1 else ()
    return [_folded_tree(combine, found, register, masks) for register in found if not register & sum(masks)]


def _is_of_functions(op: Op) -> bool:
    """Whether a function for single elements gives the operand, so that pairs would have to be put together."""
    source, *_ = op.operands
    return isinstance(source.op, Approximate)


def _folded_tree(combine: Combination, rows: dict[int, Row], register: int, masks: Sequence[int]) -> Row:
    """A register with those that differ from it in the bits of `masks`, the last of which is folded last.

    One half is finished before the other is begun: few parts wait at a time, and take registers.
    """
    if not masks:
        return rows[register]
    *inner, last = masks
    first = _folded_tree(combine, rows, register, inner)
    return combine(first, _folded_tree(combine, rows, register | last, inner))


def _without(rows: dict[int, Row], mask: int, fold: Callable[[Row, Row], Row]) -> dict[int, Row]:
    """The rows without those of registers with the bit `mask`, which are folded into the others."""
    return {register: fold(row, rows[register | mask]) for register, row in rows.items() if not register & mask}


def _folded_pairs(
    combine: Combination, rows: dict[int, Row], masks: Sequence[int], factors: Sequence[Row] | None
) -> dict[int, Row]:
    """The folded rows, where registers that differ in bit 0 are folded together."""
    pairs = PackedReduction(combine)

    def pair(register: int) -> str:
        if factors is None:
            return pairs.of(rows[register][0], rows[register | 1][0])
        return pairs.product(factors[register], factors[register | 1])

    found = {register: [pair(register)] for register in rows if not register & 1}
    for mask in masks:
        found = _without(found, mask, lambda a, b: [pairs.fold(a[0], b[0])])
    halves = {register: pairs.halves(row[0]) for register, row in found.items()}
    return {register | side: [half] for register, both in halves.items() for side, half in enumerate(both)}


def _folded_lanes(combine: Combination, rows: list[Row], fold: Fold) -> list[Row]:
    """The rows, each folded over the lanes of a warp that differ along the axis."""
    if fold.folds_warp:
        return [[fold_warp(combine, row[0])] for row in rows]
    found = dict(zip(_left(fold.layout, fold.registers), rows, strict=True))
    for register, lane in fold.halves:
        found = _halved(combine, found, register, lane)
    for place, row in found.items():
        for mask in fold.lanes:
            row = combine.between_lanes(row, combine.shuffled(row, "bfly", mask))
        found[place] = combine.agreed(row, fold.lanes)
    for register, lane in reversed(fold.halves) if fold.is_gathered else ():
        found = _gathered(combine, found, register, lane)
    return [found[place] for place in sorted(found)]


def _left(layout: LinearLayout, masks: Sequence[int]) -> list[int]:
    """The registers that are left when those with one of these bits are folded."""
    return [register for register in range(layout.in_size("register")) if not register & sum(masks)]


def _halved(combine: Combination, rows: dict[int, Row], register: int, lane: int) -> dict[int, Row]:
    """Fold half of the rows in each lane: those of registers with bit `register` in lanes with bit `lane`."""
    upper, found = _has_bit(combine, lane), {}
    for place, row in rows.items():
        if not place & register:
            other = rows[place | register]
            received = combine.shuffled(combine.choose(upper, row, other), "bfly", lane)
            found[place] = combine.between_lanes(combine.choose(upper, other, row), received)
    return found


def _gathered(combine: Combination, rows: dict[int, Row], register: int, lane: int) -> dict[int, Row]:
    """The rows of all registers in each lane: half of them were folded by the lane that differs in bit `lane`."""
    upper, found = _has_bit(combine, lane), {}
    for place, row in rows.items():
        other = combine.shuffled(row, "bfly", lane)
        found[place] = combine.choose(upper, other, row)
        found[place | register] = combine.choose(upper, row, other)
    return found


def _has_bit(combine: Combination, lane: int) -> str:
    lowerer = combine.lowerer
    bit = lowerer.once(("lane", lane), lambda: lowerer.w.emit(f"and i32 {lowerer.lane()}, {lane}"))
    return lowerer.once(("has", lane), lambda: lowerer.w.emit(f"icmp ne i32 {bit}, 0"))


def _bind(lowerer: Lowerer, op: Reduce, combine: Combination, rows: list[Row], plan: Reduction) -> None:
    """Bind the results of `op` to the folded rows, in their layout."""
    type, left = op.results[0].type, plan.results[-1]
    if not isinstance(type, TensorType):
        combine.bind(rows)
        return
    wanted = lowerer.layout(type)
    rest = LinearLayout(left.columns, wanted.outs)  # the axis has no bits left, so the columns stay as they are
    places = rest.without_zeros("register")
    if any(rest.columns[name] != wanted.columns[name] for name in ("lane", "warp", "block")):
        lowerer.barrier()
        result = wanted.without_zeros("register")
        rows = exchange_across_warps(lowerer, rows, places, result, combine.elements, scratch_offset(op))
        places = result
    first = {places.image({"register": register}): row for register, row in reversed(list(enumerate(rows)))}
    combine.bind([first[wanted.image({"register": register})] for register in range(wanted.in_size("register"))])


INSTRUCTIONS = {"arith.addf": "fadd", "arith.mulf": "fmul"}
INTRINSICS = {
    "arith.maximumf": "llvm.maximum",
    "arith.maxnumf": "llvm.maxnum",
    "arith.minimumf": "llvm.minimum",
    "arith.minnumf": "llvm.minnum",
}


class PackedReduction:
    """Pairs of elements of a reduction whose function is one op."""

    def __init__(self, combine: Combination) -> None:
        (self.element,) = combine.elements
        only = only_op(combine.op)
        assert only is not None, "pairs are for functions of one op"
        self.w, self.name = combine.lowerer.w, only.name
        self.type = vector(self.element, 2)

    def of(self, first: str, second: str) -> str:
        """A pair."""
        alone = self.w.insert(self.type, "poison", self.element, first, 0)
        return self.w.insert(self.type, alone, self.element, second, 1)

    def product(self, first: Row, second: Row) -> str:
        """A pair of products of two factors each, which is fused into a sum."""
        left, right = starmap(self.of, zip(first, second, strict=True))
        return self.w.emit(f"fmul {self.w.fusion}{self.type} {left}, {right}")

    def halves(self, pair: str) -> tuple[str, str]:
        """The elements of a pair."""
        return self.w.extract(self.type, pair, 0), self.w.extract(self.type, pair, 1)

    def fold(self, first: str, second: str) -> str:
        """Both elements of two pairs, folded."""
        if self.name in INTRINSICS:
            return self.w.intrinsic(INTRINSICS[self.name], self.type, first, second)
        return self.w.emit(f"{INSTRUCTIONS[self.name]} {self.w.fusion}{self.type} {first}, {second}")


LOWERINGS: dict[str, Lowering] = {"tt.reduce": reduce}
