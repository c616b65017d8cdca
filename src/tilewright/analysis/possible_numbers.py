"""The few values that an op can give, where they are known: results of arithmetic on infinities and zeros.

    -inf - x            is -inf or NaN, whatever x is
    exp(-inf or NaN)    is 0 or NaN
    0 * x               is 0, -0 or NaN
    select(x, 0, 1)     is 0 or 1

Only exact computations are considered: 0.1 * 0.1 - 0.01 depends on whether product and sum are fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeAlias

from tilewright.dialects.arith import SAME_EVERYWHERE, Constant, FloatExtreme, Select
from tilewright.dialects.arithmetic_semantics import is_defined
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import FloatType, IntType, Type, i1

Numbers: TypeAlias = frozenset[str] | None
"""Numbers as text, by which 0 and -0 differ and NaN is NaN; None: any number."""

ZERO: Numbers = frozenset(("0",))
_NAN = frozenset(("nan",))
_INFINITIES = frozenset(("inf", "-inf"))
_ZEROS = frozenset(("0.0", "-0.0"))
_EXACT = _NAN | _INFINITIES | _ZEROS | {"1.0", "-1.0"}
"""Floats whose sums, products and quotients need no rounding."""

_BELIEVED: dict[str, frozenset[str]] = {
    **dict.fromkeys(("arith.addf", "arith.divf", "arith.mulf", "arith.subf", "math.fma"), _EXACT),
    **dict.fromkeys(("math.exp", "math.exp2"), _NAN | _INFINITIES),
}
"""For ops that round: the operands of which every machine makes the same."""

_TIMES_ANY: dict[str, frozenset[str]] = {
    **dict.fromkeys(_INFINITIES, _INFINITIES | _NAN),
    **dict.fromkeys(_ZEROS, _ZEROS | _NAN),
    "nan": _NAN,
}
"""The kinds of a number times any number, and of a number divided by any number."""

_MOST = 16
"""The number of combinations of operands beyond which nothing is claimed of a result."""


def numbers_of_constant(number: Number) -> Numbers:
    """The one number that a literal is."""
    return frozenset((_text(number.value, number.type.scalar),))


def numbers_of_zero(element: Type) -> Numbers:
    """Zero in a type; any number for pointers."""
    return numbers_of_constant(Number(0, element)) if isinstance(element, (FloatType, IntType)) else None


def numbers_of_result(op: Op, operands: Sequence[Numbers]) -> Numbers:
    """The numbers that the elementwise `op` can make of those that its operands can be."""
    if isinstance(op, Select):
        return _selected(*operands)
    believed = _BELIEVED.get(op.name)
    if believed is not None:
        operands = [numbers if numbers is not None and numbers <= believed else None for numbers in operands]
    known = [numbers for numbers in operands if numbers is not None]
    if len(known) < len(operands):
        return _with_any(op, operands)
    if not _is_believed(op, frozenset().union(*known)):
        return None
    choices = list(product(*map(sorted, known)))
    results = [_computed(op, choice) for choice in choices] if len(choices) <= _MOST else [None]
    return _joined(results)


def combines_to_itself(block: Block, tails: Sequence[Numbers]) -> bool:
    """Whether the function in `block` gives u for (u, u), bit by bit, whatever `tails` say that u is."""
    first = block.first
    single = first is not None and first.next is block.last and block.terminator.operands == first.results
    if single and first is not None and first.definition.idempotent and set(first.operands) == set(block.args):
        return True
    known = [numbers for numbers in tails if numbers is not None]
    if len(known) < len(tails):
        return False
    choices = list(product(*map(sorted, known)))
    return len(choices) <= _MOST and all(_combined(block, u) == [frozenset((x,)) for x in u] for u in choices)


def _combined(block: Block, numbers: Sequence[str]) -> list[Numbers]:
    """The numbers that the function in `block` makes of these on both sides."""
    single = [frozenset((number,)) for number in numbers]
    found: dict[Value, Numbers] = dict(zip(block.args, [*single, *single], strict=True))
    for op in block:
        if isinstance(op, Constant) and isinstance(op.value, Number):
            found[op.result] = numbers_of_constant(op.value)
        elif not op.definition.terminator:
            operands = [found.get(value) for value in op.operands]
            found.update(dict.fromkeys(op.results, numbers_of_result(op, operands)))
    return [found.get(value) for value in block.terminator.operands]


def _text(number: float, element: Type) -> str:
    if isinstance(element, FloatType):
        return repr(float(number))
    return str(int(number) & 1 if element is i1 else int(number))


def _joined(parts: Sequence[Numbers]) -> Numbers:
    known = [numbers for numbers in parts if numbers is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _selected(condition: Numbers, chosen: Numbers, other: Numbers) -> Numbers:
    if condition is not None and len(condition) == 1:
        return other if condition == ZERO else chosen
    return _joined((chosen, other))


def _with_any(op: Op, operands: Sequence[Numbers]) -> Numbers:
    """The numbers that `op` can give where some operand can be any number."""
    name, known = op.name, frozenset[str]().union(*(numbers for numbers in operands if numbers is not None))
    if not known or _has_narrow_float(op):
        return None
    if name in ("arith.andi", "arith.muli"):
        return ZERO if ZERO in operands else None
    *_, last = operands
    if name in ("arith.addf", "arith.subf") and known <= _INFINITIES | _NAN:
        negated = name == "arith.subf" and last is not None
        return (frozenset(repr(-float(x)) for x in known - _NAN) if negated else known) | _NAN
    if name == "arith.mulf" or (name == "arith.divf" and last is None):
        return frozenset[str]().union(*(_TIMES_ANY[x] for x in known)) if known <= _TIMES_ANY.keys() else None
    return None


def _is_believed(op: Op, operands: frozenset[str]) -> bool:
    """Whether every machine computes of these numbers what the semantics say; those of `_BELIEVED` are among its."""
    name = op.name
    if op.definition.semantics is None or _has_narrow_float(op):
        return False
    if name in _BELIEVED:
        return True
    if isinstance(op, FloatExtreme):  # it may give either zero where it is given both
        return not operands >= _ZEROS
    if name == "tt.bitcast" and operands >= _NAN:
        return False  # there are many NaNs, and inf - inf is another one than -NaN
    types = [value.type.scalar for value in (*op.operands, *op.results)]
    return name in SAME_EVERYWHERE or (name.startswith("arith.") and all(isinstance(type, IntType) for type in types))


def _has_narrow_float(op: Op) -> bool:
    """Whether numbers of 8 bits are among them, which saturate, or pointers."""
    types = [value.type.scalar for value in (*op.operands, *op.results)]
    return any(not isinstance(t, (FloatType, IntType)) or (isinstance(t, FloatType) and t.bits == 8) for t in types)


def _computed(op: Op, numbers: Sequence[str]) -> Numbers:
    """The result of `op` for these operands."""
    arrays = []
    for value, number in zip(op.operands, numbers, strict=True):
        element = value.type.scalar
        arrays.append(numpy_dtype(element).type(float(number) if isinstance(element, FloatType) else int(number)))
    if op.definition.semantics is None or not is_defined(op, *arrays):
        return None
    return frozenset((_text(op.definition.semantics(op, *arrays).item(), op.result.type.scalar),))
