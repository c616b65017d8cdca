"""Reductions and scans: the combine region applied to whole slices at once.

A reduction folds neighbours, so n elements take log2(n) rounds and keep their order; a scan doubles the distance each
round. Combine functions are associative, but floating point addition is not quite: the last bits may differ from
another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewright.interpreter.machine import Frame, Machine, executes
from tilewright.interpreter.memory import Array
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value

Tiles: TypeAlias = list[Array]


@executes("tt.reduce")
def _reduce(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    tiles: Tiles = [np.moveaxis(tile, _axis(op), 0) for tile in operands]
    while (count := len(tiles[0])) > 1:
        left, right = ([t[start : count - count % 2 : 2] for t in tiles] for start in (0, 1))
        combined = _combine(machine, op, left, right, frame)
        odd = count % 2
        tiles = [np.concatenate((c, t[count - 1 :])) if odd else c for c, t in zip(combined, tiles, strict=True)]
    return [tile[0] for tile in tiles]


@executes("tt.scan")
def _scan(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    axis = _axis(op)
    step = -1 if op.attributes["reverse"] is True else 1
    tiles: Tiles = [np.moveaxis(tile, axis, 0)[::step] for tile in operands]
    distance = 1
    while distance < len(tiles[0]):
        combined = _combine(machine, op, [t[:-distance] for t in tiles], [t[distance:] for t in tiles], frame)
        tiles = [np.concatenate((t[:distance], c)) for t, c in zip(tiles, combined, strict=True)]
        distance *= 2
    return [np.moveaxis(tile[::step], 0, axis) for tile in tiles]


def _axis(op: Op) -> int:
    axis = op.attributes["axis"]
    assert isinstance(axis, Number), "the axis is a number"
    return int(axis.value)


def _combine(machine: Machine, op: Op, left: Tiles, right: Tiles, frame: Frame) -> Tiles:
    """The combine region on all pairs of elements."""
    block = op.regions[0].block
    if all(not inner.regions and inner.name != "tt.call" for inner in block):
        return _combine_slices(machine, op, [*left, *right], frame)
    results = [np.empty_like(tile) for tile in left]
    for place in np.ndindex(left[0].shape):
        answer = machine.run_region(op.regions[0], [tile[place] for tile in (*left, *right)], frame)[1]
        for result, value in zip(results, answer, strict=True):
            result[place] = value
    return results


def _combine_slices(machine: Machine, op: Op, arguments: Tiles, frame: Frame) -> Tiles:
    """The ops of the region are elementwise, so each runs once for all elements."""
    block, local = op.regions[0].block, dict(frame)
    shape = arguments[0].shape
    local.update(zip(block.args, arguments, strict=True))
    for inner in block:
        operands = machine.operands(inner, local)
        if inner.definition.terminator:
            return [np.broadcast_to(value, shape) for value in operands]
        bind(inner, machine.execute(inner, operands, local), local)
    raise AssertionError("the region has no terminator")


def bind(op: Op, results: Sequence[Any], frame: dict[Value, Any]) -> None:
    """Enter the results of `op` into `frame`."""
    frame.update(zip(op.results, results, strict=True))
