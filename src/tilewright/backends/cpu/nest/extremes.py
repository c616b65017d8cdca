"""The maximum (or minimum) of a vector and its index: the extreme first, then the least index that has it.

    ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):               %top = the greatest of %x, by log2 steps of one maximum each
      %more = arith.cmpf ogt, %a, %b                        %has = arith.cmpf oeq, %x, %top in every lane
      %equal = arith.cmpf oeq, %a, %b                 →     %places = arith.select %has, %p, the greatest integer
      %left = arith.cmpi slt, %i, %j                        %place = the least of %places, by log2 steps
      %tie = arith.andi %equal, %left
      %first = arith.ori %more, %tie
      %value = arith.select %first, %a, %b
      %place = arith.select %first, %i, %j
      tt.reduce.return %value, %place

Pairwise, the function takes seven dependent instructions per step. Where a lane is NaN, or the extreme is a zero, whose
sign the index decides about, pairs are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.dialects.arith import Bitwise, Compare, Select
from tilewright.dialects.vector import lanes_of
from tilewright.ir.core import Block, Value, defining
from tilewright.ir.types import f32, f64

MIRRORED = {"oeq": "oeq", "ogt": "olt", "olt": "ogt", "slt": "sgt"}
"""The predicates that hold of two operands in the other order."""

Across = Callable[[Sequence[Value]], list[Value]]
"""A function that combines all lanes of the values of a reduction."""


def extreme_kind(block: Block) -> str | None:
    """`ogt` or `olt` if a function gives the greater or lesser number, the first of equal ones; None for others."""
    if len(block.args) != 4:
        return None
    a, i, b, j = block.args
    if a.type not in (f32, f64):
        return None
    value, place = (defining(result, Select) for result in block.terminator.operands)
    if value is None or place is None or value.condition is not place.condition:
        return None
    if (value.chosen, value.other, place.chosen, place.other) != (a, b, i, j):
        return None
    either = defining(value.condition, Bitwise)
    for more, tie in _both_ways(either, "arith.ori"):
        for equal, left in _both_ways(defining(tie, Bitwise), "arith.andi"):
            is_tie = _holds(equal, "arith.cmpf", "oeq", a, b) and _holds(left, "arith.cmpi", "slt", i, j)
            kinds = [kind for kind in ("ogt", "olt") if is_tie and _holds(more, "arith.cmpf", kind, a, b)]
            if kinds:
                return kinds[0]
    return None


def _both_ways(op: Bitwise | None, name: str) -> list[tuple[Value, Value]]:
    """The operands of `op`, in both orders, if it is called `name`."""
    return [(op.lhs, op.rhs), (op.rhs, op.lhs)] if op is not None and op.name == name else []


def _holds(value: Value, name: str, predicate: str, a: Value, b: Value) -> bool:
    """Whether `value` says that `predicate` holds of `a` and `b`."""
    op = defining(value, Compare)
    if op is None or op.name != name:
        return False
    asked = (op.predicate, op.lhs, op.rhs)
    return asked in ((predicate, a, b), (MIRRORED[predicate], b, a))


def extreme_across(b: LoopBuilder, values: Sequence[Value], kind: str, step_by_step: Across) -> list[Value]:
    """The extreme of all lanes and its place; `step_by_step` gives them for NaN and zeros, too."""
    number, place = values
    top = _folded(b, number, lambda x, y: b.select(b.compare(kind, x, y), x, y))
    is_nan = b.reduce("or", b.compare("une", number, number))
    with b.branch(b.or_(is_nan, b.compare("oeq", top, b.constant(0.0, top.type))), unlikely=True) as branch:
        with branch.then():
            slowly = step_by_step(values)
        with branch.otherwise():
            has = b.compare("oeq", number, b.splat(top, lanes_of(number.type)))
            last = b.constant((1 << (place.type.bits - 1)) - 1, place.type)
            least = _folded(b, b.select(has, place, last), b.smin)
    return [branch.join(slow, fast) for slow, fast in zip(slowly, (top, least), strict=True)]


def _folded(b: LoopBuilder, value: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """All lanes in one number, halves on halves."""
    while (half := lanes_of(value.type) // 2) > 0:
        value = combine(b.slice(value, 0, half), b.slice(value, half, half))
    return value
