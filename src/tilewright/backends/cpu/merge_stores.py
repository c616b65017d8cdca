"""Two stores to the same addresses, exactly one of which stores each element, become one.

    tt.store %p, %x, %inside and not %fill             %y = arith.select %fill, %value, %x
    tt.store %p, %value, %inside and %fill      →      tt.store %p, %y, %inside

Masked fills are written in this way. Stores under masks that vary from lane to lane are slow: on AMD's processors with
AVX2 one takes some 25 cycles. The common part of both masks usually ends rows, and disappears in most of them.

Nothing in between may read memory, or have visible effects, and no two lanes may share an address, because the second
store would win there.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.guard_conditions import ALWAYS
from tilewright.analysis.memory_accesses import MemoryAccesses
from tilewright.dialects.arith import Binary, Compare
from tilewright.dialects.tt_memory import Store
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure
from tilewright.transforms.arith_rules import NEGATED
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import integer_of
from tilewright.transforms.op_builder import OpBuilder


class _Choice(NamedTuple):
    """The parts of two masks that exclude each other.

    Attributes:
        shared: what both have in common; None: nothing but that.
        second: what the second one has for itself, and the first one the opposite of.
    """

    shared: Value | None
    second: Value


def merge_stores(module: Op) -> bool:
    """Merge pairs of stores in `module` with complementary masks; returns whether there were any."""
    found = False
    for function in functions_of(module):
        accesses = MemoryAccesses()
        for second in function.ops_of(Store):
            first = _store_in_front(second)
            choice = None if first is None else _choice(first.mask, second.mask)
            if first is None or choice is None:
                continue
            if accesses.at(second.pointer, choice.shared).lanes.apart == ALWAYS:  # also lanes of different stores
                _merge(first, second, choice)
                found = True
    return found


def _store_in_front(store: Store) -> Store | None:
    """The store to the same places in the same way, behind which nothing touches memory up to `store`."""
    before = store.previous
    while before is not None and is_pure(before):
        before = before.previous
    if not isinstance(before, Store) or before.pointer is not store.pointer:
        return None
    return before if before.attributes == store.attributes else None


def _choice(first: Value | None, second: Value | None) -> _Choice | None:
    """How two masks exclude each other; None if unknown that they do."""
    if first is None or second is None:
        return None
    if _are_opposite(first, second):
        return _Choice(None, second)
    one, other = first.op, second.op
    if not (isinstance(one, Binary) and isinstance(other, Binary) and one.name == other.name == "arith.andi"):
        return None
    pairs = ((a, b, c, d) for a, b in _both_ways(one) for c, d in _both_ways(other))
    return next((_Choice(a, d) for a, b, c, d in pairs if a is c and _are_opposite(b, d)), None)


def _both_ways(op: Binary) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    return (op.lhs, op.rhs), (op.rhs, op.lhs)


def _are_opposite(a: Value, b: Value) -> bool:
    """Whether one of two conditions holds where the other one does not."""
    one, other = a.op, b.op
    if isinstance(one, Compare) and isinstance(other, Compare) and one.name == other.name:
        return one.operands == other.operands and NEGATED.get(one.predicate) == other.predicate
    return _is_negation(a, b) or _is_negation(b, a)


def _is_negation(a: Value, b: Value) -> bool:
    op = a.op
    return isinstance(op, Binary) and op.name == "arith.xori" and op.lhs is b and integer_of(op.rhs) in (1, -1)


def _merge(first: Store, second: Store, choice: _Choice) -> None:
    """Let `second` store what each of them would have."""
    value = OpBuilder(second).emit("arith.select", (choice.second, second.value, first.value), second.value.type)
    second.set_operands([second.pointer, value, *([] if choice.shared is None else [choice.shared])])
    first.erase()
