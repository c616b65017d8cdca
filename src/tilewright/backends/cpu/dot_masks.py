"""Is a product cut short along k by one and the same mask on both operands?

    %a = tt.load …, mask = steps[None, :] < K - k, other = 0
    %b = tt.load …, mask = steps[:, None] < K - k, other = 0
    tt.dot %a, %b

Where the mask is off both factors are zero, so the product may stop there; nothing has to be copied and filled with
zeros. With a mask on one operand only, the other one may be infinite there, and 0 · ∞ counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.backends.cpu.dot.emit import takes_steps
from tilewright.backends.cpu.dot_spec import spec_of
from tilewright.backends.cpu.dots import is_zero
from tilewright.backends.cpu.nest.borrow import source_of
from tilewright.backends.llvm.machine import Target
from tilewright.ir.core import Op, Value

_KEEPS_CONDITION = {"tt.broadcast", "tt.expand_dims", "tt.splat"}


def axis_of_depth(buffer: Value, target: Target) -> int | None:
    """The axis of `buffer` along which a prefix of the mask says how deep its product is; None where it does not."""
    dots = [op for op in buffer.uses if op.name == "cpu.dot"]
    if len(dots) != 1 or dots[0].operands[0] is dots[0].operands[1]:
        return None
    (dot,) = dots
    spec = spec_of(dot)
    axes = (0 if spec.a_transposed else 1, 1 if spec.b_transposed else 0)
    masks = [_conditions(v, axis) for v, axis in zip(dot.operands[:2], axes, strict=True)]
    if not masks[0] or masks[0] != masks[1] or not all(takes_steps(spec, operand, target) for operand in (0, 1)):
        return None
    return axes[dot.operands.index(buffer)]


def _conditions(buffer: Value, axis: int) -> set[object]:
    """What the mask of the load behind `buffer` asks along `axis`; nothing unless it gives zeros elsewhere."""
    write = next((op for op in buffer.uses if op.name == "cpu.write" and op.attributes.get("borrow")), None)
    source = source_of(write.operands[0]) if write is not None else None
    if source is None or len(source.load.operands) < 3 or not is_zero(source.load.operands[2]):
        return set()
    along = source.order[axis]
    return {_key(v) for v in _conjuncts(source.load.operands[1]) if (v.type.shape or (1, 1))[along] > 1}


def _conjuncts(mask: Value) -> Iterator[Value]:
    op = mask.op
    if op is not None and op.name == "arith.andi":
        for part in op.operands:
            yield from _conjuncts(part)
    elif op is not None and op.name == "tt.broadcast":
        yield from _conjuncts(op.operands[0])
    else:
        yield mask


def _key(value: Value) -> object:
    """The same for values of two nests that are computed in the same way from the same values outside."""
    op = value.op
    if op is None or not _is_inside(op):
        return value
    if op.name in _KEEPS_CONDITION:
        return _key(op.operands[0])
    attributes = tuple(sorted((name, repr(attribute)) for name, attribute in op.attributes.items()))
    return (op.name, attributes, *(_key(v) for v in op.operands))


def _is_inside(op: Op) -> bool:
    return op.parent is not None and op.parent.name == "cpu.nest"
