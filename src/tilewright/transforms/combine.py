"""Combine: two tile ops become one.

%d = tt.dot %a, %b, %zero                          ->   %e = tt.dot %a, %b, %c
%e = arith.addf %d, %c

%x = tt.load %p, %mask                             ->   %y = tt.load %p, %mask, %other
%y = arith.select %mask, %x, %other

%q = tt.addptr (tt.addptr %p, %c1), %c2            ->   %q = tt.addptr %p, %c3

reduce(+, x[:, :, None] * y[None, :, :], axis 1)   ->   tt.dot %x, %y, %zero
"""

from __future__ import annotations

from tilewright.dialects.arith import Binary, Select
from tilewright.dialects.tt_descriptors import DescriptorLoad
from tilewright.dialects.tt_dot import Dot, DotScaled
from tilewright.dialects.tt_memory import AddPtr, Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Histogram, Reshape, Splat
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.effects import writes_memory
from tilewright.ir.rewriter import Rewriter
from tilewright.ir.types import f32, f64, i32
from tilewright.transforms import power_rules
from tilewright.transforms.equations import Equation, by_op
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.matching import binary_of, following, has_one_use, integer_of, is_zero

FACTS_OF_POINTERS = frozenset(("tt.divisibility", "tt.contiguity", "tt.constancy", "tt.pointee_type"))
"""Attributes that hold for a pointer however it is computed."""
SMALLEST_DOT = 16
"""Min extent of a dot that pays."""


def sum_with_dot(op: Binary, rewriter: Rewriter) -> bool:
    """dot(a, b, 0) + d, d + dot(a, b, 0) → dot(a, b, d); likewise dot_scaled"""
    x, y = op.operands
    for value, d in ((x, y), (y, x)):
        dot = value.op
        if not isinstance(dot, (Dot, DotScaled)) or not has_one_use(value) or not is_zero(dot.accumulator):
            continue
        if isinstance(dot, Dot) and dot.max_imprecise_sums != 0:
            continue
        a, b, _, *scales = dot.operands
        operands, attributes = (a, b, d, *scales), dict(dot.attributes)
        rewriter.replace(op, rewriter.create(op, dot.name, operands, (op.result.type,), attributes).results)
        return True
    return False


def addptr_of_addptr(op: AddPtr, rewriter: Rewriter) -> bool:
    """(p + c) + d → p + (c + d)"""
    inner, type = defining(op.pointer, AddPtr), op.offset.type
    if inner is None or inner.offset.type is not type:
        return False
    c, d = integer_of(inner.offset), integer_of(op.offset)
    if c is None or d is None or not -(1 << type.bits - 1) <= c + d < 1 << type.bits - 1:
        return False
    _set_address(op, inner.pointer, rewriter.constant(c + d, type), rewriter)
    return True


def addptr_of_wide_addptr(op: AddPtr, rewriter: Rewriter) -> bool:
    """(p + i) + j → p + (i + j)"""
    inner, type = defining(op.pointer, AddPtr), op.offset.type
    if inner is None or inner.offset.type is not type or type.bits != 64:
        return False
    sum = rewriter.create(op, "arith.addi", (inner.offset, op.offset), (type,))
    _set_address(op, inner.pointer, sum.result, rewriter)
    return True


def _set_address(op: AddPtr, pointer: Value, offset: Value, rewriter: Rewriter) -> None:
    for name in op.attributes.keys() - FACTS_OF_POINTERS:
        del op.attributes[name]
    rewriter.set_operands(op, (pointer, offset))


def select_of_masked_load(op: Select, rewriter: Rewriter) -> bool:
    """select(m, load(p, m), y) → load(p, m, y);   likewise when the mask is splat(m)"""
    condition, x, y = op.operands
    load = defining(x, Load)
    if load is None or load.mask is None or not has_one_use(x) or load.is_volatile:
        return False
    if not _is_mask(load.mask, condition) or _written_between(load, op):
        return False
    operands = (load.pointer, load.mask, y)
    rewriter.replace(op, rewriter.create(op, "tt.load", operands, (op.result.type,), dict(load.attributes)).results)
    return True


def _is_mask(mask: Value, condition: Value) -> bool:
    splat = defining(mask, Splat)
    return mask is condition or (splat is not None and splat.source is condition)


def _written_between(first: Op, last: Op) -> bool:
    """Whether memory may change between two ops; True also if they are not in one block."""
    for op in following(first):
        if op is last or writes_memory(op):
            return op is not last
    return True


def sum_of_products(op: Reduce, rewriter: Rewriter) -> bool:
    """reduce(+, broadcast(x[:, :, None]) * broadcast(y[None, :, :]), axis 1) → dot(x, y, 0)"""
    if len(op.sources) != 1 or op.axis != 1 or not _adds(op):
        return False
    (source,) = op.sources
    product = binary_of(source, "arith.mulf")
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


def _adds(reduce: Reduce) -> bool:
    """Whether the combining region is a float addition."""
    block = reduce.combine
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
    broadcast = defining(value, Broadcast)
    expand = defining(broadcast.source if broadcast is not None else value, ExpandDims)
    return expand.source if expand is not None and expand.axis == axis else None


def reshape_before_reduce(op: Reshape, rewriter: Rewriter) -> bool:
    """reduce(reshape(x) to one axis), histogram(…) → the reshape may reorder"""
    shape = op.result.type.shape or ()
    if len(shape) != 1 or op.allow_reorder or not op.result.uses:
        return False
    if any(not isinstance(user, (Reduce, Histogram)) or len(user.operands) != 1 for user in op.result.uses):
        return False
    op.attributes["allow_reorder"] = True
    rewriter.modified(op)
    return True


def descriptor_load_of_fewer_axes(op: Reshape, rewriter: Rewriter) -> bool:
    """reshape(descriptor_load(…) : 1xMxN) to MxN → descriptor_load(…) : MxN"""
    load = defining(op.source, DescriptorLoad)
    if load is None or not has_one_use(load.result):
        return False
    old, new = load.result.type.shape or (), op.result.type.shape or ()
    dropped = len(old) - len(new)
    if old[:dropped] != (1,) * dropped or old[dropped:] != new:
        return False
    operands, attributes = load.operands, dict(load.attributes)
    rewriter.replace(op, rewriter.create(load, load.name, operands, (op.result.type,), attributes).results)
    return True


ONE_USE = "the result of the inner op has no other use"
CONTRACTIONS = (
    Equation.of(sum_with_dot, "arith.addf", given=ONE_USE, reason="one rounding for several"),
    Equation.of(
        sum_of_products,
        "tt.reduce",
        given="x and y are f32 or f64, no extent is below 16",
        reason="one rounding for several; smaller dots do not pay",
    ),
)
ROWS_WITHOUT_FUSION = (
    Equation.of(sum_with_dot, "arith.addi", given=ONE_USE),
    Equation.of(addptr_of_addptr, "tt.addptr", given="c + d does not overflow"),
    Equation.of(
        select_of_masked_load,
        "arith.select",
        given=f"{ONE_USE}; the load is not volatile, and nothing writes before the selection",
    ),
    Equation.of(descriptor_load_of_fewer_axes, "tt.reshape", given=ONE_USE),
    Equation.of(reshape_before_reduce, "tt.reshape", given="no other ops use the result"),
    *power_rules.ROWS,
)
ROWS_KEEPING_BASES = (*ROWS_WITHOUT_FUSION, *CONTRACTIONS)
ROWS = (
    *ROWS_KEEPING_BASES,
    Equation.of(addptr_of_wide_addptr, "tt.addptr", given="offsets have 64 bits", reason="narrower sums may overflow"),
)
RULES_WITHOUT_FUSION, RULES_KEEPING_BASES, RULES = map(by_op, (ROWS_WITHOUT_FUSION, ROWS_KEEPING_BASES, ROWS))


def combine(module: Op) -> bool:
    """Rewrite dots, addresses, selections and reshapes that one op can replace; returns whether anything changed."""
    return rewrite_functions(module, RULES)


def combine_keeping_bases(module: Op) -> bool:
    """Combine like `combine`, but keep sums of offsets that are no constants: loop-invariant ones move in front."""
    return rewrite_functions(module, RULES_KEEPING_BASES)


def combine_without_fusion(module: Op) -> bool:
    """Combine like `combine_keeping_bases`, but round every sum and product of floats as the program says."""
    return rewrite_functions(module, RULES_WITHOUT_FUSION)
