"""Combine: two tile ops that one can do.

%d = tt.dot %a, %b, %zero                          ->   %e = tt.dot %a, %b, %c
%e = arith.addf %d, %c

%x = tt.load %p, %mask                             ->   %y = tt.load %p, %mask, %other
%y = arith.select %mask, %x, %other

%q = tt.addptr (tt.addptr %p, %c1), %c2            ->   %q = tt.addptr %p, %c3

reduce(+, x[:, :, None] * y[None, :, :], axis 1)   ->   tt.dot %x, %y, %zero
"""

from __future__ import annotations

from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value, defining_op
from tilewright.ir.effects import writes_memory
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.types import f32, f64, i32
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.matching import has_one_use, integer_of, is_zero

DOTS = ("tt.dot", "tt.dot_scaled")
FACTS_OF_POINTERS = frozenset(("tt.divisibility", "tt.contiguity", "tt.constancy", "tt.pointee_type"))
"""Attributes that hold for a pointer however it is computed."""
SMALLEST_DOT = 16
"""Below this extent a dot does not pay."""


def sum_with_dot(op: Op, rewriter: Rewriter) -> bool:
    """dot(a, b, 0) + d, d + dot(a, b, 0)  ->  dot(a, b, d); likewise dot_scaled"""
    for value, d in (op.operands, op.operands[::-1]):
        dot = value.op
        if dot is None or dot.name not in DOTS or not has_one_use(value) or not is_zero(dot.operands[2]):
            continue
        if not _accumulates_precisely(dot):
            continue
        a, b, _, *scales = dot.operands
        operands, attributes = (a, b, d, *scales), dict(dot.attributes)
        rewriter.replace(op, rewriter.create(op, dot.name, operands, (op.result.type,), attributes).results)
        return True
    return False


def _accumulates_precisely(dot: Op) -> bool:
    limit = dot.attributes.get("maxNumImpreciseAcc")
    return not isinstance(limit, Number) or limit.value == 0


def addptr_of_addptr(op: Op, rewriter: Rewriter) -> bool:
    """(p + c) + d  ->  p + (c + d) for constants whose sum does not overflow"""
    inner = defining_op(op.operands[0], "tt.addptr")
    if inner is None or inner.operands[1].type is not op.operands[1].type:
        return False
    c, d = integer_of(inner.operands[1]), integer_of(op.operands[1])
    type = op.operands[1].type
    if c is None or d is None or not -(1 << type.bits - 1) <= c + d < 1 << type.bits - 1:
        return False
    _set_address(op, inner.operands[0], rewriter.constant(c + d, type), rewriter)
    return True


def addptr_of_wide_addptr(op: Op, rewriter: Rewriter) -> bool:
    """(p + i) + j  ->  p + (i + j) for 64-bit offsets"""
    inner, type = defining_op(op.operands[0], "tt.addptr"), op.operands[1].type
    if inner is None or inner.operands[1].type is not type or type.bits != 64:
        return False
    sum = rewriter.create(op, "arith.addi", (inner.operands[1], op.operands[1]), (type,))
    _set_address(op, inner.operands[0], sum.result, rewriter)
    return True


def _set_address(op: Op, pointer: Value, offset: Value, rewriter: Rewriter) -> None:
    for name in op.attributes.keys() - FACTS_OF_POINTERS:
        del op.attributes[name]
    rewriter.set_operands(op, (pointer, offset))


def select_of_masked_load(op: Op, rewriter: Rewriter) -> bool:
    """select(m, load(p, m), y)  ->  load(p, m, y);   likewise when the mask is splat(m)"""
    condition, x, y = op.operands
    load = defining_op(x, "tt.load")
    if load is None or len(load.operands) < 2 or not has_one_use(x) or load.attributes.get("isVolatile"):
        return False
    if not _is_mask(load.operands[1], condition) or _written_between(load, op):
        return False
    operands = (*load.operands[:2], y)
    rewriter.replace(op, rewriter.create(op, "tt.load", operands, (op.result.type,), dict(load.attributes)).results)
    return True


def _is_mask(mask: Value, condition: Value) -> bool:
    splat = defining_op(mask, "tt.splat")
    return mask is condition or (splat is not None and splat.operands[0] is condition)


def _written_between(first: Op, last: Op) -> bool:
    """Whether memory may change between two ops; True also if they are not in one block."""
    op = first.next
    while op is not None:
        if op is last:
            return False
        if writes_memory(op):
            return True
        op = op.next
    return True


def sum_of_products(op: Op, rewriter: Rewriter) -> bool:
    """reduce(+, broadcast(x[:, :, None]) * broadcast(y[None, :, :]), axis 1)  ->  dot(x, y, 0)"""
    if len(op.operands) != 1 or op.attributes["axis"] != Number(1, i32) or not _adds(op):
        return False
    product = defining_op(op.operands[0], "arith.mulf")
    if product is None or len(product.result.type.shape or ()) != 3:
        return False
    x, y = (_factor(value, axis) for value, axis in zip(product.operands, (2, 0), strict=True))
    if x is None or y is None or x.type.scalar not in (f32, f64):
        return False
    if min(*(x.type.shape or ()), *(y.type.shape or ())) < SMALLEST_DOT:
        return False
    type = op.result.type
    attributes: dict[str, Attribute] = {"inputPrecision": Keyword("ieee"), "maxNumImpreciseAcc": Number(0, i32)}
    operands = (x, y, rewriter.constant(0.0, type))
    rewriter.replace(op, rewriter.create(op, "tt.dot", operands, (type,), attributes).results)
    return True


def _adds(reduce: Op) -> bool:
    """Whether the combining region is a float addition."""
    block = reduce.regions[0].block
    add = block.first
    return (
        add is not None
        and add.name == "arith.addf"
        and add.next is block.last
        and set(add.operands) == set(block.args)
        and block.terminator.operands == add.results
    )


def _factor(value: Value, axis: int) -> Value | None:
    """x of broadcast(expand_dims(x, axis))."""
    broadcast = defining_op(value, "tt.broadcast")
    expand = defining_op(broadcast.operands[0] if broadcast is not None else value, "tt.expand_dims")
    if expand is None or expand.attributes["axis"] != Number(axis, i32):
        return None
    return expand.operands[0]


def reshape_before_reduce(op: Op, rewriter: Rewriter) -> bool:
    """reduce(reshape(x) to one axis), histogram(…)  ->  the reshape may reorder"""
    shape = op.result.type.shape or ()
    if len(shape) != 1 or op.attributes.get("allow_reorder") or not op.result.uses:
        return False
    if any(user.name not in ("tt.reduce", "tt.histogram") or len(user.operands) != 1 for user in op.result.uses):
        return False
    op.attributes["allow_reorder"] = True
    return True


def descriptor_load_of_fewer_axes(op: Op, rewriter: Rewriter) -> bool:
    """reshape(descriptor_load(…) : 1xMxN) to MxN  ->  descriptor_load(…) : MxN"""
    load = defining_op(op.operands[0], "tt.descriptor_load")
    if load is None or not has_one_use(load.result):
        return False
    old, new = load.result.type.shape or (), op.result.type.shape or ()
    dropped = len(old) - len(new)
    if dropped <= 0 or old[:dropped] != (1,) * dropped or old[dropped:] != new:
        return False
    operands, attributes = load.operands, dict(load.attributes)
    rewriter.replace(op, rewriter.create(load, load.name, operands, (op.result.type,), attributes).results)
    return True


RULES: dict[str, tuple[Rule, ...]] = {
    "arith.addi": (sum_with_dot,),
    "arith.addf": (sum_with_dot,),
    "tt.addptr": (addptr_of_addptr, addptr_of_wide_addptr),
    "arith.select": (select_of_masked_load,),
    "tt.reduce": (sum_of_products,),
    "tt.reshape": (descriptor_load_of_fewer_axes, reshape_before_reduce),
}


RULES_KEEPING_BASES: dict[str, tuple[Rule, ...]] = {**RULES, "tt.addptr": (addptr_of_addptr,)}
CONTRACTIONS = ("arith.addf", "tt.reduce")
"""Ops whose rules make several roundings of floats one."""
RULES_WITHOUT_FUSION = {name: rules for name, rules in RULES_KEEPING_BASES.items() if name not in CONTRACTIONS}


def combine(module: Op) -> bool:
    """Apply the rules above to every function of `module`; returns whether anything changed."""
    return rewrite_functions(module, RULES)


def combine_keeping_bases(module: Op) -> bool:
    """As `combine`, but sums of offsets that are no constants stay: what a loop does not change is added before it.

    Returns:
        whether anything changed.
    """
    return rewrite_functions(module, RULES_KEEPING_BASES)


def combine_without_fusion(module: Op) -> bool:
    """As `combine_keeping_bases`, but every sum and product of floats is rounded as the program says.

    Returns:
        whether anything changed.
    """
    return rewrite_functions(module, RULES_WITHOUT_FUSION)
