"""The distance to the next program's rows, or those of the next turn of the loop around, for prefetching them.

    row = program_id(0)
    x = load(x_ptr + row * stride + range(0, 1024))         # moves by stride elements from one program to the next
    centred = x - sum(x) / 1024                             # reads x a second time, from L1: now the next x can come

A phase that reads for the second time leaves the way to the caches further out idle. A tile that goes from memory to
memory row by row, past the caches, is asked for while the tile before it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

from tilewright.backends.cpu.affine import FARTHEST
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import Scalar, pointee, size_of
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.arith import Binary
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.tt_memory import AddPtr, Load
from tilewright.dialects.tt_program import ProgramId
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect
from tilewright.ir.types import TensorType, i64
from tilewright.transforms.matching import integer_of

Steps: TypeAlias = dict[Value, Scalar | None]
"""The growth of each value from one program to the next, as far as it was asked for."""

LONGEST_ROW = 2048
"""Max bytes of a row of a tile that is asked for: processors find the rest of longer ones."""

LONGEST = 8192
"""Max bytes of a row; two such rows fit into L1 together with what is stored."""


def next_rows(c: Context, nest: Nest) -> dict[Op, Scalar]:
    """The loads of phase 0 that phase 1 reads again, and how many bytes further the next program loads: an i64."""
    if c.grid is None or c.optimize_size or nest.mode != "rows" or nest.outer:
        return {}
    first, second = ([r for r in nest.sinks if nest.phases[r] == phase] for phase in (0, 1))
    again = {o for r in first for o in nest.closures[r]} & {o for r in second for o in nest.closures[r]}
    loads = [op for op in nest.body if op in again and isinstance(op, Load) and _bytes(op) <= LONGEST]
    return {op: _if_near(c, _bytes(op), step) for op, step in _moving(c, loads)}


def next_tiles(c: Context, nest: Nest) -> dict[Op, Scalar]:
    """The loads of a tile's rows, and how many bytes further the next program loads: an i64."""
    turns = c.grid is not None and c.grid.counter is not None
    loads = [op for op in nest.body if isinstance(op, Load) and 0 < _bytes_of_row(op, turns=turns) <= LONGEST_ROW]
    return dict(_moving(c, loads))


def _moving(c: Context, loads: Sequence[Load]) -> Iterator[tuple[Load, Scalar]]:
    """The loads whose addresses are others in the next program, and by how many bytes: an i64."""
    known: Steps = {}
    for op in loads:
        step = _step(c, op.pointer, FARTHEST, known)
        if step is not None and step != 0:
            yield op, step


def _bytes_of_row(load: Load, *, turns: bool) -> int:
    """The bytes of each row of a tile; 0 where there is one row only, unless the tile of the next of `turns` is far."""
    tile = load.result.type
    *rows, columns = tile.shape or (0,)
    return columns * tile.bits // 8 if turns or prod(rows) > 1 else 0


def _bytes(load: Load) -> int:
    tile = load.result.type
    return tile.numel * tile.bits // 8 if isinstance(tile, TensorType) else LONGEST + 1


def _if_near(c: Context, row: int, step: Scalar) -> Scalar:
    """The step, or zero where the rows are not near: no step asks for lines that are in L1 already."""
    assert c.grid is not None, "only what all programs run has rows like these"
    near = c.compare("ule", c.multiply(c.grid.runs, row, i64, 0), c.target.costs.asks_ahead, i64, 0)
    return c.select(near, step, 0, i64, 0)


def _step(c: Context, value: Value, ops: int, known: Steps) -> Scalar | None:
    """The growth of an integer, or of an address in bytes, from one program to the next; None: unknown.

    It is followed through so many `ops`.
    """
    if value not in known:
        known[value] = _new_step(c, value, ops, known) if ops else None
    return known[value]


def _new_step(c: Context, value: Value, ops: int, known: Steps) -> Scalar | None:
    op = value.op
    if c.grid is not None and value is c.grid.counter:
        return c.grid.step
    if op is None or op.definition.constant:
        return 0
    if isinstance(op, ProgramId) and op.name == "tt.get_program_id":
        return int(c.grid is not None and c.grid.counter is None and op.axis == c.grid.fastest)
    steps = [step for step in (_step(c, v, ops - 1, known) for v in op.operands) if step is not None]
    if len(steps) < len(op.operands) or op.definition.effect is not Effect.NONE:
        return None
    if all(step == 0 for step in steps):
        return 0
    rule = _RULES.get(op.name)
    return rule(c, op, steps) if rule is not None else None


def _same(c: Context, op: Op, steps: list[Scalar]) -> Scalar:
    return steps[0]


def _sum(c: Context, op: Op, steps: list[Scalar]) -> Scalar:
    return c.add(steps[0], steps[1], i64, 0)


def _product(c: Context, op: Binary, steps: list[Scalar]) -> Scalar | None:
    if 0 not in steps:
        return None
    moving, factor = (steps[0], op.rhs) if steps[1] == 0 else (steps[1], op.lhs)
    number = _number(c, factor)
    return None if number is None else c.multiply(moving, number, i64, 0)


def _number(c: Context, value: Value) -> Scalar | None:
    """The integer that is known in front of the nest and that all elements of `value` are, as an i64."""
    known = integer_of(value)
    if known is not None:
        return known
    op = value.op
    if isinstance(op, (Broadcast, ExpandDims, Splat)):
        return _number(c, op.source)
    if isinstance(value.type, TensorType) or (op is not None and isinstance(op.parent, NestOp)):
        return None
    return c.extend(c.scalar(value), value.type, i64, 0)


def _quotient(c: Context, op: Op, steps: list[Scalar]) -> Scalar | None:
    """Neighbours nearly always have the same quotient."""
    return 0 if steps[1] == 0 else None


def _remainder(c: Context, op: Op, steps: list[Scalar]) -> Scalar | None:
    return steps[0] if steps[1] == 0 else None


def _address(c: Context, op: AddPtr, steps: list[Scalar]) -> Scalar:
    return c.add(steps[0], c.multiply(steps[1], size_of(pointee(op.result)), i64, 0), i64, 0)


_RULES: dict[str, Callable[[Context, Any, list[Scalar]], Scalar | None]] = {
    "arith.addi": _sum,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.extsi": _same,
    "arith.extui": _same,
    "arith.muli": _product,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.trunci": _same,
    "tt.addptr": _address,
    "tt.broadcast": _same,
    "tt.expand_dims": _same,
    "tt.splat": _same,
}
