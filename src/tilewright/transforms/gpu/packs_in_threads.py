"""Functions of packs of elements get tiles whose threads hold whole packs: neighbours along the last axis.

%y = tt.map_elementwise %x {pack = 4}        →    %a = ttg.convert_layout %x : … -> tensor<64x64xi32, #fours>
     : tensor<64x64xi32, #ones>                   %b = tt.map_elementwise %a {pack = 4} : tensor<64x64xi32, #fours>
                                                  %y = ttg.convert_layout %b : … -> tensor<64x64xi32, #ones>
"""

from __future__ import annotations

from tilewright.dialects.tt_reduce import MapElementwise
from tilewright.ir.core import Op
from tilewright.layouts.blocked import fill
from tilewright.layouts.conversion import to_linear_layout
from tilewright.transforms.gpu.relayout import convert_operand, convert_result, layout_of, with_layout
from tilewright.transforms.gpu.workers import workers_of


def packs_in_threads(module: Op) -> None:
    """Rewrite a module of TTGIR as above, in place."""
    for op in [op for op in module.walk() if isinstance(op, MapElementwise)]:
        if not _holds_packs(op):
            _hand_out_packs(op)


def _holds_packs(op: MapElementwise) -> bool:
    """Whether the first registers of each thread number the elements of a pack."""
    tile, bits = op.sources[0], op.pack.bit_length() - 1
    registers = to_linear_layout(layout_of(tile), tile.type.shape or ()).columns["register"]
    return tuple(registers[:bits]) == tuple(1 << bit for bit in range(bits))


def _hand_out_packs(op: MapElementwise) -> None:
    shape = op.sources[0].type.shape
    assert shape is not None, "scalars have a pack of 1"
    rank = len(shape)
    layout = fill(shape, (*(1,) * (rank - 1), op.pack), tuple(reversed(range(rank))), workers_of(op))
    for index in range(len(op.operands)):
        convert_operand(op, index, layout)
    for result in op.results:
        wanted = result.type
        result.type = with_layout(wanted, layout)
        convert_result(result, wanted)
