"""Scans, gathers and histograms of a tile that the blocks of a cluster share get the whole of it in each block.

%c = tt.scan %x : tensor<64xi32, #parts>        %y = ttg.convert_layout %x : … -> tensor<64xi32, #whole>
                                           →    %d = tt.scan %y : tensor<64xi32, #whole>
                                                %c = ttg.convert_layout %d : … -> tensor<64xi32, #parts>

A conversion is the only op for which a block reads the memory of another one. Scans along an axis that the blocks do
not divide, and gathers that find everything in their own block, stay as they are.

Functions of packs of elements get tiles whose threads hold whole packs: neighbours along the last axis.

%y = tt.map_elementwise %x {pack = 4}        →    %a = ttg.convert_layout %x : … -> tensor<64x64xi32, #fours>
     : tensor<64x64xi32, #ones>                   %b = tt.map_elementwise %a {pack = 4} : tensor<64x64xi32, #fours>
                                                  %y = ttg.convert_layout %b : … -> tensor<64x64xi32, #ones>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.analysis.gather_distance import distance_of, linear_layout_of, step_of
from tilewright.dialects.tt_reduce import MapElementwise, Scan
from tilewright.dialects.tt_shape import Gather, Histogram
from tilewright.ir.core import Op, Value, tile_type
from tilewright.layouts.blocked import fill, fill_cta
from tilewright.layouts.encodings import Encoding
from tilewright.transforms.gpu.tile_ops import (
    convert_operand,
    relayout,
    workers_of,
)

BLOCK = ("block",)


def cta_local_layouts(module: Op) -> None:
    """Rewrite a module of TTGIR as above, in place."""
    for op in list(module.walk()):
        if op.name in _RULES and workers_of(op).ctas > 1:
            _RULES[op.name](op)


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


def packs_in_threads(module: Op) -> None:
    """Rewrite a module of TTGIR as above, in place."""
    for op in [op for op in module.walk() if isinstance(op, MapElementwise)]:
        if not _holds_packs(op):
            _hand_out_packs(op)


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
