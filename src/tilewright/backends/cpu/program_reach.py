"""The memory that the loads and stores of a kernel touch in all iterations of its loops, and whether that overlaps.

    scf.for %i = 0 to %n step 32 { tt.load x + (%i + range) * %stride }         x … x + (last %i + 31) * %stride
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from tilewright.analysis.guard_conditions import (
    ZERO,
    Condition,
    Extreme,
    Part,
    Scaled,
    Sum,
    either,
    every,
    greatest,
    least,
    minus,
    not_negative,
    plus,
    remainder,
    times,
    whole,
)
from tilewright.analysis.integer_forms import Monomial, Symbol
from tilewright.analysis.memory_accesses import Ends, extent_of, start_of, varying
from tilewright.analysis.value_forms import ValueForms, size_of
from tilewright.dialects.scf import For
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Block, Value
from tilewright.transforms.matching import binary_of, integer_of


def are_apart(function: Func, block: Block) -> Condition | None:
    """Whether no op in `block` touches what another one stores; None: values of `function` do not tell."""
    ops = [inner for op in block.ops() for inner in op.walk() if isinstance(inner, (Load, Store))]
    scalars = ValueForms(sees_scalars=True)
    reaches = {op: _reach(op, scalars, function) for op in ops}
    conditions = list[Condition]()
    for one, other in combinations(ops, 2):
        if isinstance(one, Store) or isinstance(other, Store):
            a, z = reaches[one], reaches[other]
            if a is None or z is None:
                return None
            conditions.append(either((not_negative(minus(a.first, z.end)), not_negative(minus(z.first, a.end)))))
    return every(conditions)


def _reach(op: Load | Store, scalars: ValueForms, function: Func) -> Ends | None:
    """The first address that `op` touches, and that behind the last one."""
    shape, terms = scalars.of(op.pointer)
    start, extent = start_of(terms), extent_of(varying(terms), tuple(Ends(ZERO, whole(lanes)) for lanes in shape))
    if extent is None:
        return None
    low = _in_all_iterations(plus(start, extent.low), scalars, least)
    high = _in_all_iterations(plus(start, extent.high, whole(size_of(op.pointer))), scalars, greatest)
    if low is None or high is None:
        return None
    values = [symbol.source for sum in (low, high) for symbol in _symbols(sum)]
    are_known = all((value.op.block if value.op is not None else value.block) is function.body for value in values)
    return Ends(low, high) if are_known else None


def _in_all_iterations(sum: Sum, scalars: ValueForms, choose: Callable[[Sum, Sum], Sum]) -> Sum | None:
    """The least or the greatest number that the sum is; None if what loops change is in anything but its products."""
    rest, factors = dict[Monomial, int](), dict[Symbol, dict[Monomial, int]]()
    for monomial, number in sum.terms.items():
        changing = next((symbol for symbol in monomial if _changes(symbol.source)), None)
        if changing is None:
            rest[monomial] = number
        else:
            others = list(monomial)
            others.remove(changing)
            factors.setdefault(changing, {})[tuple(others)] = number
    found = Sum(rest, sum.parts)
    for changing, terms in factors.items():
        ends = _ends(changing.source, scalars)
        if ends is None:
            return None
        found = plus(found, choose(*(times(Sum(terms), end) for end in ends)))
    return found


def _loop_of(value: Value) -> For | None:
    """The loop that counts by `value`, or carries it."""
    region = None if value.op is not None or value.block is None else value.block.region
    return region.op if region is not None and isinstance(region.op, For) else None


def _changes(value: Value) -> bool:
    """Whether a scalar is one of a loop."""
    return _loop_of(value) is not None or (value.op is not None and isinstance(value.op.parent, For))


def _ends(value: Value, scalars: ValueForms) -> Ends | None:
    """The values of a scalar in the first and in the last iteration, between which it changes by equal steps."""
    if value.op is None:
        return _ends_of_counter(value, scalars)
    product = binary_of(value, "arith.muli")
    factors = () if product is None else ((product.lhs, product.rhs), (product.rhs, product.lhs))
    for changing, factor in factors:
        ends = _ends(changing, scalars) if _changes(changing) and not _changes(factor) else None
        if ends is not None:
            by = start_of(scalars.of(factor).terms)
            return Ends(times(ends.first, by), times(ends.end, by))
    return None


def _ends_of_counter(value: Value, scalars: ValueForms) -> Ends | None:
    """The ends of a counter, or of a carried number that grows by another one."""
    loop = _loop_of(value)
    step = None if loop is None else integer_of(loop.step)
    if loop is None or step is None or step <= 0:
        return None
    low, end = (start_of(scalars.of(bound).terms) for bound in (loop.low, loop.high))
    steps = minus(minus(end, whole(1)), low)
    if value is loop.induction_variable:
        return Ends(low, minus(plus(low, steps), remainder(steps, step)))
    number = value.index - 1
    sum = binary_of(loop.yielded[number], "arith.addi")
    if step != 1 or sum is None or sum.lhs is not value or sum.rhs is value:
        return None
    first, growth = (start_of(scalars.of(part).terms) for part in (loop.inits[number], sum.rhs))
    return Ends(first, plus(first, times(growth, steps)))


def _symbols(sum: Sum) -> Iterator[Symbol]:
    for monomial in sum.terms:
        yield from monomial
    for _, part in sum.parts:
        for inner in _sums_of(part):
            yield from _symbols(inner)


def _sums_of(part: Part) -> tuple[Sum, ...]:
    if isinstance(part, Extreme):
        return part.among
    return (part.left, part.right) if isinstance(part, Scaled) else (part.of,)
