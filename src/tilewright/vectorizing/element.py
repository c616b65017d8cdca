"""One element of an array (or a Python number) during compilation: an SSA value with a kind.

    x = Element(block.args[0], Kind("float32"))
    y = x * 2 + 1                     # records arith.mulf, arith.addf; y.kind is float32
    np.exp(y), np.where(x > 0, x, y)  # NumPy dispatches to the element

Operators are those of `arithmetic.py`, which gets the class registered here; all front ends compute with elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tilewright.dialects  # noqa: F401 - declares the ops
from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Value
from tilewright.ir.types import Type, f16, f32, f64, i1, i8, i16, i32, i64
from tilewright.semantics.active import active, context
from tilewright.support.diagnostics import SemanticError
from tilewright.vectorizing.errors import NotANumber, NotVectorizable, ValueNeeded
from tilewright.vectorizing.kinds import Kind

IR_TYPES: Mapping[str, Type] = {
    "bool": i1,
    "float16": f16,
    "float32": f32,
    "float64": f64,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    "int8": i8,
    "uint16": i16,
    "uint32": i32,
    "uint64": i64,
    "uint8": i8,
}


class Element:
    """A number that is known when the function runs."""

    __slots__ = ("handle", "kind")
    __hash__ = None  # type: ignore[assignment]  # `==` gives an element
    operations: Mapping[str, Callable[..., Any]] = {}
    functions: Callable[[Any], Callable[..., Any] | None]

    def __init__(self, handle: Value, kind: Kind) -> None:
        self.handle = handle
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind}, known at run time>"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an array of such elements."""
        return np.dtype(self.kind.name)

    def astype(self, dtype: Any) -> Any:
        """The number as another dtype."""
        return self.operations["astype"](self, dtype)

    def __not__(self) -> Any:
        return self.operations["logical_not"](self)

    def __bool__(self) -> bool:
        raise SemanticError(ValueNeeded("traced", str(self.kind)))

    def _unknown(self) -> Any:
        raise SemanticError(ValueNeeded("compiled", str(self.kind), "", "compute with it by operators and functions"))

    __int__ = __float__ = __index__ = __complex__ = __iter__ = __len__ = _unknown

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        function = self.functions(ufunc)
        if method != "__call__" or options or function is None:
            raise SemanticError(NotVectorizable(f"np.{ufunc.__name__}{'' if method == '__call__' else '.' + method}"))
        return function(*inputs)

    def __array_function__(self, function: Any, _types: Any, arguments: Any, options: Any) -> Any:
        known = self.functions(function)
        if known is None:
            raise SemanticError(NotVectorizable(f"np.{function.__name__}"))
        return known(*arguments, **options)


def _operator(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    def apply(self: Element, other: Any) -> Any:
        operation = Element.operations[name]
        if not is_number(other):
            if name in _EQUALITIES:
                return NotImplemented
            what = f"a {type(other).__name__}" if other is not None else "None"
            raise SemanticError(NotANumber(what))
        return operation(other, self) if reflected else operation(self, other)

    return apply


def _unary(name: str) -> Callable[..., Any]:
    return lambda self: Element.operations[name](self)


def is_number(value: Any) -> bool:
    """An element, a Python number, or NumPy's scalar."""
    return isinstance(value, (Element, bool, int, float)) or hasattr(value, "__array_interface__")


_EQUALITIES = ("eq", "ne")
"""Comparisons that Python answers between a number and something else."""

for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"):
    _plain = _name.removesuffix("_")
    setattr(Element, f"__{_plain}__", _operator(_name))
    setattr(Element, f"__r{_plain}__", _operator(_name, reflected=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Element, f"__{_name}__", _operator(_name))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Element, f"__{_name}__", _unary(_name))


def emit(name: str, operands: Sequence[Element], kind: Kind, attributes: dict[str, Attribute] | None = None) -> Element:
    """Record an op whose result has this kind."""
    (handle,) = active().emit(name, [operand.handle for operand in operands], [IR_TYPES[kind.name]], attributes)
    return Element(handle, kind)


def constant(number: float | int | bool, kind: Kind) -> Element:
    """A number of that kind."""
    return Element(active().constant(number, IR_TYPES[kind.name]), kind)


def check(condition: Element, message: str) -> None:
    """Have the function report `message` to its caller if the condition does not hold."""
    active().emit("tt.assert", [condition.handle], (), {"message": message})


def is_exact() -> bool:
    """Whether this is a call with Python numbers only, which must give what Python gives."""
    return context().checks_overflow
