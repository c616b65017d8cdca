"""Conditions that are decided at run time, as data: sums, extremes, products and remainders of run-time values.

    y - x >= 256 or x - y >= 256        Connection("or", (Comparison(">=", y - x - 256), Comparison(">=", x - y - 256)))

A pass that makes IR from one needs i64 additions, multiplications, minima, maxima, remainders and comparisons. The
values are those of the symbols as i64, with scalars sign-extended; 64-bit sums are assumed not to wrap, because
addresses beyond 2^63 do not exist. What the ranges of the symbols decide is decided when the condition is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from tilewright.analysis.index_tables import Interval
from tilewright.analysis.integer_forms import FARTHEST, Monomial


class Extreme(NamedTuple):
    """The least (`sign` -1) or the greatest (`sign` 1) of two sums."""

    sign: int
    among: tuple[Sum, Sum]


class Scaled(NamedTuple):
    """The product of two sums."""

    left: Sum
    right: Sum


class Remainder(NamedTuple):
    """The remainder of a sum that is divided by a positive number, 0 … divisor - 1."""

    of: Sum
    divisor: int


Part: TypeAlias = Extreme | Scaled | Remainder


class Sum(NamedTuple):
    """A polynomial of symbols, plus multiples of minima, maxima, products and remainders."""

    terms: Mapping[Monomial, int]
    parts: tuple[tuple[int, Part], ...] = ()

    @property
    def number(self) -> int | None:
        """The sum, if it is known now."""
        if not self.terms and not self.parts:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 and not self.parts else None


class Comparison(NamedTuple):
    """`sum` is not negative (`>=`), or it is zero (`==`)."""

    relation: str
    sum: Sum


class Connection(NamedTuple):
    """All of these hold (`and`), or at least one does (`or`)."""

    word: str
    of: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Connection
ALWAYS, NEVER = Connection("and", ()), Connection("or", ())


def not_negative(sum: Sum) -> Condition:
    return simplified(Comparison(">=", sum))


def is_zero(sum: Sum) -> Condition:
    return simplified(Comparison("==", sum))


def whole(number: int) -> Sum:
    return Sum({(): number} if number else {})


ZERO = whole(0)


def plus(*sums: Sum) -> Sum:
    terms: dict[Monomial, int] = {}
    parts: tuple[tuple[int, Part], ...] = ()
    for one in sums:
        if one.parts:
            parts = _merged(parts, one.parts) if parts else one.parts
        for monomial, factor in one.terms.items():
            if total := terms.get(monomial, 0) + factor:
                terms[monomial] = total
            else:
                del terms[monomial]
    return Sum(terms, parts)


def _merged(parts: tuple[tuple[int, Part], ...], more: tuple[tuple[int, Part], ...]) -> tuple[tuple[int, Part], ...]:
    """Both, without those that cancel."""
    found = list(parts)
    for factor, part in more:
        same = next((place for place, (_, known) in enumerate(found) if known is part or known == part), None)
        if same is None:
            found.append((factor, part))
        elif total := found[same][0] + factor:
            found[same] = (total, part)
        else:
            del found[same]
    return tuple(found)


def scaled(sum: Sum, factor: int) -> Sum:
    if not factor or factor == 1:
        return sum if factor else ZERO
    terms = {monomial: number * factor for monomial, number in sum.terms.items()}
    return Sum(terms, tuple((number * factor, part) for number, part in sum.parts) if sum.parts else ())


def minus(a: Sum, b: Sum) -> Sum:
    return plus(a, scaled(b, -1))


def times(a: Sum, b: Sum) -> Sum:
    for one, other in ((a, b), (b, a)):
        if one.number is not None:
            return scaled(other, one.number)
    if not (a.parts or b.parts):
        products = (Sum({tuple(sorted(x + y)): m * n}) for x, m in a.terms.items() for y, n in b.terms.items())
        return plus(*products)
    return Sum({}, ((1, Scaled(a, b)),))


def least(a: Sum, b: Sum) -> Sum:
    return _extreme(-1, a, b)


def greatest(a: Sum, b: Sum) -> Sum:
    return _extreme(1, a, b)


def _extreme(sign: int, a: Sum, b: Sum) -> Sum:
    """The least or greatest of two sums, one of them if they differ by a number."""
    distance = 0 if a is b else minus(a, b).number
    if distance is not None:
        return a if distance * sign >= 0 else b
    return Sum({}, ((1, Extreme(sign, (a, b))),))


def remainder(sum: Sum, divisor: int) -> Sum:
    """The remainder of the sum divided by a positive number; multiples of the number do not count."""
    terms = {monomial: factor for monomial, factor in sum.terms.items() if monomial and factor % divisor}
    parts = tuple((factor, part) for factor, part in sum.parts if factor % divisor)
    rest = sum.terms.get((), 0) % divisor
    if not terms and not parts:
        return whole(rest)
    return Sum({}, ((1, Remainder(plus(Sum(terms, parts), whole(rest)), divisor)),))


def size(sum: Sum) -> Sum:
    """The sum without its sign."""
    return greatest(sum, scaled(sum, -1)) if sum.number is None else whole(abs(sum.number))


def interval_of(sum: Sum) -> Interval:
    """The least and the greatest value that the ranges of symbols allow."""
    low = high = 0
    for monomial, factor in sum.terms.items():
        least, most = _range_of(monomial)
        low, high = low + min(least * factor, most * factor), high + max(least * factor, most * factor)
    for factor, part in sum.parts:
        least, most = _range_of_part(part)
        low, high = low + min(least * factor, most * factor), high + max(least * factor, most * factor)
    return low, high


def _range_of(monomial: Monomial) -> Interval:
    if len(monomial) == 1:
        return monomial[0].low, monomial[0].high
    low = high = 1
    for symbol in monomial:
        low, high = range_of_product((low, high), (symbol.low, symbol.high))
    return low, high


def _range_of_part(part: Part) -> Interval:
    if isinstance(part, Remainder):
        return 0, part.divisor - 1
    if isinstance(part, Scaled):
        return range_of_product(interval_of(part.left), interval_of(part.right))
    lows, highs = zip(*(interval_of(sum) for sum in part.among), strict=True)
    return (min(lows), min(highs)) if part.sign < 0 else (max(lows), max(highs))


def range_of_product(a: Interval, b: Interval) -> Interval:
    """The interval of the products of numbers of two intervals."""
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def decided(condition: Comparison) -> bool | None:
    """Whether the condition holds, if the ranges of its symbols decide it."""
    if any(len(monomial) == 1 and monomial[0].high == FARTHEST for monomial in condition.sum.terms):
        return None
    low, high = interval_of(condition.sum)
    if condition.relation == ">=":
        return True if low >= 0 else False if high < 0 else None
    return True if low == high == 0 else False if low > 0 or high < 0 else None


def simplified(condition: Comparison) -> Condition:
    holds = decided(condition)
    return condition if holds is None else ALWAYS if holds else NEVER


def every(conditions: Iterable[Condition]) -> Condition:
    """All of the conditions."""
    return _connected("and", conditions)


def either(conditions: Iterable[Condition]) -> Condition:
    """At least one of the conditions."""
    return _connected("or", conditions)


def _connected(word: str, conditions: Iterable[Condition]) -> Condition:
    found = list[Condition]()
    for condition in conditions:
        if isinstance(condition, Connection) and condition.word != word and not condition.of:
            return condition  # never is the end of `and`, always that of `or`
        parts = condition.of if isinstance(condition, Connection) and condition.word == word else (condition,)
        for part in parts:
            if part not in found:
                found.append(part)
    return found[0] if len(found) == 1 else Connection(word, tuple(found))
