"""The forms of the integers and pointers of a function: one rule per op.

    %o = arith.muli %pid, 64 ; %i = %o + range ; %p = tt.addptr %x, %i      x + 256·pid + 4·i0

A value without a rule is a symbol. Tiles that depend on no run-time value are evaluated by the reference semantics of
their ops: `//`, `%`, `^`, `tl.where`, `tl.minimum` of ranges and constants, and truth values among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np

from tilewright.analysis.index_tables import (
    ENUMERATED,
    Interval,
    Table,
    broadcast,
    expand_dims,
    from_array,
    reshape,
    transpose,
)
from tilewright.analysis.integer_forms import (
    FARTHEST,
    Form,
    Monomial,
    Symbol,
    added,
    fits,
    interval_of,
    is_small,
    multiplied,
    number_form,
    scaled,
    subtracted,
    symbol_form,
    table_form,
)
from tilewright.dialects.arith import Binary, Constant, IntegerCast, Select
from tilewright.dialects.cpu import Within
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr, PointerCast, pointee_type
from tilewright.dialects.tt_program import MakeRange, ProgramId
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Reshape, ShapeOp, Splat, Trans
from tilewright.ir.attributes import Dense, Number
from tilewright.ir.core import Value
from tilewright.ir.types import IndexType, IntType, PointerType, TensorType
from tilewright.support.exact_rounding import Array

COUNTS: Interval = (0, (1 << 31) - 1)
NARROW = 32
"""Sums of fewer bits may wrap."""


class ValueForms:
    """The forms of values, each computed when it is first asked for.

    Args:
        symbols: those of values that have some already.
        sees_scalars: scalars are sums, too. Otherwise each is a symbol: that is quick, and good to compute with.
        goes_on: what the forms say holds for lanes behind those of the tiles, too: range(16) goes on, and
            range(16) % 16 does not, though it is the same in these lanes.
    """

    def __init__(
        self, symbols: dict[Value, Symbol] | None = None, *, sees_scalars: bool = False, goes_on: bool = False
    ) -> None:
        self.symbols = {} if symbols is None else symbols
        self.sees_scalars = sees_scalars
        self.goes_on = goes_on
        self._forms: dict[Value, Form] = {}
        self._arrays: dict[Value, Array | None] = {}

    def of(self, value: Value) -> Form:
        """The form of an integer, of a pointer, or of a tile of them."""
        if value not in self._forms:
            for operand in _operands_first(value, self._forms, self._is_sum):
                self._forms[operand] = self._new_form(operand)
        return self._forms[value]

    def _is_sum(self, value: Value) -> bool:
        return (self.sees_scalars or isinstance(value.type, TensorType)) and is_integral(value)

    def array(self, value: Value) -> Array | None:
        """The elements of an integer or truth value, or of a tile of them, if nothing at run time affects them."""
        if value not in self._arrays:
            for operand in _operands_first(value, self._arrays, lambda _: True):
                self._arrays[operand] = self._new_array(operand)
        return self._arrays[value]

    def symbol(self, value: Value, interval: Interval | None = None) -> Form:
        """The form of a value that is a symbol."""
        if value not in self.symbols:
            scalar, whole = value.type.scalar, _interval_of_type(value)
            is_bounded = interval is not None and isinstance(scalar, IntType) and fits(interval, scalar.bits)
            known = interval if is_bounded and interval is not None else whole
            self.symbols[value] = made = Symbol(len(self.symbols), value, known, is_bounded=known != whole)
            made.between = self._bounds(value)
        return symbol_form(self.symbols[value], value.type.shape or ())

    def _bounds(self, tile: Value) -> tuple[Symbol, Symbol] | None:
        """The two numbers that a cpu.within puts around the elements of `tile`, if it repeats those of one."""
        op = tile.op
        while isinstance(op, (Broadcast, ExpandDims)):
            op = op.source.op
        if not isinstance(op, Within):
            return None
        numbers = [bound.op.source for bound in (op.low, op.high) if isinstance(bound.op, Splat)]
        low, high = (next(iter(self.symbol(number).terms))[0] for number in numbers)
        return low, high

    def _new_form(self, value: Value) -> Form:
        op = value.op
        if op is None or not (self._is_sum(value) or isinstance(op, Constant)):
            return self.symbol(value)
        rule = RULES.get(op.name)
        form = rule(self, op) if rule is not None else None
        if form is not None and is_small(form) and not _may_wrap(value, form) and not self._ends(value, form):
            return form
        array = None if self.goes_on else self.array(value)
        if array is not None and array.dtype != np.bool_:
            found = table_form(from_array(array))
            if is_small(found):
                return found
        interval = INTERVALS.get(op.name)
        return self.symbol(value, interval(self, op) if interval is not None else None)

    def _ends(self, value: Value, form: Form) -> bool:
        """Whether `form` may be another one behind the lanes of the tile."""
        if not self.goes_on or all(table.is_uniform for table in form.terms.values()):
            return False
        scalar, factors = value.type.scalar, value.op.operands if isinstance(value.op, Binary) else ()
        is_narrow = isinstance(scalar, IntType) and scalar.bits < NARROW
        varying = [v for v in factors if not all(table.is_uniform for table in self.of(v).terms.values())]
        is_square = value.op is not None and value.op.name == "arith.muli" and len(varying) > 1
        return is_narrow or is_square or isinstance(value.op, Reshape)

    def _new_array(self, value: Value) -> Array | None:
        op = value.op
        semantics = None if op is None else op.definition.semantics
        if op is None or (value.type.shape is not None and prod(value.type.shape) > ENUMERATED):
            return None
        if isinstance(op, Constant):
            return _constant_array(value, op)
        if semantics is None or op.regions or len(op.results) > 1 or isinstance(value.type.scalar, PointerType):
            return None
        operands = [self._arrays.get(operand) for operand in op.operands]
        if any(operand is None for operand in operands):
            return None
        return np.asarray(semantics(op, *operands))


def _may_wrap(value: Value, form: Form) -> bool:
    """Whether the value may differ from the form: it is narrow, or it is known now and can be evaluated instead."""
    scalar = value.type.scalar
    if not isinstance(scalar, IntType) or not (scalar.bits < NARROW or form.is_constant):
        return False
    return not fits(interval_of(form.terms), scalar.bits)


def is_integral(value: Value) -> bool:
    """Whether `value` is an integer of more than one bit, a pointer to a scalar, or a tile of them."""
    scalar = value.type.scalar
    if isinstance(scalar, PointerType):
        return not isinstance(scalar.pointee, TensorType)
    return isinstance(scalar, IndexType) or (isinstance(scalar, IntType) and scalar.bits > 1)


def size_of(pointers: Value) -> int:
    """Bytes from one element to the next of what `pointers` point at."""
    return max(1, pointee_type(pointers.type.scalar).bits // 8)


def _operands_first(value: Value, known: dict[Value, Any], wanted: Callable[[Value], bool]) -> Iterable[Value]:
    """`value` and what it is computed from, as far as that is not known, operands before users."""
    stack = [value]
    while stack:
        value = stack[-1]
        if value in known:
            stack.pop()
            continue
        op = value.op
        waiting = [v for v in op.operands if v not in known and wanted(v)] if op is not None else []
        if waiting and op is not None and not op.regions:
            stack += waiting
        else:
            stack.pop()
            yield value


def _constant_array(value: Value, op: Constant) -> Array | None:
    if not isinstance(value.type.scalar, IntType):
        return None
    dtype, numbers = numpy_dtype(value.type.scalar), op.value
    values = [numbers.value] if isinstance(numbers, Number) else numbers.values
    whole = np.array([int(number) for number in values], object)
    bits = value.type.scalar.bits
    if bits > 1:
        half = 1 << (bits - 1)
        whole = (whole + half) % (2 * half) - half
    shape = value.type.shape or ()
    return np.broadcast_to(whole.astype(dtype).reshape(shape if isinstance(numbers, Dense) else ()), shape)


def _interval_of_type(value: Value) -> Interval:
    scalar = value.type.scalar
    if isinstance(scalar, IntType):
        half = 1 << (scalar.bits - 1)
        return -half, half - 1
    return (0 if isinstance(scalar, PointerType) else ~FARTHEST), FARTHEST


# --- rules ------------------------------------------------------------------------------------------------------


def _constant(forms: ValueForms, op: Constant) -> Form | None:
    if isinstance(op.value, Number) and isinstance(op.value.value, int):
        return number_form(int(op.value.value), op.result.type.shape or ())
    return None


def _range(forms: ValueForms, op: MakeRange) -> Form:
    extent = op.end - op.start
    return table_form(Table((extent,), op.start, (1 if extent > 1 else 0,)))


def _sum(forms: ValueForms, op: Binary) -> Form:
    return added(forms.of(op.lhs), forms.of(op.rhs))


def _difference(forms: ValueForms, op: Binary) -> Form:
    return subtracted(forms.of(op.lhs), forms.of(op.rhs))


def _product(forms: ValueForms, op: Binary) -> Form | None:
    """A product of tiles, or by a number; other products of scalars are symbols, so that addresses share one."""
    lhs, rhs = forms.of(op.lhs), forms.of(op.rhs)
    return multiplied(lhs, rhs) if lhs.shape or lhs.is_constant or rhs.is_constant else None


def _shifted(forms: ValueForms, op: Binary) -> Form | None:
    by = forms.of(op.rhs)
    first = by.terms[()].interval if by.is_constant and by.terms else (0, 0)
    bits = op.lhs.type.scalar.bits
    if not by.is_constant or first[0] != first[1] or not 0 <= first[0] < min(bits, 40):
        return None
    return scaled(forms.of(op.lhs), 1 << first[0])


def _resized(forms: ValueForms, op: IntegerCast) -> Form | None:
    return forms.of(op.operand) if is_integral(op.operand) and is_integral(op.result) else None


def _zero_extended(forms: ValueForms, op: IntegerCast) -> Form | None:
    if not is_integral(op.operand):
        return None
    form = forms.of(op.operand)
    return form if interval_of(form.terms)[0] >= 0 else None


def _moved(forms: ValueForms, op: ShapeOp) -> Form | None:
    return moved(forms.of(op.source), op) if is_integral(op.source) else None


def moved(form: Form, op: ShapeOp) -> Form | None:
    """The form after `op` has moved the elements. Symbols that each element has for itself do not move."""
    move, found = MOVES[op.name], dict[Monomial, Table]()
    for monomial, table in form.terms.items():
        to = None if any(symbol.is_lane for symbol in monomial) else move(op, table)
        if to is None:
            return None
        found[monomial] = to
    return Form(op.result.type.shape or (), found)


def _repeated(op: ShapeOp, table: Table) -> Table:
    return broadcast(table, op.result.type.shape or ())


def _with_axis(op: ExpandDims, table: Table) -> Table:
    return expand_dims(table, op.axis % len(op.result.type.shape or ()))


def _transposed(op: Trans, table: Table) -> Table:
    return transpose(table, tuple(op.order))


def _reshaped(op: Reshape, table: Table) -> Table | None:
    return None if op.allow_reorder else reshape(table, op.result.type.shape or ())


MOVES: dict[str, Callable[[Any, Table], Table | None]] = {
    "tt.broadcast": _repeated,
    "tt.expand_dims": _with_axis,
    "tt.reshape": _reshaped,
    "tt.splat": _repeated,
    "tt.trans": _transposed,
}


def _add_pointer(forms: ValueForms, op: AddPtr) -> Form:
    return added(forms.of(op.pointer), scaled(forms.of(op.offset), size_of(op.pointer)))


def _recast(forms: ValueForms, op: Bitcast | PointerCast) -> Form | None:
    """Bits that stay: of pointers, and of integers."""
    known, made = op.operand.type.scalar, op.result.type.scalar
    if not (is_integral(op.operand) and is_integral(op.result)):
        return None
    bits = [64 if isinstance(scalar, PointerType) else scalar.bits for scalar in (known, made)]
    return forms.of(op.operand) if bits[0] == bits[1] else None


def _program_id(forms: ValueForms, op: ProgramId) -> Form:
    return forms.symbol(op.result, COUNTS)


RULES: dict[str, Callable[[ValueForms, Any], Form | None]] = {
    "arith.addi": _sum,
    "arith.constant": _constant,
    "arith.extsi": _resized,
    "arith.extui": _zero_extended,
    "arith.index_cast": _resized,
    "arith.muli": _product,
    "arith.shli": _shifted,
    "arith.subi": _difference,
    "arith.trunci": _resized,
    "tt.addptr": _add_pointer,
    "tt.bitcast": _recast,
    "tt.get_num_programs": _program_id,
    "tt.get_program_id": _program_id,
    "tt.int_to_ptr": _recast,
    "tt.make_range": _range,
    "tt.ptr_to_int": _recast,
    **dict.fromkeys(MOVES, _moved),
}


# --- ranges of symbols ------------------------------------------------------------------------------------------


def _known(forms: ValueForms, value: Value) -> Interval:
    """The range of `value` as its type has it, or less."""
    scalar = value.type.scalar
    if not isinstance(scalar, IntType) or not is_integral(value):
        return _interval_of_type(value) if isinstance(scalar, IntType) and scalar.bits > 1 else (-1, 1)
    found = interval_of(forms.of(value).terms)
    return found if fits(found, scalar.bits) else _interval_of_type(value)


def _least(forms: ValueForms, op: Binary) -> Interval:
    a, b = _known(forms, op.lhs), _known(forms, op.rhs)
    return min(a[0], b[0]), min(a[1], b[1])


def _greatest(forms: ValueForms, op: Binary) -> Interval:
    a, b = _known(forms, op.lhs), _known(forms, op.rhs)
    return max(a[0], b[0]), max(a[1], b[1])


def _remainder(forms: ValueForms, op: Binary) -> Interval:
    """The remainder of a division that rounds towards zero; the remainder by zero is zero."""
    a, b = _known(forms, op.lhs), _known(forms, op.rhs)
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(-most, min(a[0], 0)), min(most, max(a[1], 0))


def _quotient(forms: ValueForms, op: Binary) -> Interval | None:
    a, b = _known(forms, op.lhs), _known(forms, op.rhs)
    if b[0] < 1:
        return None
    corners = [_towards_zero(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _towards_zero(x: int, y: int) -> int:
    return -(-x // y) if x < 0 else x // y


def _conjunction(forms: ValueForms, op: Binary) -> Interval | None:
    a, b = _known(forms, op.lhs), _known(forms, op.rhs)
    tops = [high for low, high in (a, b) if low >= 0]
    return (0, min(tops)) if tops else None


def _joined(forms: ValueForms, op: Select) -> Interval:
    a, b = _known(forms, op.chosen), _known(forms, op.other)
    return min(a[0], b[0]), max(a[1], b[1])


def _truth(forms: ValueForms, op: IntegerCast) -> Interval | None:
    return None if is_integral(op.operand) else (0, 1) if op.name == "arith.extui" else (-1, 0)


def _unsigned(forms: ValueForms, op: IntegerCast) -> Interval | None:
    return _truth(forms, op) or (0, (1 << op.operand.type.scalar.bits) - 1)


INTERVALS: dict[str, Callable[[ValueForms, Any], Interval | None]] = {
    "arith.andi": _conjunction,
    "arith.divsi": _quotient,
    "arith.extsi": _truth,
    "arith.extui": _unsigned,
    "arith.maxsi": _greatest,
    "arith.minsi": _least,
    "arith.remsi": _remainder,
    "arith.select": _joined,
}
