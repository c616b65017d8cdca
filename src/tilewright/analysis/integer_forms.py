"""Integers and addresses as sums of products: run-time values times tables over the indices of a tile.

    %x + 4 · (%n · %i + %j)      {%x: 1, %n: steps [4, 0], 1: steps [0, 4]}        a tile of pointers, in bytes

Sums of 32 bits and more are assumed not to wrap (docs/memory-model.md); narrower ones have a form where they cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.analysis.index_tables import Interval, Table, plus, product, same_table, times, uniform
from tilewright.ir.core import Value
from tilewright.ir.types import Shape

MAX_TERMS = 16
"""Max number of products in a form, and of factors in a product: beyond, a value is a symbol of its own."""
FARTHEST = (1 << 63) - 1
"""The greatest address."""
LARGEST = 1 << 48
"""The size that numbers in tables stay below: others make a symbol."""


class Symbol:
    """An integer known at run time.

    Attributes:
        number: counts the symbols of a function.
        source: the value.
        low, high: its least and its greatest value.
        is_lane: each element of a tile has its own.
        is_bounded: `low` and `high` say more than the type does.
        between: two symbols that all lanes share, between which those lie that touch memory; None: nothing is known.
    """

    __slots__ = ("between", "high", "is_bounded", "is_lane", "low", "number", "source")

    def __init__(self, number: int, source: Value, interval: Interval, *, is_bounded: bool = False) -> None:
        self.number = number
        self.source = source
        self.low, self.high = interval
        self.is_lane = source.type.shape is not None
        self.is_bounded = is_bounded
        self.between: tuple[Symbol, Symbol] | None = None

    def __lt__(self, other: Symbol) -> bool:
        return self.number < other.number


Monomial = tuple[Symbol, ...]
"""A product of symbols in order; () is 1."""
Terms = Mapping[Monomial, Table]


class Form(NamedTuple):
    """Σ symbol · … · symbol · table.

    Attributes:
        shape: that of the tile; () for a scalar.
        terms: per product of symbols its table; none of them is zero.
    """

    shape: Shape
    terms: Terms

    @property
    def is_constant(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and () in self.terms)


def number_form(number: int, shape: Shape = ()) -> Form:
    return table_form(uniform(number, shape))


def table_form(table: Table) -> Form:
    return Form(table.shape, {} if table.is_zero else {(): table})


def symbol_form(symbol: Symbol, shape: Shape = ()) -> Form:
    return Form(shape, {(symbol,): uniform(1, shape)})


def added(a: Form, b: Form) -> Form:
    terms = dict(a.terms)
    for monomial, table in b.terms.items():
        known = terms.get(monomial)
        total = table if known is None else plus(known, table)
        if total.is_zero:
            del terms[monomial]
        else:
            terms[monomial] = total
    return Form(a.shape, terms)


def scaled(form: Form, factor: int) -> Form:
    if factor == 1:
        return form
    return Form(
        form.shape, {monomial: times(table, factor) for monomial, table in form.terms.items()} if factor else {}
    )


def subtracted(a: Form, b: Form) -> Form:
    return added(a, scaled(b, -1))


def multiplied(a: Form, b: Form) -> Form | None:
    """The product; None if it is too large."""
    if len(a.terms) * len(b.terms) > MAX_TERMS:
        return None
    found = Form(a.shape, {})
    for left, x in a.terms.items():
        for right, y in b.terms.items():
            table = product(x, y)
            if table is None or len(left) + len(right) > MAX_TERMS:
                return None
            found = added(found, Form(a.shape, {tuple(sorted(left + right)): table}))
    return found


def is_small(form: Form) -> bool:
    """Whether the form is short, and its numbers leave room for sums of them in 64 bits."""
    return len(form.terms) <= MAX_TERMS and all(table.size < LARGEST for table in form.terms.values())


def same_terms(a: Terms, b: Terms) -> bool:
    return a is b or (a.keys() == b.keys() and all(same_table(table, b[monomial]) for monomial, table in a.items()))


def interval_of(terms: Terms) -> Interval:
    """The least and the greatest value of the sum."""
    low = high = 0
    for monomial, table in terms.items():
        least, most = table.interval
        for symbol in monomial:
            corners = (least * symbol.low, least * symbol.high, most * symbol.low, most * symbol.high)
            least, most = min(corners), max(corners)
        low, high = low + least, high + most
    return low, high


def fits(interval: Interval, bits: int) -> bool:
    """Whether all of these are signed integers of so many bits."""
    half = 1 << (bits - 1)
    return -half <= interval[0] and interval[1] < half
