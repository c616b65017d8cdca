"""Integers and addresses as sums of products: numbers that the run tells, times tables over the indices of a tile.

    %x + 4 · (%n · %i + %j)      {%x: 1, %n: steps [4, 0], 1: steps [0, 4]}        a tile of pointers, in bytes

A value of b bits equals its form modulo 2^b, whatever wraps on the way. Where it is extended to more bits, its
form stays as it is: the wider value then equals the form modulo 2^b only, unless its range shows that nothing wraps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import NamedTuple

from tilewright.analysis.index_tables import Interval, Shape, Table, plus, product, same_table, times, uniform
from tilewright.dialects.scf import For
from tilewright.ir.core import Value

MOST_TERMS = 16
"""Max number of products in a form, and of factors in a product: beyond, a value is a symbol of its own."""
LARGEST = 1 << 48
"""Max size of a number in a table: larger ones make a symbol."""


class Symbol:
    """An integer that the run tells.

    Attributes:
        number: counts the symbols of a function.
        source: the value, or a loop for the number of rounds that it has made.
        low, high: its least and its greatest value.
        is_lane: each element of a tile has its own.
        is_bounded: `low` and `high` say more than the type does.
    """

    __slots__ = ("high", "is_bounded", "is_lane", "low", "number", "source")

    def __init__(
        self, number: int, source: Value | For, interval: Interval, *, is_lane: bool = False, is_bounded: bool = False
    ) -> None:
        self.number = number
        self.source = source
        self.low, self.high = interval
        self.is_lane = is_lane
        self.is_bounded = is_bounded

    def __lt__(self, other: Symbol) -> bool:
        return self.number < other.number

    @property
    def text(self) -> str:
        source = self.source
        name = source.name if isinstance(source, Value) else f"round{self.number}"
        return name or f"v{self.number}"


Monomial = tuple[Symbol, ...]
"""A product of symbols in order; () is 1."""
Terms = Mapping[Monomial, Table]


class Wrap(NamedTuple):
    """A value of `bits` bits that was extended, and may differ from `terms` by multiples of 2^bits."""

    terms: Terms
    bits: int


class Form(NamedTuple):
    """Σ symbol · … · symbol · table.

    Attributes:
        shape: that of the tile; () for a scalar.
        terms: per product of symbols its table; none of them is zero.
        modulus: the value equals the sum modulo this number; 0: it equals the sum.
        wraps: the value equals the sum if none of these wraps.
    """

    shape: Shape
    terms: Terms
    modulus: int = 0
    wraps: tuple[Wrap, ...] = ()

    @property
    def is_constant(self) -> bool:
        return not self.modulus and all(not monomial for monomial in self.terms)

    @property
    def symbols(self) -> set[Symbol]:
        return {symbol for monomial in self.terms for symbol in monomial}


def number_form(number: int, shape: Shape = ()) -> Form:
    return table_form(uniform(number, shape))


def table_form(table: Table) -> Form:
    return Form(table.shape, {} if table.is_zero else {(): table})


def symbol_form(symbol: Symbol, shape: Shape = ()) -> Form:
    return Form(shape, {(symbol,): uniform(1, shape)})


def _met(a: Form, b: Form) -> tuple[int, tuple[Wrap, ...]]:
    wraps = (
        a.wraps
        if a.wraps is b.wraps or not b.wraps
        else (*a.wraps, *(w for w in b.wraps if not any(w is v for v in a.wraps)))
    )
    return gcd(a.modulus, b.modulus), wraps


def added(a: Form, b: Form) -> Form:
    terms = dict(a.terms)
    for monomial, table in b.terms.items():
        known = terms.get(monomial)
        total = table if known is None else plus(known, table)
        if total.is_zero:
            del terms[monomial]
        else:
            terms[monomial] = total
    return Form(a.shape, terms, *_met(a, b))


def scaled(form: Form, factor: int) -> Form:
    terms = {monomial: times(table, factor) for monomial, table in form.terms.items()} if factor else {}
    return Form(form.shape, terms, form.modulus * abs(factor), form.wraps)


def subtracted(a: Form, b: Form) -> Form:
    return added(a, scaled(b, -1))


def multiplied(a: Form, b: Form) -> Form | None:
    """The product; None if it is too large."""
    if len(a.terms) * len(b.terms) > MOST_TERMS:
        return None
    found = Form(a.shape, {}, *_met(a, b))
    for left, x in a.terms.items():
        for right, y in b.terms.items():
            table = product(x, y)
            if table is None or len(left) + len(right) > MOST_TERMS:
                return None
            found = added(found, Form(a.shape, {tuple(sorted(left + right)): table}))
    return found


def is_small(form: Form) -> bool:
    """Whether the form is short, and its numbers leave room for sums of them in 64 bits."""
    return len(form.terms) <= MOST_TERMS and all(
        -LARGEST < bound < LARGEST for table in form.terms.values() for bound in table.interval
    )


def same_terms(a: Terms, b: Terms) -> bool:
    return a.keys() == b.keys() and all(same_table(table, b[monomial]) for monomial, table in a.items())


def interval_of(terms: Terms) -> Interval:
    """The least and the greatest value of the sum."""
    low = high = 0
    for monomial, table in terms.items():
        least, most = _product_interval(monomial, table.interval)
        low, high = low + least, high + most
    return low, high


def _product_interval(monomial: Monomial, interval: Interval) -> Interval:
    low, high = interval
    for symbol in monomial:
        corners = (low * symbol.low, low * symbol.high, high * symbol.low, high * symbol.high)
        low, high = min(corners), max(corners)
    return low, high


def fits(interval: Interval, bits: int) -> bool:
    """Whether all of these are signed integers of so many bits."""
    half = 1 << (bits - 1)
    return -half <= interval[0] and interval[1] < half


def extended(form: Form, bits: int) -> Form:
    """The value of so many bits as a wider integer, with its sign."""
    if not form.modulus and fits(interval_of(form.terms), bits):
        return form
    return form._replace(modulus=gcd(form.modulus, 1 << bits), wraps=(*form.wraps, Wrap(form.terms, bits)))


def form_text(form: Form) -> str:
    """The form as people write it: `x + 4·n·i0 + 4·i1`."""
    parts = [_part_text(monomial, part) for monomial, table in form.terms.items() for part in _parts(table)]
    text = " + ".join(parts) or "0"
    return f"{text} (mod 2^{form.modulus.bit_length() - 1})" if form.modulus else text


def _parts(table: Table) -> Iterator[tuple[int, str]]:
    if table.first:
        yield table.first, ""
    for axis, step in enumerate(table.steps):
        if step:
            yield step, f"i{axis}"
    if table.rest is not None:
        yield 1, "table"


def _part_text(monomial: Monomial, part: tuple[int, str]) -> str:
    factor, index = part
    words = [*(symbol.text for symbol in monomial), *([index] if index else [])]
    return "·".join([str(factor)] * (factor != 1 or not words) + words)
