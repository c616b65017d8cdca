"""An access as a later round of a loop does it, in terms of the round before: what hoisting and pipelining ask about.

    scf.for %k = 0 to %n step 2 { tt.load %x + 4·%k + 4·i0 }       later: x + 4·k + 8·later + 4·i0, later >= 1

What the loop carries and grows by the same amount each round is moved on by that; all else that a round computes anew
is another number in another round.
"""

from __future__ import annotations

from tilewright.analysis.guard_conditions import (
    NEVER,
    Condition,
    Connection,
    Sum,
    either,
    every,
    interval_of,
    not_negative,
    plus,
    symbols_in,
)
from tilewright.analysis.index_tables import broadcast, uniform
from tilewright.analysis.integer_forms import (
    Form,
    Symbol,
    Terms,
    Wrap,
    added,
    extended,
    multiplied,
    number_form,
    symbol_form,
)
from tilewright.analysis.lane_masks import Mask
from tilewright.analysis.memory_accesses import MemoryAccess
from tilewright.analysis.value_forms import COUNTS, ValueForms, changes_in
from tilewright.dialects.scf import For
from tilewright.ir.core import Value
from tilewright.ir.types import IntType


class LaterRound:
    """A later round of `loop`.

    Attributes:
        later: how many rounds later it is.
    """

    def __init__(self, forms: ValueForms, loop: For) -> None:
        self.forms = forms
        self.loop = loop
        self.later = forms.new_symbol(loop, (1, COUNTS[1]), is_bounded=True)
        self._others: dict[Symbol, Form] = {}

    def access(self, access: MemoryAccess) -> MemoryAccess:
        """The access as that round does it."""
        if access.address is None:
            return access
        bounds = [self.form(bound) for bound in access.mask.bounds]
        known = tuple(bound for bound in bounds if bound is not None)
        mask = Mask(access.mask.on, known, is_exact=access.mask.is_exact)
        return access._replace(address=self.form(access.address), mask=mask)

    def form(self, form: Form) -> Form | None:
        """The form with the numbers of that round; None if it is too large."""
        found = self._sum(form.terms, form)
        wraps = [(self._sum(wrap.terms, form), wrap.bits) for wrap in form.wraps]
        if found is None or any(moved is None for moved, _ in wraps):
            return None
        moved_wraps = tuple(Wrap(moved.terms, bits) for moved, bits in wraps if moved is not None)
        return found._replace(wraps=(*moved_wraps, *found.wraps))

    def whenever(self, condition: Condition) -> Condition:
        """A condition that no round changes, under which `condition` holds for all later rounds."""
        if isinstance(condition, Connection):
            connect = every if condition.word == "and" else either
            return connect([self.whenever(part) for part in condition.of])
        terms = condition.sum.terms
        growth = Sum({tuple(s for s in m if s is not self.later): n for m, n in terms.items() if self.later in m})
        steady = Sum({m: n for m, n in terms.items() if self.later not in m}, condition.sum.parts)
        if any(changes_in(self.loop, symbol) for sum in (growth, steady) for symbol in symbols_in(sum)):
            return NEVER
        if not growth.terms:
            return condition
        if condition.relation == "==" or any(m.count(self.later) > 1 for m in terms):
            return NEVER
        next_one = not_negative(plus(steady, growth))
        return next_one if interval_of(steady)[1] <= 0 else every((next_one, not_negative(growth)))

    def _sum(self, terms: Terms, like: Form) -> Form | None:
        shape = next((table.shape for table in terms.values()), like.shape)
        total = Form(shape, {}, like.modulus)
        for monomial, table in terms.items():
            part: Form | None = Form(shape, {(): table})
            for symbol in monomial:
                other = self._other(symbol)
                spread = {m: broadcast(t, shape) if not t.shape else t for m, t in other.terms.items()}
                part = None if part is None else multiplied(part, other._replace(shape=shape, terms=spread))
            if part is None:
                return None
            total = added(total, part)
        return total

    def _other(self, symbol: Symbol) -> Form:
        """What `symbol` is in that round."""
        if symbol not in self._others:
            self._others[symbol] = self._new_other(symbol)
        return self._others[symbol]

    def _new_other(self, symbol: Symbol) -> Form:
        loop, step = self.forms.advances.get(symbol, (None, number_form(0)))
        moved = multiplied(step, symbol_form(self.later)) if loop is self.loop else None
        if moved is not None:
            return _carried(added(symbol_form(symbol), moved), symbol, self.loop)
        if not changes_in(self.loop, symbol):
            return _alone(symbol)
        interval = symbol.low, symbol.high
        return _alone(
            self.forms.new_symbol(symbol.source, interval, is_lane=symbol.is_lane, is_bounded=symbol.is_bounded)
        )


def _alone(symbol: Symbol) -> Form:
    return Form((), {(symbol,): uniform(1)})


def _carried(form: Form, symbol: Symbol, loop: For) -> Form:
    """A carried integer may wrap; the induction variable and the number of rounds do not."""
    source = symbol.source
    if not isinstance(source, Value) or source is loop.induction_variable:
        return form
    scalar = source.type.scalar
    return extended(form, scalar.bits) if isinstance(scalar, IntType) and scalar.bits < 64 else form
