"""Analysis: whether a product is cut short along k by one and the same mask on both operands.

    %a = tt.load …, mask = steps[None, :] < K - k, other = 0
    %b = tt.load …, mask = steps[:, None] < K - k, other = 0
    tt.dot %a, %b

Where the mask is off both factors are zero, so the product may stop there; nothing has to be copied and filled with
zeros. With a mask on one operand only, the other one may be infinite there, and 0 · ∞ counts.
"""

from __future__ import annotations

from tilewright.backends.cpu.costs import conjuncts
from tilewright.backends.cpu.dot.lower import takes_steps
from tilewright.backends.cpu.dot_spec import spec_of
from tilewright.backends.cpu.dots import is_zero
from tilewright.backends.cpu.nest.copy_elision import source_of
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import CpuDot, Nest, Write
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.core import Op, Value


def axis_of_depth(buffer: Value, target: Target) -> int | None:
    """The axis of `buffer` along which a prefix of the mask says how deep its product is; None where it does not."""
    dots = [op for op in buffer.uses if isinstance(op, CpuDot)]
    if len(dots) != 1:
        return None
    (dot,) = dots
    if dot.a is dot.b:
        return None
    spec = spec_of(dot)
    axes = (0 if spec.a_transposed else 1, 1 if spec.b_transposed else 0)
    masks = [_conditions(v, axis) for v, axis in zip((dot.a, dot.b), axes, strict=True)]
    if not masks[0] or masks[0] != masks[1] or not all(takes_steps(spec, operand, target) for operand in (0, 1)):
        return None
    return axes[dot.operands.index(buffer)]


def _conditions(buffer: Value, axis: int) -> set[object]:
    """The conditions along `axis` in the mask of the load behind `buffer`; none unless masked-off elements are zero."""
    write = next((op for op in buffer.uses if isinstance(op, Write) and op.elide_copy), None)
    source = source_of(write.value) if write is not None else None
    if source is None:
        return set()
    mask, other = source.load.mask, source.load.other
    if mask is None or other is None or not is_zero(other):
        return set()
    along = source.order[axis]
    return {_key(v) for v in conjuncts(mask) if (v.type.shape or (1, 1))[along] > 1}


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
