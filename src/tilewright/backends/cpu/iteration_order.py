"""The function of a reduction whose first operand comes from earlier iterations than the second.

    ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):               ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):
      %equal = arith.cmpf oeq, %a, %b                          %first = arith.cmpf oge, %a, %b
      %left = arith.cmpi slt, %i, %j                           %value = arith.select %first, %a, %b
      %tie = arith.andi %equal, %left                     ->    %place = arith.select %first, %i, %j
      %more = arith.cmpf ogt, %a, %b                           scf.reduce.return %value, %place
      %first = arith.ori %more, %tie
      %value = arith.select %first, %a, %b
      %place = arith.select %first, %i, %j
      scf.reduce.return %value, %place

Indices grow with the iterations, and the function returns one of its two, so the index of the first operand is less.
"""

from __future__ import annotations

from tilewright.backends.cpu.loop_builder import offset_of
from tilewright.dialects.arith import CompareIntegers, IntegerCast, Select
from tilewright.dialects.scf import Parallel, Reduce
from tilewright.dialects.vector import Broadcast, Step, lanes_of
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value, defining
from tilewright.ir.rewriter import apply_rules
from tilewright.ir.types import i1
from tilewright.transforms import arith_rules

OF_LESS = {"slt": 1, "sle": 1, "ne": 1, "sgt": 0, "sge": 0, "eq": 0}
"""Whether a predicate holds of a number and a greater one."""


def in_order(op: Reduce, loop: Parallel) -> Reduce:
    """`op`, or, if the order of its numbers is known, a detached one with the simplified function."""
    forwards = loop.backwards is None
    places = [n for n, v in enumerate(op.values) if forwards and _greatest(v, loop) is not None]
    pairs = [pair for pair in _pairs(op.combine) if pair[0].index in places and _hands_on(op.combine, pair)]
    if not pairs:
        return op
    copy = op.clone()
    copy.set_operands(())
    for less, greater in _pairs(copy.combine):
        if less.index in {pair[0].index for pair in pairs}:
            _decide(less, greater, copy.combine)
    apply_rules(copy, arith_rules.RULES, folds=arith_rules.FOLDS)
    return copy


def _pairs(block: Block) -> list[tuple[Value, Value]]:
    """Each value so far, and the new one that belongs to it."""
    half = len(block.args) // 2
    return list(zip(block.args[:half], block.args[half:], strict=True))


def _hands_on(block: Block, pair: tuple[Value, Value]) -> bool:
    """Whether the function of a reduction gives, in the place of these two, one of them."""
    waiting = [block.terminator.operands[pair[0].index]]
    while waiting:
        value = waiting.pop()
        choice = defining(value, Select)
        if choice is not None:
            waiting += [choice.chosen, choice.other]
        elif value not in pair:
            return False
    return True


def _decide(less: Value, greater: Value, block: Block) -> None:
    """Put what is known in the place of comparisons of two numbers."""
    for op in [user for user in less.uses if isinstance(user, CompareIntegers)]:
        predicate = op.predicate if op.lhs is less else arith_rules.MIRRORED.get(op.predicate, op.predicate)
        if {op.lhs, op.rhs} == {less, greater} and predicate in OF_LESS:
            constant = Op.create("arith.constant", (), (i1,), {"value": Number(OF_LESS[predicate], i1)})
            op.result.replace_by(block.insert(constant, op).results[0])
            op.erase()


def _greatest(value: Value, loop: Parallel) -> int | None:
    """An upper bound of all lanes, if they start at 0 or more and grow with each iteration; else None."""
    op, found = value.op, None
    if value is loop.induction_variable:
        low, high = offset_of(loop.low), offset_of(loop.high)
        found = high if isinstance(low, int) and isinstance(high, int) and low >= 0 else None
    elif isinstance(op, (IntegerCast, Broadcast)):
        (source,) = op.operands
        found = _greatest(source, loop)
    elif op is not None and op.name == "arith.addi":
        counter, step = op.operands
        found = _greatest(counter, loop) if isinstance(step.op, Step) else None
        found = None if found is None else found + lanes_of(step.type)
    return found if found is not None and found < 1 << (value.type.bits - 1) else None
