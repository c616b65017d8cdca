"""Conversions of numbers: constants from Python's numbers, elements from elements.

    cast(2, Kind("float32"))                    a constant
    cast(x_int8, Kind("float64"))               arith.sitofp
    cast(n, Kind("uint8")), n a Python int      arith.trunci, and a check that it fits

Floats become integers towards zero; out of range they saturate, and NaN gives 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.attributes import Keyword
from tilewright.semantics.active import active
from tilewright.support.diagnostics import SemanticError
from tilewright.vectorizing.element import IR_TYPES, Element, check, constant, emit
from tilewright.vectorizing.errors import OUT_OF_BOUNDS, NotANumber, OutOfBounds
from tilewright.vectorizing.kinds import BITS, BOOL, WEAK_KINDS, Kind

Number = Any
"""An Element, a Python number, or a NumPy scalar."""


def kind_of(value: Number) -> Kind:
    """The kind of a number.

    Raises:
        SemanticError: it is none, or a complex one.
    """
    if isinstance(value, Element):
        return value.kind
    found = WEAK_KINDS.get(value.__class__)
    if found is not None:
        return found
    if isinstance(value, (np.generic, np.ndarray)) and not value.shape and value.dtype.name in BITS:
        return Kind(value.dtype.name)
    raise SemanticError(NotANumber(describe(value)))


def describe(value: Any) -> str:
    """The description of a value, for messages."""
    if isinstance(value, Element):
        return f"a {value.kind}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return f"a {type(value).__name__}"


def to_element(value: Number) -> Element:
    """The number as an element of its own kind."""
    return value if isinstance(value, Element) else cast(value, kind_of(value))


def cast(value: Number, kind: Kind) -> Element:
    """The number as one of another kind.

    Raises:
        SemanticError: a Python integer that the kind cannot hold.
    """
    if not isinstance(value, Element):
        return _literal(value, kind)
    source = value.kind
    if source.name == kind.name:
        return Element(value.handle, kind)
    if kind.is_bool:
        return truth(value, kind)
    if source.is_float:
        return _from_float(value, kind)
    if kind.is_float:
        return emit("arith.sitofp" if source.signed else "arith.uitofp", [value], kind)
    resized = _resized(value, kind)
    if source.weak and source.is_integer and not kind.weak and kind.name != "int64":
        check(_is_same_number(value, resized), OUT_OF_BOUNDS)
    return resized


def truth(value: Number, kind: Kind = BOOL) -> Element:
    """Whether the number is other than zero, as NaN is."""
    element = to_element(value)
    if element.kind.is_bool:
        return Element(element.handle, kind)
    name, predicate = ("arith.cmpf", "une") if element.kind.is_float else ("arith.cmpi", "ne")
    return emit(name, [element, constant(0, element.kind)], kind, {"predicate": Keyword(predicate)})


def _literal(value: Number, kind: Kind) -> Element:
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item()
    if kind.is_bool:
        return constant(bool(value), kind)
    if kind.is_float:
        return constant(float(value), kind)
    number = int(value)
    if not kind.holds(number):
        raise SemanticError(OutOfBounds(number, str(kind)))
    return constant(number, kind)


def _from_float(value: Element, kind: Kind) -> Element:
    if kind.is_float:
        return emit("arith.extf" if value.kind.bits < kind.bits else "arith.truncf", [value], kind)
    return emit("arith.fptosi" if kind.signed else "arith.fptoui", [value], kind)


def _resized(value: Element, kind: Kind) -> Element:
    source = value.kind
    if source.bits == kind.bits:
        return Element(value.handle, kind)
    if source.bits > kind.bits:
        return emit("arith.trunci", [value], kind)
    return emit("arith.extsi" if source.signed else "arith.extui", [value], kind)


def _is_same_number(value: Element, resized: Element) -> Element:
    """Whether nothing got lost."""
    type = IR_TYPES[value.kind.name]
    if resized.kind.bits == value.kind.bits:  # uint64: not negative
        predicate, back = "sge", constant(0, value.kind)
    else:
        predicate, back = "eq", Element(_widened(resized, type), value.kind)
    return emit("arith.cmpi", [value, back], BOOL, {"predicate": Keyword(predicate)})


def _widened(value: Element, type: Any) -> Any:
    name = "arith.extsi" if value.kind.signed else "arith.extui"
    return active().emit(name, [value.handle], [type])[0]
