"""Rewrite rules as table rows: an equation, its condition and its reason. The equation is matched and applied.

    Equation("plus_zero", "x + 0, x - 0 → x")                            a fold: the op is a value or a number
    Equation("sum_minus_constant", "(x + c) - d → x + (c - d)")          a rule: ops take its place

In an equation `c`, `d` and `e` are known numbers, other letters are any values, `_` is an arbitrary value. A letter
that occurs twice is the same value both times. `true` and `false` are of type i1. A sign stands for each of its ops
below, those on floats if the equation has a float, such as `0.0` or `inf`; other ops have their names, without the
dialect. The left side may list several forms, which all become the right side. If the right side has the op's own name,
its operands are changed in place; other ops are created, with the op's type.

A rule that cannot be written as such a pattern has a function.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import copysign, inf
from typing import Any, NamedTuple, TypeAlias

from tilewright import dialects
from tilewright.dialects.arith import CMPI, Compare
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.literals import canonical
from tilewright.ir.rewriter import Folded, Rewriter
from tilewright.ir.types import i1
from tilewright.support.cached_property import cached_property
from tilewright.support.source import expression_tree
from tilewright.transforms.matching import number_of

assert dialects.__all__, "importing the dialects declares the ops"
Given: TypeAlias = Callable[[Any, Value], bool]
"""A condition on the op and the value of the equation's first letter; its docstring says what the value is or has."""
Attempt: TypeAlias = Callable[..., Any]
"""A fold, or a rule."""
Letters: TypeAlias = Mapping[str, Value]
"""The values of letters."""

KNOWN = frozenset("cde")
"""Letters of known numbers."""
LITERALS: dict[str, int | float] = {"true": True, "false": False, "inf": inf}
SIGNS: dict[type[ast.AST], tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("addi", "addf", operator.add),
    ast.Sub: ("subi", "subf", operator.sub),
    ast.Mult: ("muli", "mulf", operator.mul),
    ast.Div: ("divsi divui ceildivsi ceildivui floordivsi", "divf", operator.floordiv),
    ast.Mod: ("remsi remui", "remf", operator.mod),
    ast.BitAnd: ("andi", "", operator.and_),
    ast.BitOr: ("ori", "", operator.or_),
    ast.BitXor: ("xori", "", operator.xor),
    ast.LShift: ("shli", "", operator.lshift),
    ast.RShift: ("shrsi shrui", "", operator.rshift),
}
"""Signs with their ops on integers, on floats, and how known numbers are computed."""
RELATIONS = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt ult",
    ast.LtE: "sle ule",
    ast.Gt: "sgt ugt",
    ast.GtE: "sge uge",
}


class _Form(NamedTuple):
    """One left side: what must hold of the op's operands, of theirs, and so on, each at its place in one list.

    Attributes:
        predicates: those of a comparison; empty for other ops.
        tests: the place of a value, the test on it, and names of ops, the number (None: any) or an earlier place.
        places: of the letters.
    """

    predicates: frozenset[str]
    tests: tuple[tuple[int, str, Any], ...]
    places: dict[str, int]


@dataclass(frozen=True, eq=False)
class Equation:
    """A row of a table of rules.

    Attributes:
        name: of the rule.
        text: the equation.
        given: the condition; only a text where `by` tests it.
        reason: why it is there, or why not for more ops.
        by: the function that does what the equation says, where that is no pattern.
        ops: those that `by` takes.
    """

    name: str
    text: str
    given: Given | str = ""
    reason: str = ""
    by: Attempt | None = None
    ops: Iterable[str] = ()

    @property
    def condition(self) -> str:
        """The condition, in words."""
        if not callable(self.given):
            return self.given
        first = re.search(r"\b[a-z]\b", self.text)
        return f"{first and first[0]} {self.given.__doc__}"

    @classmethod
    def of(cls, by: Attempt, *ops: str, given: str = "", reason: str = "") -> Equation:
        """The row of a function, whose docstring begins with the equation."""
        return cls(by.__name__, (by.__doc__ or "").partition("\n")[0], given, reason, by, ops)

    def attempts(self) -> Iterator[tuple[str, Attempt]]:
        """For each op, what tries to fold or to rewrite it."""
        if self.by is not None:
            for name in self.ops:
                yield name, self.by
            return
        left = expression_tree(self.text.partition(" → ")[0])
        for form in left.elts if isinstance(left, ast.Tuple) else (left,):
            attempt = self._attempt(form)
            for name in self._parts(form)[0]:
                yield name, attempt

    @cached_property
    def right(self) -> ast.expr:
        """The right side, which all forms become."""
        return expression_tree(self.text.partition(" → ")[2])

    def _attempt(self, left: ast.expr) -> Attempt:
        form: _Form | None = None

        def attempt(op: Op, rewriter: Rewriter | None = None) -> Folded | bool:
            nonlocal form
            if form is None:  # most rows are not needed by most programs
                form = self._form(left)
            values = [*op.operands]
            for place, test, expected in form.tests:
                value = values[place]
                owner = value.owner
                if test == "op":
                    if owner.name not in expected or not isinstance(owner, Op):
                        break
                    values += owner.operands
                elif test == "same":
                    if value is not values[expected]:
                        break
                elif owner.name != "arith.constant" or not _is(number_of(value), expected):
                    break
            else:
                found = {letter: values[place] for letter, place in form.places.items()}
                if self._holds(form, op, found):
                    return self._made(op, found, rewriter)
            return None

        attempt.__qualname__, attempt.__doc__ = self.name, self.text
        return attempt

    def _holds(self, form: _Form, op: Op, found: Letters) -> bool:
        if form.predicates and (not isinstance(op, Compare) or op.predicate not in form.predicates):
            return False
        return not callable(self.given) or self.given(op, next(iter(found.values())))

    def _made(self, op: Op, found: Letters, rewriter: Rewriter | None) -> Folded | bool:
        """The values that `op` folds to; or put other ops in its place, and return true."""
        right = self.right
        number = _number(right, found)
        if number is not None:
            return Number(number, op.result.type)
        if isinstance(right, ast.Name):
            return found[right.id]
        assert rewriter is not None, f"{self.text}: a fold makes no ops"
        (name, *_), _, operands = self._parts(right)
        values = [self._built(node, op, found, rewriter) for node in operands]
        if name == op.name:
            rewriter.set_operands(op, values)
        else:
            rewriter.replace(op, rewriter.create(op, name, values, (op.result.type,)).results)
        return True

    def _built(self, node: ast.expr, op: Op, found: Letters, rewriter: Rewriter) -> Value:
        """The value of an expression: one that is there, a constant, or a new op before `op`."""
        number = _number(node, found)
        if number is not None:
            return rewriter.constant(number, op.result.type)
        if isinstance(node, ast.Name):
            return found[node.id]
        (name, *_), _, operands = self._parts(node)
        values = [self._built(operand, op, found, rewriter) for operand in operands]
        return rewriter.create(op, name, values, (op.result.type,)).result

    @cached_property
    def _is_of_floats(self) -> bool:
        """Whether the signs stand for ops on floats."""
        return re.search(r"\d\.\d|\binf\b", self.text) is not None

    def _parts(self, node: ast.expr) -> tuple[list[str], str, list[ast.expr]]:
        """The names of the ops that an expression stands for, the predicates if they are comparisons, the operands."""
        match node:
            case ast.BinOp(left, sign, right):
                integers, floats, _ = SIGNS[type(sign)]
                names = (floats if self._is_of_floats else integers).split()
                return [f"arith.{name}" for name in names], "", [left, right]
            case ast.Compare(left, [relation], [right]):
                return ["arith.cmpi"], RELATIONS[type(relation)], [left, right]
            case ast.Call(ast.Name(name), operands):
                return (["arith.cmpi"], name, operands) if name in CMPI else ([_full_name(name)], "", operands)
        raise ValueError(f"{self.text}: no op at {ast.unparse(node)}")

    def _form(self, side: ast.expr) -> _Form:
        _, predicates, operands = self._parts(side)
        tests: list[tuple[int, str, Any]] = []
        places: dict[str, int] = {}
        pending = [*operands]
        for place, node in enumerate(pending):  # the list grows: operands of operands follow
            literal = _number(node, {})
            if literal is not None:
                tests.append((place, "number", literal))
            elif not isinstance(node, ast.Name):
                names, _, inner = self._parts(node)
                tests.append((place, "op", names))
                pending += inner
            elif node.id in places:
                tests.append((place, "same", places[node.id]))
            elif node.id != "_":
                places[node.id] = place
                if node.id in KNOWN:
                    tests.append((place, "number", None))
        return _Form(frozenset(predicates.split()), tuple(tests), places)


def _full_name(name: str) -> str:
    return next(f"{dialect}.{name}" for dialect in ("arith", "math", "tt") if f"{dialect}.{name}" in OPS)


def _number(node: ast.expr, found: Letters) -> int | float | None:
    """The number that an expression is, if the letters in it are known numbers."""
    match node:
        case ast.Constant(int() | float() as value):
            return value
        case ast.Name(name) if name in KNOWN and name in found:
            number = number_of(found[name])
            return None if number is None else number.value
        case ast.Name(name):
            return LITERALS.get(name)
        case ast.UnaryOp(ast.USub(), operand):
            negated = _number(operand, found)
            return None if negated is None else -negated
        case ast.BinOp(left, sign, right):
            a, b = _number(left, found), _number(right, found)
            return None if a is None or b is None else SIGNS[type(sign)][2](a, b)
    return None


def _is(number: Number | None, literal: int | float | None) -> bool:
    """Whether a constant is uniform, and the number that an equation has, if it has one."""
    if number is None or literal is None:
        return number is not None
    if number.value != literal and literal != -1:
        return False
    if isinstance(literal, bool):
        return number.type.scalar is i1
    if isinstance(literal, int):
        return number.value == canonical(literal, number.type)
    return copysign(1, number.value) == copysign(1, literal)


def by_op(rows: Iterable[Equation]) -> dict[str, tuple[Attempt, ...]]:
    """The functions, folds or rules, that try the rows on each op in their order."""
    table: dict[str, tuple[Attempt, ...]] = {}
    for row in rows:
        for name, attempt in row.attempts():
            table[name] = (*table.get(name, ()), attempt)
    return table
