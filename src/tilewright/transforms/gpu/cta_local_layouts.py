"""Scans, gathers and histograms of a tile distributed over a cluster get the whole tile in each CTA.

%c = tt.scan %x : tensor<64xi32, #parts>        %y = ttg.convert_layout %x : … -> tensor<64xi32, #whole>
                                           →    %d = tt.scan %y : tensor<64xi32, #whole>
                                                %c = ttg.convert_layout %d : … -> tensor<64xi32, #parts>

A conversion is the only op for which a CTA reads the memory of another one. Scans along an axis that is not divided
among CTAs, and gathers whose elements are all in the same CTA, stay as they are.

The operands of functions of packs get layouts in which a thread holds whole packs: neighbours along the last axis.

%y = tt.map_elementwise %x {pack = 4}        →    %a = ttg.convert_layout %x : … -> tensor<64x64xi32, #fours>
     : tensor<64x64xi32, #ones>                   %b = tt.map_elementwise %a {pack = 4} : tensor<64x64xi32, #fours>
                                                  %y = ttg.convert_layout %b : … -> tensor<64x64xi32, #ones>

The CTAs of a cluster divide a product into parts that are as square as possible, in Triton's way, and load the operands
of their own part, so that none reads the memory of another one.

    %b = tt.load %p : tensor<32x64x…, #blocked>                   #blocked: each CTA has half of the rows
    %f = ttg.convert_layout %b : … -> tensor<32x64xf16, #ttg.dot_op<{opIdx = 1, …}>>

    %q = ttg.convert_layout %p : … -> tensor<32x64x…, #blocked1>  #blocked1: every CTA has all rows
    %b = tt.load %q : tensor<32x64x…, #blocked1>
    %f = ttg.convert_layout %b : …

The same holds for loads through a descriptor whose results are only operands divided in one way. CTAs that have rows of
the result need all columns of the right operand, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.analysis.gather_distance import distance_of, linear_layout_of, step_of
from tilewright.dialects.tt_descriptors import DescriptorLoad, MakeTensorDescriptor
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import MapElementwise, Scan
from tilewright.dialects.tt_shape import Gather, Histogram, Trans
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import TensorType
from tilewright.layouts.blocked import fill, fill_cta
from tilewright.layouts.encodings import Blocked, DotOperand, Encoding
from tilewright.layouts.inference import inverse, permuted
from tilewright.layouts.keys import Bases
from tilewright.layouts.queries import cga_layout, num_ctas
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.gpu.tile_ops import (
    TileOps,
    convert_operand,
    convert_result,
    layout_of,
    relayout,
    with_layout,
    workers_of,
)
from tilewright.transforms.matching import has_one_use

BLOCK = ("block",)
ROWS, COLUMNS = 64, 8
"""The fewest rows and columns that a warp group, or tensor memory, multiplies at once."""


def cta_local_layouts(module: Op) -> bool:
    """Give each CTA the whole of a tile that it scans, gathers from or counts.

    Returns:
        whether there is such an op.
    """
    ops = [op for op in module.walk() if op.name in _RULES and workers_of(op).ctas > 1]
    for op in ops:
        _RULES[op.name](op)
    return bool(ops)


def _scan(op: Scan) -> None:
    first = op.sources[0]
    if linear_layout_of(first).is_zero(BLOCK, (f"dim{op.axis}",)):
        return
    relayout(op, _cta_local(op, first))


def _gather(op: Gather) -> None:
    source, indices = linear_layout_of(op.source), linear_layout_of(op.indices)
    axis, distance = op.axis, distance_of(op)
    if distance is not None and not step_of(source, axis, distance)["block"]:
        return
    others = [name for name in source.out_names if name != f"dim{axis}"]
    is_own = source.sublayout(BLOCK, others) == indices.sublayout(BLOCK, others)
    if distance is not None or not is_own or not source.is_zero(BLOCK, (f"dim{axis}",)):
        convert_operand(op, 0, _cta_local(op, op.source))


def _histogram(op: Histogram) -> None:
    """Each block counts everything, and keeps the bins that are its own."""
    whole = _cta_local(op, op.source)
    for index in range(len(op.operands)):
        convert_operand(op, index, whole)


def _cta_local(op: Op, tile: Value) -> Encoding:
    """A layout in which each block has all elements."""
    workers, shape = workers_of(op), tile_type(tile).shape
    rank, copies = len(shape), workers.ctas.bit_length() - 1
    return fill_cta(shape, (1,) * rank, tuple(reversed(range(rank))), workers, ((0,) * rank,) * copies)


_RULES: Mapping[str, Callable[[Any], None]] = {"tt.gather": _gather, "tt.histogram": _histogram, "tt.scan": _scan}


def packs_in_threads(module: Op) -> bool:
    """Give mapped functions of packs of elements tiles whose threads hold whole packs.

    Returns:
        whether there is such a function.
    """
    ops = [op for op in module.walk() if isinstance(op, MapElementwise)]
    for op in ops:
        if not _holds_packs(op):
            _hand_out_packs(op)
    return bool(ops)


def _holds_packs(op: MapElementwise) -> bool:
    """Whether the first registers of each thread number the elements of a pack."""
    tile, bits = op.sources[0], op.pack.bit_length() - 1
    return linear_layout_of(tile).columns["register"][:bits] == tuple(1 << bit for bit in range(bits))


def _hand_out_packs(op: MapElementwise) -> None:
    shape = op.sources[0].type.shape
    assert shape is not None, "scalars have a pack of 1"
    rank = len(shape)
    layout = fill(shape, (*(1,) * (rank - 1), op.pack), tuple(reversed(range(rank))), workers_of(op))
    relayout(op, layout)


class Factor(NamedTuple):
    """An operand of a product that a load gives.

    Attributes:
        dot: the product.
        side: 0 for the left operand, 1 for the right one.
        load: the load.
        transposes: the transpositions between them, that of the load first.
        operand: the layout of the operand.
    """

    dot: Dot
    side: int
    load: Load | DescriptorLoad
    transposes: tuple[Trans, ...]
    operand: DotOperand

    @property
    def wanted(self) -> Bases:
        """The division of the tile in which each block has what it multiplies."""
        rows = cga_layout(self.operand)
        for trans in reversed(self.transposes):
            rows = tuple(permuted(row, inverse(trans.order)) for row in rows)
        return rows

    def converted(self) -> Value:
        """The operand, made of what is loaded."""
        ops, value = TileOps(self.dot), self.load.result
        for trans in self.transposes:
            value = ops.transposed(value, trans.order)
        return ops.converted(value, self.operand)


def assign_cga_layouts(module: Op) -> bool:
    """Divide the products of `module`, which have blocked layouts, among CTAs, and loads of operands accordingly."""
    divided = [_divide(dot) for dot in module.ops_of(Dot)]
    changed = any(divided)
    for factor in _movable([*_factors(module)], module):
        layout = layout_of(factor.load.result)
        if isinstance(layout, Blocked) and layout.cga != factor.wanted:
            _move(factor.load, layout, factor.wanted)
            factor.dot.set_operand(factor.side, factor.converted())
            changed = True
    return changed


def _divide(dot: Dot) -> bool:
    """Give each block of a cluster a part of `dot` that is as square as can be, with rows enough for an instruction."""
    layout, type = layout_of(dot.result), dot.result.type
    ctas = num_ctas(layout)
    if ctas == 1 or not isinstance(layout, Blocked) or layout.rank != 2:
        return False
    cga = division_of_product(tile_type(dot.result).shape, ctas)
    if cga == layout.cga:
        return False
    new = Blocked(layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, layout.order, cga)
    for index, wanted in enumerate((DotOperand(0, new), DotOperand(1, new), new)):
        convert_operand(dot, index, wanted)
    dot.result.type = with_layout(type, new)
    convert_result(dot.result, type)
    return True


def division_of_product(shape: Sequence[int], ctas: int) -> Bases:
    """The division of a product of this shape among `ctas` blocks: the longer side is halved, the columns if in doubt.

    No block gets fewer rows than `ROWS` if there are columns to divide, as `wgmma` and `tcgen05` multiply as many.
    """
    rows, columns = shape
    left, halved = rows, 0
    for _ in range(ctas.bit_length() - 1):
        if left > 1 and (columns < 2 * COLUMNS or (left > columns and left >= 2 * ROWS)):
            left //= 2
        else:
            columns, halved = columns // 2, halved + 1
    steps = [(0, 1 << bit) for bit in range(halved)]
    return (*steps, *((1 << bit, 0) for bit in range((rows // left).bit_length() - 1)))


def _factors(module: Op) -> Iterator[Factor]:
    for dot in [op for op in module.walk() if isinstance(op, Dot)]:
        if num_ctas(layout_of(dot.result)) > 1:
            for side, value in enumerate((dot.a, dot.b)):
                operand, (load, transposes) = layout_of(value), _load_after(value)
                if load is not None and isinstance(operand, DotOperand):
                    yield Factor(dot, side, load, transposes, operand)


def _movable(factors: Sequence[Factor], module: Op) -> Iterator[Factor]:
    """The factors but those of a descriptor for which anything else wants another division.

    A descriptor has one division, which is that of all its copies.
    """
    wishes: dict[Op, Bases] = {factor.load: factor.wanted for factor in factors}
    arguments = [value for function in functions_of(module) if is_public(function) for value in function.body.args]
    for factor in factors:
        if isinstance(factor.load, DescriptorLoad):
            descriptor = factor.load.descriptor
            is_known = isinstance(descriptor.op, MakeTensorDescriptor) or any(descriptor is each for each in arguments)
            if not is_known or {wishes.get(user) for user in descriptor.uses} != {factor.wanted}:
                continue
        yield factor


def _load_after(value: Value) -> tuple[Load | DescriptorLoad | None, tuple[Trans, ...]]:
    """The load that gives an operand, with the transpositions behind it, if nothing else uses it on the way."""
    op, transposes = value.op, list[Trans]()
    while isinstance(op, (ConvertLayout, Trans)) and has_one_use(op.result):
        transposes += [op] if isinstance(op, Trans) else []
        op = op.source.op
    load = op if isinstance(op, (Load, DescriptorLoad)) and has_one_use(op.result) else None
    return load, tuple(reversed(transposes))


def _move(load: Load | DescriptorLoad, layout: Blocked, cga: Bases) -> None:
    """Give a load another way to share its tile; its users are not changed."""
    new = Blocked(layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, layout.order, cga)
    for index, value in enumerate(load.operands):
        if isinstance(value.type, TensorType):
            convert_operand(load, index, new)
    load.result.type = with_layout(load.result.type, new)
