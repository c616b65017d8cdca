"""Observation of the rewriter: which rule applied to which op, and the ops that replaced it.

    with observing(lambda firing: print(firing)):            address_plus_zero: addptr(p, 0) → p
        canonicalize(module)                                   - %p_1 = tt.addptr %p, %c0_i32 : !tt.ptr<f32>, i32
                                                               + %p_1 is %p

Without an observer this costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tilewright.ir.core import Op, Region, Value
from tilewright.ir.naming import Names
from tilewright.ir.printer import Printer
from tilewright.ir.rewriter import REWRITER, Fold, Folds, Rewriter, Rule, Rules


class Firing(NamedTuple):
    """One use of a rule or a fold.

    Attributes:
        rule: its name and equation.
        before: the op it was applied to, as text.
        after: the replacement, line by line; empty if there is none.
    """

    rule: str
    before: str
    after: tuple[str, ...]

    def __str__(self) -> str:
        removed = [f"  - {line}" for line in self.before.splitlines()]
        added = [f"  + {line}" for text in self.after for line in text.splitlines()]
        return "\n".join((self.rule, *removed, *added))


@contextmanager
def observing(observer: Callable[[Firing], None]) -> Iterator[None]:
    """Give `observer` every rule and fold that changes something, until the end of the `with`."""
    token = REWRITER.set(lambda region: _WatchedRewriter(region, observer))
    try:
        yield
    finally:
        REWRITER.reset(token)


class _WatchedRewriter(Rewriter):
    """A rewriter that reports the change of each op to an observer."""

    def __init__(self, region: Region, observer: Callable[[Firing], None]) -> None:
        super().__init__(region)
        assert region.op is not None, "a region belongs to an op"
        self._function, self._observer = region.op, observer
        self._names: Names | None = None
        self._made: list[Op] = []

    def create(self, before: Op, name: str, *rest: Any, **named: Any) -> Op:
        """Create an op like `Rewriter.create`, and note it."""
        op = super().create(before, name, *rest, **named)
        self._made.append(op)
        return op

    def replace(self, op: Op, values: Sequence[Value]) -> None:
        """Replace an op like `Rewriter.replace`, and note it."""
        self._replaced.append((op.results, list(values)))
        super().replace(op, values)

    def visit(self, op: Op, rules: Rules, folds: Folds) -> Rule | Fold | None:
        """Visit an op like `Rewriter.visit`, then notify the observer."""
        names = self._names = self._names or Names(self._function)
        before = _text(op, names)
        self._made = []
        self._replaced: list[tuple[list[Value], list[Value]]] = []
        applied = super().visit(op, rules, folds)
        if applied is not None:
            self._names = None
            self._observer(Firing(_name(applied), before, tuple(self._after(op, names))))
        return applied

    def _after(self, op: Op, names: Names) -> Iterator[str]:
        """The ops that the rule made or changed, under the names from before it, and what took the place of results."""
        left = [made for made in (*self._made, op) if made.block is not None]
        constants = [value.op for made in left for value in made.operands if value not in names.values]
        left = [*dict.fromkeys(made for made in constants if made is not None and made not in left), *left]
        self._name_new(left, names)
        yield from (_text(made, names) for made in left)
        for old, new in self._replaced:
            for result, value in zip(old, new, strict=True):
                if value.op not in left:
                    yield f"{names.values[result]} is {self._described(value, names)}"

    def _name_new(self, ops: Iterable[Op], names: Names) -> None:
        """Names for values that the rule made: those of what they replace, if there is one."""
        heirs = {new: old for olds, news in self._replaced for old, new in zip(olds, news, strict=True)}
        for op in ops:
            for inner in op.walk():
                for value in (*inner.results, *(a for r in inner.regions for b in r.blocks for a in b.args)):
                    if value not in names.values:
                        old = heirs.get(value)
                        names.values[value] = names.values[old] if old in names.values else f"%new{len(names.values)}"

    def _described(self, value: Value, names: Names) -> str:
        op = value.op
        if op is not None and op.definition.constant:
            names.values.setdefault(value, "%constant")
            return _text(op, names).partition("= ")[2]
        return names.values.get(value, "%?")


def _name(rule: Callable[..., object]) -> str:
    """The name of the rule and its equation, which is the first line of its docstring."""
    return f"{rule.__qualname__}: {(rule.__doc__ or '').partition(chr(10))[0]}"


def _text(op: Op, names: Names) -> str:
    printer = Printer(names)
    printer.op(op)
    return "".join(printer.pieces).rstrip("\n")
