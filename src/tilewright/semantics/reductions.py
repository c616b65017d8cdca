"""Reductions and scans with any combine function, which becomes the region of the op.

reduce((x,), 1, add)      "tt.reduce"(%x) <{axis = 1}> ({ ^bb0(%a, %b): %s = arith.addf %a, %b; tt.reduce.return %s })
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Block, Region, Value
from tilewright.ir.effects import writes_memory
from tilewright.ir.types import i32
from tilewright.semantics.active import active, call_function
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import common_type, stretch
from tilewright.semantics.casting import cast
from tilewright.semantics.distributed import distributed_type
from tilewright.semantics.errors import BadArgument, CombineChangesType, NoSingleTruth, ShapesDiffer, WrongLayout
from tilewright.semantics.memory import fitting_mask
from tilewright.semantics.shapes import checked_axis, constant_int, reshape
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import as_block, block_type, dtype, int32
from tilewright.support.diagnostics import SemanticError

Tiles = tuple[Tile, ...]


def reduce(inputs: Sequence[Tile], axis: Any, combine: Any) -> Tiles:
    """Fold each tile along `axis` (None: all elements) with `combine(*left, *right) -> results`.

    Raises:
        SemanticError: shapes differ, no such axis, or `combine` changes the types or has effects.
    """
    tiles = tuple(inputs)
    _check_shapes("reduce", tiles)
    if not tiles[0].type.shape:
        raise SemanticError(BadArgument("reduce", "input", tiles[0].type, "a tile"))
    if axis is None:
        tiles = tuple(reshape(tile, prod(tile.type.shape), allow_reorder=tile.type.layout is None) for tile in tiles)
        axis = 0
    position = checked_axis(axis, len(tiles[0].type.shape))
    results = [as_block(tile.type).reduced(position) for tile in tiles]
    region = _combine_region("reduce", "tt.reduce.return", tiles, combine)
    attributes: dict[str, Attribute] = {"axis": Number(position, i32)}
    handles = active().emit("tt.reduce", [t.handle for t in tiles], [r.ir for r in results], attributes, [region])
    return tuple(Tile.concrete(handle, kind) for handle, kind in zip(handles, results, strict=True))


def scan(inputs: Sequence[Tile], axis: Any, combine: Any, *, reverse: bool) -> Tiles:
    """All prefixes (with `reverse` suffixes) of each tile along `axis`, folded with the associative `combine`.

    Raises:
        SemanticError: shapes differ, no such axis, or `combine` changes the types or has effects.
    """
    tiles = tuple(inputs)
    _check_shapes("associative_scan", tiles)
    position = checked_axis(axis, len(tiles[0].type.shape))
    region = _combine_region("associative_scan", "tt.scan.return", tiles, combine)
    attributes: dict[str, Attribute] = {"axis": Number(position, i32), "reverse": bool(reverse)}
    types = [tile.type for tile in tiles]
    handles = active().emit("tt.scan", [t.handle for t in tiles], [t.ir for t in types], attributes, [region])
    return tuple(Tile.concrete(handle, kind) for handle, kind in zip(handles, types, strict=True))


def map_elements(inputs: Sequence[Tile], function: Any, pack: int) -> Tile | Tiles:
    """`function` of `pack` neighbours of each tile along the last axis; gives as many of each result.

    Returns a tuple if `function` does.

    Raises:
        SemanticError: the tiles do not broadcast or do not divide into packs, results of one pack differ in type, or
            the function has effects.
    """
    if not inputs:
        raise SemanticError(BadArgument("map_elementwise", "args", "()", "at least one tile"))
    like = functools.reduce(common_type, [tile.type for tile in inputs])
    shape = like.shape
    if not shape and pack == 1:
        answer = call_function(function, inputs)
        return tuple(map(to_tensor, answer)) if isinstance(answer, tuple) else to_tensor(answer)
    if not isinstance(pack, int) or pack < 1 or pack & (pack - 1) or (shape or (1,))[-1] % pack:
        raise SemanticError(BadArgument("map_elementwise", "pack", pack, "a power of two that divides the last axis"))
    tiles = [stretch(tile, like) for tile in inputs]
    elements = [tile.type.scalar for tile in tiles for _ in range(pack)]
    answers: list[Any] = []
    region, found = _region_of("tt.map_elementwise.return", elements, function, tiles, answers)
    _check_effects(region, "map_elementwise", "scalar_fn")
    kinds = [found[number : number + pack] for number in range(0, len(found), pack)]
    if any(group != [group[0]] * pack or group[0].shape for group in kinds):
        raise SemanticError(CombineChangesType(_listed(found), f"{pack} of each result"))
    results = [like.with_element_ty(group[0].scalar) for group in kinds]
    attributes: dict[str, Attribute] = {"pack": Number(pack, i32)}
    operands, types = [t.handle for t in tiles], [r.ir for r in results]
    handles = active().emit("tt.map_elementwise", operands, types, attributes, [region])
    mapped = tuple(Tile.concrete(handle, kind) for handle, kind in zip(handles, results, strict=True))
    return mapped if isinstance(answers[0], tuple) else mapped[0]


def histogram(tile: Tile, bins: Any, mask: Tile | None = None, *, layout: Any = None) -> Tile:
    """The counts of 0 … bins - 1 in a one-dimensional tile of integers; in Gluon in the layout that it names."""
    if len(tile.type.shape) != 1 or not tile.type.scalar.integer:
        raise SemanticError(BadArgument("histogram", "input", tile.type, "a one-dimensional tile of integers"))
    if tile.type.scalar.primitive_bitwidth < 32:
        tile = cast(tile, int32)  # the op takes its elements as signed numbers
    operands = [tile.handle] if mask is None else [tile.handle, fitting_mask(mask, tile.type).handle]
    shape = (constant_int(bins, "num_bins"),)
    if tile.type.layout is not None and layout is None:
        raise SemanticError(WrongLayout("histogram requires a destination layout"))
    result = block_type(int32, shape) if layout is None else distributed_type(int32, shape, layout)
    return Tile.concrete(active().emit("tt.histogram", operands, (result.ir,))[0], result)


def _check_shapes(operation: str, tiles: Tiles) -> None:
    for tile in tiles[1:]:
        if tile.type.shape != tiles[0].type.shape:
            raise SemanticError(ShapesDiffer(operation, tiles[0].type, tile.type))


def _check_effects(region: Region, operation: str, argument: str) -> None:
    """Raise if the function of a region does anything but compute and assert."""
    for op in region.walk():
        is_harmless = op.definition.terminator or op.regions or op.name in ("tt.call", "tt.assert")
        if not is_harmless and writes_memory(op):
            raise SemanticError(BadArgument(operation, argument, op.name, "a function without effects"))


def _combine_region(operation: str, terminator: str, tiles: Tiles, combine: Any) -> Region:
    """A region that applies `combine` to two groups of scalars."""
    elements: list[dtype] = [tile.type.scalar for tile in tiles] * 2
    region, found = _region_of(terminator, elements, combine, tiles)
    _check_effects(region, operation, "combine_fn")
    if found != elements[: len(tiles)]:
        raise SemanticError(CombineChangesType(_listed(found), _listed(elements[: len(tiles)])))
    return region


def _region_of(
    terminator: str, elements: Sequence[dtype], function: Any, tiles: Sequence[Tile], answers: list[Any] | None = None
) -> tuple[Region, list[Any]]:
    """A region that applies `function` to scalars, and the types of what it returns; `answers` gets that itself.

    Where the kernel runs in Python, a function that looks at its arguments is called for each element.
    """
    try:
        return _recorded(terminator, elements, function, answers)
    except SemanticError as error:
        if not active().runs_now or not isinstance(error.diagnostic, NoSingleTruth):
            raise
    return _called(elements, function, tiles, answers)


def _called(
    elements: Sequence[dtype], function: Any, tiles: Sequence[Tile], answers: list[Any] | None
) -> tuple[Region, list[Any]]:
    """The types are those of what the function returns for the first elements."""

    def results_of(values: Sequence[Value]) -> tuple[Any, list[Tile]]:
        arguments = [Tile.concrete(value, kind) for value, kind in zip(values, elements, strict=True)]
        answer = call_function(function, arguments)
        return answer, [to_tensor(value) for value in (answer if isinstance(answer, tuple) else (answer,))]

    def call(values: list[Value]) -> list[Value]:
        results = results_of(values)[1]
        if [result.type for result in results] != types:
            raise SemanticError(CombineChangesType(_listed([result.type for result in results]), _listed(types)))
        return [result.handle for result in results]

    firsts = [reduce((tile,), None, lambda first, _: first)[0] for tile in tiles]
    sample = firsts * 2 if answers is None else [first for first in firsts for _ in range(len(elements) // len(tiles))]
    answer, results = results_of([first.handle for first in sample])
    types = [result.type for result in results]
    if answers is not None:
        answers.append(answer)
    return active().region_of_calls(call), types


def _recorded(
    terminator: str, elements: Sequence[dtype], function: Any, answers: list[Any] | None
) -> tuple[Region, list[Any]]:
    """The region of a function that computes alike for all elements.

    What it promises is left out: it would have to hold of lanes behind the last element, too.
    """
    block = Block(element.ir for element in elements)
    emitter = active()
    with emitter.recording(block):
        arguments = [Tile.concrete(arg, kind) for arg, kind in zip(block.args, elements, strict=True)]
        answer = call_function(function, arguments)
        if answers is not None:
            answers.append(answer)
        results = [to_tensor(value) for value in (answer if isinstance(answer, tuple) else (answer,))]
        emitter.emit(terminator, [result.handle for result in results])
    region = Region([block])
    for promise in [op for op in region.walk() if op.name == "llvm.intr.assume"]:
        promise.erase()
    return region, [result.type for result in results]


def _listed(types: Sequence[Any]) -> str:
    return ", ".join(map(str, types))
