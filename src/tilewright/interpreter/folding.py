"""Reductions, scans and maps: their region is applied to whole slices at once.

A reduction combines neighbours, so n elements take log2(n) rounds and keep their order; a scan doubles the distance
each round. Combine functions are associative, but floating point addition is not quite: the last bits may differ from
another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_reduce import Fold, MapElementwise, Reduce, Scan
from tilewright.interpreter.emitter import CalledRegion
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array
from tilewright.ir.core import Block, Op

Tiles: TypeAlias = list[Array]


@executes("tt.reduce")
def _reduce(machine: Interpreter, op: Reduce, *operands: Any) -> Any:
    tiles: Tiles = [np.moveaxis(tile, op.axis, 0) for tile in operands]
    while (count := len(tiles[0])) > 1:
        odd = count % 2
        left, right = ([tile[start : count - odd : 2] for tile in tiles] for start in (0, 1))
        combined = _combine(machine, op, left, right)
        tiles = [np.concatenate((c, t[count - 1 :])) if odd else c for c, t in zip(combined, tiles, strict=True)]
    return [tile[0] for tile in tiles]


@executes("tt.scan")
def _scan(machine: Interpreter, op: Scan, *operands: Any) -> Any:
    axis = op.axis
    step = -1 if op.reverse else 1
    tiles: Tiles = [np.moveaxis(tile, axis, 0)[::step] for tile in operands]
    distance = 1
    while distance < len(tiles[0]):
        combined = _combine(machine, op, [t[:-distance] for t in tiles], [t[distance:] for t in tiles])
        tiles = [np.concatenate((t[:distance], c)) for t, c in zip(tiles, combined, strict=True)]
        distance *= 2
    return [np.moveaxis(tile[::step], 0, axis) for tile in tiles]


@executes("tt.map_elementwise")
def _map(machine: Interpreter, op: MapElementwise, *operands: Any) -> Any:
    size, (shape, *_) = op.pack, map(np.shape, operands)
    packs = [np.reshape(tile, (*shape[:-1], -1, size)) for tile in operands]
    pieces = [tile[..., place] for tile in packs for place in range(size)]
    kinds = [numpy_dtype(value.type) for value in op.results for _ in range(size)]
    answers = _of_region(machine, op, pieces, kinds)
    groups = [answers[number : number + size] for number in range(0, len(answers), size)]
    return [np.stack(group, -1).reshape(shape) for group in groups]


def _combine(machine: Interpreter, op: Fold, left: Tiles, right: Tiles) -> Tiles:
    """The combine region on all pairs of elements."""
    return _of_region(machine, op, [*left, *right], [tile.dtype for tile in left])


def combine_lanes(machine: Interpreter, op: Op, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """The function in the region of `op` on two lists of vectors or numbers, lane by lane."""
    lanes = [np.atleast_1d(value) for value in (*left, *right)]
    found = _of_region(machine, op, lanes, [value.dtype for value in left])
    return [value if np.ndim(like) else value[0] for value, like in zip(found, left, strict=True)]


def _of_region(machine: Interpreter, op: Op, arguments: Tiles, kinds: Sequence[Any]) -> Tiles:
    """The region on each element of the arguments; `kinds` are the dtypes of its results."""
    (region,) = op.regions
    if isinstance(region, CalledRegion):
        return _of_calls(op, region, arguments, kinds)
    if all(not inner.regions and not isinstance(inner, Call) for inner in region.block):
        return _combine_slices(machine, region.block, arguments)
    results = [np.empty(arguments[0].shape, kind) for kind in kinds]
    for place in np.ndindex(arguments[0].shape):
        answer = machine.run_region(region, [tile[place] for tile in arguments])[1]
        for result, value in zip(results, answer, strict=True):
            result[place] = value
    return results


def _of_calls(op: Op, region: CalledRegion, arguments: Tiles, kinds: Sequence[Any]) -> Tiles:
    """The function of each element; as many of each operand as the arguments are."""
    types = [value.type.scalar for value in op.operands for _ in range(len(arguments) // len(op.operands))]
    if isinstance(op, Fold):
        types = [value.type.scalar for value in op.operands] * 2
    results = [np.empty(arguments[0].shape, kind) for kind in kinds]
    for place in np.ndindex(arguments[0].shape):
        for result, value in zip(results, region.call([tile[place] for tile in arguments], types), strict=True):
            result[place] = value
    return results


def _combine_slices(machine: Interpreter, block: Block, arguments: Tiles) -> Tiles:
    """The ops of the region are elementwise, so each runs once for all elements."""
    machine.environment.update(zip(block.args, arguments, strict=True))
    for inner in block:
        operands = machine.operands(inner)
        if inner.definition.terminator:
            return [np.broadcast_to(value, arguments[0].shape) for value in operands]
        machine.environment.update(zip(inner.results, machine.execute(inner, operands), strict=True))
    raise AssertionError("the region has no terminator")
