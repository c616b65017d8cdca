"""Critical pairs: the least programs on which two equations apply, and what each makes of them.

overlaps(x & 0 → 0, x & x → x)          the program 0 & 0, on which both give 0
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from itertools import islice

from equation_cases import Case, every, forms, is_known, literal_of
from rewriting_cases import nameless

from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.equations import Equation

Bindings = dict[str, ast.expr]
TYPES = 6
"""The number of types of a pair that are tried."""


def overlaps(row: Equation, other: Equation) -> Iterator[str]:
    """An op of which two rows make different things, and none is a special case that comes first."""
    for form in forms(row.text):
        for second in forms(other.text):
            second = renamed(second)
            for program in unified_ops(form, row, second, other):
                if not is_instance(form, row, second, other) or is_instance(second, other, form, row):
                    yield from disagreements(program, row, other)


def disagreements(program: ast.expr, row: Equation, other: Equation) -> Iterator[str]:
    for case in islice(every(lambda choices: Case(row, program, choices, 0)), TYPES):
        again = case.again()
        if case.apply(row) and again.apply(other):
            canonicalize(case.module)
            canonicalize(again.module)
            one, two = nameless(case.module), nameless(again.module)
            if one != two:
                yield f"{row.text} and {other.text} on {ast.unparse(program)} : {case.result.type}"


def renamed(node: ast.expr) -> ast.expr:
    """With letters that no other equation has."""
    node = copy.deepcopy(node)
    for count, inner in enumerate(ast.walk(node)):
        if isinstance(inner, ast.Name) and literal_of(inner) is None and is_letter(inner):
            inner.id = f"{inner.id}2" if inner.id != "_" else f"w{count}"
    return node


def is_letter(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and (len(node.id) == 1 or node.id[1:].isdigit())


def unified_ops(a: ast.expr, row: Equation, b: ast.expr, other: Equation) -> Iterator[ast.expr]:
    """The least expressions that are both."""
    names, predicates, operands = row._parts(a)
    other_names, other_predicates, other_operands = other._parts(b)
    if not set(names) & set(other_names) or len(operands) != len(other_operands):
        return
    bindings: Bindings | None = {}
    for left, right in zip(operands, other_operands, strict=True):
        bindings = None if bindings is None else unified(left, right, row, bindings)
    if bindings is None:
        return
    merged = [resolved(operand, bindings) for operand in operands]
    common = [each for each in predicates.split() if each in other_predicates.split()]
    choices = common if predicates else [name.partition(".")[2] for name in names if name in other_names]
    yield from (ast.Call(ast.Name(choice), merged, []) for choice in choices)


def unified(a: ast.expr, b: ast.expr, row: Equation, bindings: Bindings) -> Bindings | None:
    """Bindings of letters that make two expressions one; None if there are none."""
    a, b = resolved(a, bindings), resolved(b, bindings)
    if ast.dump(a) == ast.dump(b):
        return bindings
    for letter, node in ((a, b), (b, a)):
        if is_letter(letter):
            return bound(letter, node, bindings)
    if isinstance(a, ast.Name) or isinstance(b, ast.Name) or literal_of(a) is not None or literal_of(b) is not None:
        return None
    (names, predicates, operands), (other_names, other_predicates, others) = row._parts(a), row._parts(b)
    if (names, predicates, len(operands)) != (other_names, other_predicates, len(others)):
        return None
    result: Bindings | None = bindings
    for left, right in zip(operands, others, strict=True):
        result = None if result is None else unified(left, right, row, result)
    return result


def bound(letter: ast.Name, node: ast.expr, bindings: Bindings) -> Bindings | None:
    is_number = literal_of(node) is not None or (isinstance(node, ast.Name) and is_known(node.id))
    if is_known(letter.id) and not is_number:
        return {**bindings, node.id: letter} if is_letter(node) else None
    occurs = any(isinstance(inner, ast.Name) and inner.id == letter.id for inner in ast.walk(node))
    return None if occurs else {**bindings, letter.id: node}


def resolved(node: ast.expr, bindings: Bindings) -> ast.expr:
    class Resolve(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return self.visit(copy.deepcopy(bindings[name.id])) if name.id in bindings else name

    return Resolve().visit(copy.deepcopy(node))


def is_instance(a: ast.expr, row: Equation, b: ast.expr, other: Equation) -> bool:
    """Whether `a` is what `b` is for certain values of its letters."""
    frozen = copy.deepcopy(a)
    for inner in ast.walk(frozen):
        if is_letter(inner):
            inner.id = f"{inner.id}frozen"
    return any(True for _ in unified_ops(frozen, row, b, other))
