"""Reorder broadcast: elementwise ops move before splats and broadcasts.

%s = tt.splat %a : i32 -> tensor<64xi32>           %u = arith.addi %a, %b : i32
%t = tt.splat %b : i32 -> tensor<64xi32>     ->    %s = tt.splat %u : i32 -> tensor<64xi32>
%u = arith.addi %s, %t : tensor<64xi32>

%s = tt.broadcast %a : tensor<64x1xi32> -> …       %u = arith.muli %a, %c4 : tensor<64x1xi32>
%u = arith.muli %s, %c4 : tensor<64x32xi32>  ->    %s = tt.broadcast %u : tensor<64x1xi32> -> tensor<64x32xi32>
"""

from __future__ import annotations

from tilewright import dialects
from tilewright.dialects.tt_shape import Broadcast, Splat
from tilewright.ir.core import Op, Value, defining, tile_type
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_pure
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.types import TensorType
from tilewright.transforms import arith_rules, shape_rules
from tilewright.transforms.canonicalize import FOLDS
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.matching import number_of


def elementwise_of_splats(op: Op, rewriter: Rewriter) -> bool:
    """f(splat(a), splat(b))  ->  splat(f(a, b)); constants count as splats"""
    type = op.result.type
    if not isinstance(type, TensorType) or not op.operands:
        return False
    if not all(map(_is_uniform, op.operands)) or not is_pure(op):
        return False
    operands = [_scalar_of(value, rewriter) for value in op.operands]
    scalar = rewriter.create(op, op.name, operands, (type.element,), dict(op.attributes))
    rewriter.replace(op, rewriter.create(op, "tt.splat", scalar.results, (type,)).results)
    return True


def elementwise_of_broadcasts(op: Op, rewriter: Rewriter) -> bool:
    """f(broadcast(a), broadcast(b), splat(c))  ->  broadcast(f(a, b, splat(c))), a and b of one shape"""
    type = op.result.type
    if not isinstance(type, TensorType):
        return False
    sources = [_broadcast_source(value) for value in op.operands]
    shapes = {source.type.shape for source in sources if source is not None}
    if len(shapes) != 1 or not is_pure(op):
        return False
    if not all(source is not None or _is_uniform(value) for source, value in zip(sources, op.operands, strict=True)):
        return False
    shape = shapes.pop() or ()
    operands = [
        source if source is not None else _uniform_tile(value, shape, op, rewriter)
        for source, value in zip(sources, op.operands, strict=True)
    ]
    small = rewriter.create(op, op.name, operands, (_reshaped(op.result, shape),), dict(op.attributes))
    rewriter.replace(op, rewriter.create(op, "tt.broadcast", small.results, (type,)).results)
    return True


def _is_uniform(value: Value) -> bool:
    """Whether it is a tile whose elements are known to be equal: a splat, or a constant."""
    return (number_of(value) is not None or isinstance(value.owner, Splat)) and value.type.shape is not None


def _broadcast_source(value: Value) -> Value | None:
    broadcast = value.owner
    return broadcast.source if isinstance(broadcast, Broadcast) else None


def _scalar_of(value: Value, rewriter: Rewriter) -> Value:
    """The element of a uniform tile."""
    number = number_of(value)
    if number is not None:
        return rewriter.constant(number.value, value.type.scalar)
    return _splat(value).source


def _uniform_tile(value: Value, shape: tuple[int, ...], op: Op, rewriter: Rewriter) -> Value:
    """A uniform tile with another shape."""
    number = number_of(value)
    if number is not None:
        return rewriter.constant(number.value, _reshaped(value, shape))
    return rewriter.create(op, "tt.splat", _splat(value).operands, (_reshaped(value, shape),)).result


def _splat(value: Value) -> Splat:
    splat = defining(value, Splat)
    assert splat is not None, "a uniform tile is a splat or a constant"
    return splat


def _reshaped(value: Value, shape: tuple[int, ...]) -> TensorType:
    type = tile_type(value)
    return TensorType(shape, type.element, type.encoding)


def _swaps(name: str) -> tuple[Rule, ...]:
    return (arith_rules.constant_to_the_right,) if name in arith_rules.COMMUTATIVE else ()


RULES_OF_ELEMENTWISE = (elementwise_of_splats, elementwise_of_broadcasts)
assert dialects.__all__, "importing the dialects declares the ops"
RULES: dict[str, tuple[Rule, ...]] = {
    **{name: (*_swaps(name), *RULES_OF_ELEMENTWISE) for name, kind in OPS.items() if kind.elementwise},
    **shape_rules.RULES,
}


def reorder_broadcast(module: Op) -> bool:
    """Move splats and broadcasts after elementwise ops in `module`; returns whether anything changed."""
    return rewrite_functions(module, RULES, folds=FOLDS, folded=True)
