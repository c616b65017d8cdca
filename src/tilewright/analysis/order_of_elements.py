"""The results of a reduction's function that depend on the order of its two elements.

    a0 + b0                                             no: additions are commutative
    a0 + (b0 - a0) * share                              yes: the roundings differ
    where(a0 > b0, a0, b0)                              yes: a NaN is not above anything
    where((a0 > b0) | (a0 == b0) & (a1 < b1), a1, b1)   no, for integers: both orders choose the same element

Lanes that exchange their elements have them in both orders, so results that depend on the order differ among lanes.

The function is evaluated symbolically twice, once with the two elements swapped, and both texts are compared; operands
of commutative ops have no order. A function that only compares elements and selects one is executed in both orders, for
all possible outcomes of comparisons. Zeros of either sign count as equal there, and so do NaNs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from tilewright.dialects.arith import CompareFloats, CompareIntegers, Constant, Select
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_reduce import Fold
from tilewright.ir.attributes import Number
from tilewright.ir.builder import constant_key
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.types import FloatType, i1

MAX_OPERANDS = 4
"""The number of operands up to which a function is executed for all ways in which they may compare."""
INTEGERS = (-1, 0, 1)
"""Integers whose pairs compare in all ways, with signs and without."""
FLOATS = (0.0, 1.0, float("nan"))
"""The same of floats."""


def ordered_results(op: Fold) -> frozenset[int]:
    """The numbers of the results that may differ if the two elements are swapped, now or in an earlier fold."""
    body, size = op.regions[0].block, len(op.operands)
    differing = _chosen_differently(body, size) if _only_chooses(body, size) else _written_differently(body, size)
    reads = [_columns(value, body, size) for value in body.terminator.operands]
    found, before = differing, frozenset[int]()
    while found != before:
        found, before = found | {number for number, columns in enumerate(reads) if columns & found}, found
    return found


def _columns(value: Value, body: Block, size: int) -> frozenset[int]:
    """The numbers of the operands whose elements `value` is computed from."""
    waiting, seen, found = [value], {value}, set[int]()
    while waiting:
        value = waiting.pop()
        if value.owner is body:
            found.add(value.index % size)
        elif value.op is not None:
            new = [operand for inner in value.op.walk() for operand in inner.operands if operand not in seen]
            waiting += new
            seen.update(new)
    return frozenset(found)


# --- functions as texts -------------------------------------------------------------------------------------------


def _written_differently(body: Block, size: int) -> frozenset[int]:
    """The numbers of the results that are not computed by the same ops when the elements are swapped."""
    numbers: dict[Hashable, int] = {}
    fresh = count()
    own = _numbered(body, [*range(2 * size)], numbers, fresh)
    swapped = _numbered(body, [*range(size, 2 * size), *range(size)], numbers, fresh)
    return frozenset(index for index, (a, b) in enumerate(zip(own, swapped, strict=True)) if a != b)


def _numbered(
    body: Block, order: Sequence[int], numbers: dict[Hashable, int], fresh: Iterator[int]
) -> list[int]:
    """Numbers of the results: equal for equal ones; the arguments of `body` have the places `order`."""
    arguments = zip(body.args, order, strict=True)
    found = {argument: numbers.setdefault(("argument", place), next(fresh)) for argument, place in arguments}

    def number(value: Value) -> int:
        if value not in found:
            found[value] = numbers.setdefault(value, next(fresh))
        return found[value]

    for op in body:
        if op.definition.terminator:
            break
        operands = [number(value) for value in op.operands]
        key = _key(op, sorted(operands) if op.definition.commutative else operands)
        for result in op.results:
            found[result] = numbers.setdefault((key, result.index, result.type), next(fresh))
    return [number(value) for value in body.terminator.operands]


def _key(op: Op, operands: Sequence[int]) -> Hashable:
    """A key that ops have in common if they compute the same."""
    if op.regions or not is_pure(op):
        return object()
    facts = constant_key(op.value) if isinstance(op, Constant) else tuple(sorted(op.attributes.items()))
    return op.name, tuple(operands), facts


# --- functions that choose ----------------------------------------------------------------------------------------


def _only_chooses(body: Block, size: int) -> bool:
    """Whether the function compares elements of the same operand, and gives one of them for each."""
    if size > MAX_OPERANDS:
        return False
    operands = {argument: number % size for number, argument in enumerate(body.args)}
    for op in body:
        if op.definition.terminator:
            return all(operands.get(value) == number for number, value in enumerate(op.operands))
        if isinstance(op, Select) and op.chosen in operands:
            number = operands[op.chosen]
            if operands.get(op.other) != number or op.condition in operands:
                return False
            operands[op.result] = number
        elif not _is_known(op, operands):
            return False
    return False


def _is_known(op: Op, operands: Mapping[Value, int]) -> bool:
    """Whether what `op` gives follows from constants and from how elements compare."""
    if isinstance(op, Constant):
        return isinstance(op.value, Number)
    if op.definition.semantics is None or op.regions or not is_pure(op):
        return False
    outside = (value.op for value in op.operands if value.op is not None and value.op.block is not op.block)
    if not all(isinstance(source, Constant) and isinstance(source.value, Number) for source in outside):
        return False
    compared = {operands.get(value) for value in op.operands}
    return compared == {None} or (isinstance(op, (CompareIntegers, CompareFloats)) and len(compared) == 1)


def _chosen_differently(body: Block, size: int) -> frozenset[int]:
    """The numbers of the results that are not equal in both orders."""
    samples = [np.array(_samples(argument), numpy_dtype(argument.type)) for argument in body.args]
    grid = [part.ravel() for part in np.meshgrid(*samples, indexing="ij")]
    own, swapped = _executed(body, grid), _executed(body, [*grid[size:], *grid[:size]])
    pairs = zip(own, swapped, strict=True)
    return frozenset(index for index, (a, b) in enumerate(pairs) if ((a != b) & ~((a != a) & (b != b))).any())


def _samples(argument: Value) -> Sequence[float]:
    if isinstance(argument.type, FloatType):
        return FLOATS
    return (False, True) if argument.type is i1 else INTEGERS


def _executed(body: Block, arguments: Sequence[Any]) -> list[Any]:
    """The results of the function for arrays of elements."""
    values = dict(zip(body.args, arguments, strict=True))

    def array(value: Value) -> Any:
        if value not in values:
            assert isinstance(value.op, Constant), "all else is computed in the function"
            values[value] = np.array(value.op.number.value, numpy_dtype(value.type))
        return values[value]

    for op in body:
        if op.definition.semantics is not None and not isinstance(op, Constant):
            values[op.result] = op.definition.semantics(op, *map(array, op.operands))
    return [array(value) for value in body.terminator.operands]
