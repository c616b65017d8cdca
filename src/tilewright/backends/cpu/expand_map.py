"""Maps become ops on whole tiles: the function of one element, for all elements.

%r = "tt.map_elementwise"(%x, %y) <{pack = 1 : i32}> ({
^bb0(%a: i32, %b: i32):
  %s = arith.addi %a, %b : i32                         →         %r = arith.addi %x, %y : tensor<Nxi32>
  tt.map_elementwise.return %s : i32
})

With a pack of 2 the tiles are split into even and odd elements before, and joined after. `map_regions.py` has the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.map_regions import tiles_of_map
from tilewright.dialects.tt_reduce import MapElementwise
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import TensorType
from tilewright.transforms.op_builder import OpBuilder


def expand_map(module: Op) -> bool:
    """Replace every tt.map_elementwise; returns whether there is one.

    Raises:
        Unsupported: a function of elements has effects, or calls one that is not inlined.
    """
    found = module.ops_of(MapElementwise)
    for op in found:
        pack = op.pack
        pieces = [piece for tile in op.sources for piece in _split(op, tile, pack)]
        results = tiles_of_map(op, tile_type(pieces[0]).shape, pieces)
        groups = [results[number : number + pack] for number in range(0, len(results), pack)]
        op.replace([_joined(op, group, result) for group, result in zip(groups, op.results, strict=True)])
    return bool(found)


def _split(op: Op, tile: Value, pack: int) -> list[Value]:
    """The elements at places 0, 1, … of each pack."""
    if pack == 1:
        return [tile]
    assert tile.type.shape is not None, "maps are of tiles"
    *outer, last = tile.type.shape
    element = tile.type.scalar
    at, half = OpBuilder(op), TensorType((*outer, last // 2), element)
    pairs = at.emit("tt.reshape", [tile], TensorType((*outer, last // 2, 2), element))
    sides = at.op("tt.split", [pairs], (half, half)).results
    even, odd = (_split(op, side, pack // 2) for side in sides)
    return [piece for both in zip(even, odd, strict=True) for piece in both]


def _joined(op: Op, pieces: Sequence[Value], result: Value) -> Value:
    """The inverse of `_split`."""
    if len(pieces) == 1:
        return pieces[0]
    even, odd = _joined(op, pieces[::2], result), _joined(op, pieces[1::2], result)
    shape, element = even.type.shape, even.type.scalar
    assert shape is not None, "tiles, as in `_split`"
    pairs = OpBuilder(op).emit("tt.join", [even, odd], TensorType((*shape, 2), element))
    return OpBuilder(op).emit("tt.reshape", [pairs], TensorType((*shape[:-1], 2 * shape[-1]), element))
