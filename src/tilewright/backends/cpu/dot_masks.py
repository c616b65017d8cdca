"""Analysis: whether one condition in the masks of both operands ends a product along k.

    %a = tt.load …, mask = steps[None, :] < K - k, other = 0
    %b = tt.load …, mask = steps[:, None] < K - k, other = 0
    tt.dot %a, %b

Where the mask is off both operands are zero, so the product may stop there; nothing has to be copied and padded with
zeros, and copies end there. With a mask on one operand only, the other one may be infinite there, and 0 · ∞ counts; so
only conditions of both masks are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.backends.cpu.costs import conjuncts
from tilewright.backends.cpu.dot.operands import is_zero
from tilewright.backends.cpu.dot.plan import takes_steps
from tilewright.backends.cpu.dot.spec import spec_of
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Index
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import CpuDot, Nest, Write
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat, Trans
from tilewright.ir.core import Op, Value, defining


class End(NamedTuple):
    """Conditions on one axis of a tile that end it, and its partner in a product: behind them both are zero."""

    axis: int
    conditions: Sequence[Value]


class Source(NamedTuple):
    """The load behind an operand, and how its axes are permuted in the buffer."""

    load: Load
    order: tuple[int, ...]

    def line(self, axis: int) -> Index:
        """The index into the loaded tile of the first row (axis 0) or column (1) of the buffer, lane by lane."""
        return tuple(LANE if self.order[axis] == own else ZERO for own in (0, 1))


def source_of(value: Value) -> Source | None:
    """The load that `value` is, perhaps transposed; None for what is computed."""
    order, trans = tuple(range(len(value.type.shape or ()))), defining(value, Trans)
    if trans is not None:
        order, value = trans.order, trans.source
    load = defining(value, Load)
    return Source(load, order) if load is not None and len(order) == 2 else None


def common_end(buffer: Value, target: Target) -> End | None:
    """Where masks end `buffer` and the other operand of its product alike, along k; None if none does."""
    dots = [op for op in buffer.uses if isinstance(op, CpuDot)]
    if len(dots) != 1:
        return None
    (dot,) = dots
    if dot.a is dot.b:
        return None
    spec = spec_of(dot)
    if not all(takes_steps(spec, operand, target) for operand in (0, 1)):
        return None
    axes = {dot.a: 0 if spec.a_transposed else 1, dot.b: 1 if spec.b_transposed else 0}
    mine, others = (_conditions(v, axes[v]) for v in (buffer, dot.b if buffer is dot.a else dot.a))
    shared = [condition for key, condition in mine.items() if key in others]
    return End(axes[buffer], shared) if shared else None


def _conditions(buffer: Value, axis: int) -> dict[object, Value]:
    """The conditions on `axis` alone in the mask of the load behind `buffer`; none unless masked-off elements are 0."""
    write = next((op for op in buffer.uses if isinstance(op, Write) and op.elide_copy), None)
    source = source_of(write.value) if write is not None else None
    if source is None:
        return {}
    mask, other = source.load.mask, source.load.other
    if mask is None or other is None or not is_zero(other):
        return {}
    along = source.order[axis]
    shapes = {v: v.type.shape or (1, 1) for v in conjuncts(mask)}
    return {_key(v): v for v, shape in shapes.items() if shape[along] > 1 == shape[1 - along]}


def _key(value: Value) -> object:
    """A key that is equal for values of two nests computed in the same way from the same values outside."""
    op = value.op
    if op is None or not _is_inside(op):
        return value
    if isinstance(op, (Broadcast, ExpandDims, Splat)):
        return _key(op.source)
    attributes = tuple(sorted((name, repr(attribute)) for name, attribute in op.attributes.items()))
    return (op.name, attributes, *(_key(v) for v in op.operands))


def _is_inside(op: Op) -> bool:
    return isinstance(op.parent, Nest)
