"""Arguments → signature: the types, constants and hints that a kernel is compiled for.

    argument                    type             key
    None                        constexpr        None
    True                        u1
    1                           constexpr        1     (`i64` and 1 where an annotation says so)
    64                          i32              D     (divisible by 16)
    2**40 + 1                   i64
    0.5                         fp32
    float32 array, aligned      *fp32            D
    anything for a constexpr    constexpr        the value
    a tuple                     its parts
    a tensor descriptor         its parts: tensor, shape, strides; block shape and padding as constants

Two launches with equal keys share one compiled kernel.

Numbers must fit the type of an annotation:

check_fits(300, "i8")       ArgumentRangeError: 300 does not fit: the parameter is a tl.int8, …
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.compiler.signature import (
    CONSTEXPR,
    TUPLE,
    ArgumentSpec,
    GluonDescriptor,
    HostDescriptor,
    descriptor_text,
)
from tilewright.language.callable import KeyedCallable
from tilewright.language.tuples import tuple as language_tuple
from tilewright.runtime.arrays import ArrayView, view_of
from tilewright.runtime.constants import constant_key
from tilewright.runtime.dependencies import value_text
from tilewright.runtime.drivers.cpu.records import know_number
from tilewright.runtime.errors import ArgumentError, ArgumentRangeError
from tilewright.runtime.parameters import KernelParam
from tilewright.semantics.constexpr import constexpr
from tilewright.support.named_tuple import NamedTuple

ALIGNED = "D"
DIVISIBILITY = 16
_C_NUMBERS = (
    *(ctypes.c_bool, ctypes.c_float, ctypes.c_double),
    *(ctypes.c_byte, ctypes.c_short, ctypes.c_int, ctypes.c_long, ctypes.c_longlong),
    *(ctypes.c_ubyte, ctypes.c_ushort, ctypes.c_uint, ctypes.c_ulong, ctypes.c_ulonglong),
)
"""Classes of ctypes that count as the Python number which they hold."""


class Specialized(NamedTuple):
    """One argument, as a kernel is compiled for it.

    Attributes:
        type: the type string; `constexpr` and `tuple` are types too.
        key: what else the compiled code depends on: `D` for divisible by 16, a constant, the parts of a tuple.
        value: what the launch passes: a number, an `ArrayView`, a list of parts, or a constant.
    """

    type: str
    key: Hashable
    value: Any

    def as_triton(self) -> tuple[Any, Any]:
        """Type and key as Triton has them: those of a tuple are tuples of the same class."""
        if self.type == CONSTEXPR:
            return CONSTEXPR, self.value
        if self.type != TUPLE:
            return self.type, self.key
        if issubclass(self.value.sequence, HostDescriptor):
            base, shape, _, block_shape, *_ = self.value.parts
            return descriptor_text(base.type, len(shape.value.parts), block_shape.value), None
        parts = [part.as_triton() for part in self.value.parts]
        return self.value.of([kind for kind, _ in parts]), self.value.of([key for _, key in parts])


def specialize(value: Any, param: KernelParam) -> Specialized:
    """The specialisation of `param` when it gets `value`."""
    if param.is_constexpr:
        return _constant(value, param)
    try:
        found = _specialize(value, param)
        if param.annotation_type and found.type not in (CONSTEXPR, TUPLE):
            return _annotated(found, param.annotation_type)
    except ArgumentError as error:
        raise type(error)(f"argument {param.name!r}: {error}") from None
    return found


def argument_spec(name: str, argument: Specialized) -> ArgumentSpec:
    """The compiler's record of a specialised argument."""
    if argument.type == CONSTEXPR:
        return ArgumentSpec(name, CONSTEXPR, constant=argument.value)
    if argument.type == TUPLE:
        parts = tuple(argument_spec(f"{name}.{i}", part) for i, part in enumerate(argument.value.parts))
        return ArgumentSpec(name, TUPLE, elements=parts, sequence=argument.value.sequence)
    return ArgumentSpec(name, argument.type, divisibility=DIVISIBILITY if argument.key == ALIGNED else 1)


def named_arrays(names: Iterable[str], arguments: Iterable[Specialized]) -> Iterator[tuple[str, ArrayView]]:
    """The arrays among specialised arguments, also those in tuples, each with the name of its argument."""
    for name, argument in zip(names, arguments, strict=True):
        if argument.type == TUPLE:
            parts = argument.value.parts
            yield from named_arrays((f"{name}.{index}" for index in range(len(parts))), parts)
        elif isinstance(argument.value, ArrayView):
            yield name, argument.value


class TupleParts(NamedTuple):
    """The specialised parts of a tuple argument, and its class; or of a descriptor, which is `source`."""

    parts: tuple[Specialized, ...]
    sequence: Any
    source: Any = None

    def of(self, items: Sequence[Any], container: Any = None) -> Any:
        """A tuple of the argument's class, or of what stands for it."""
        made = container or self.sequence
        return made(*items) if hasattr(made, "_fields") else made(items)


def key_text(argument: Specialized) -> str:
    """The specialisation of an argument as a text that is the same in every process."""
    if argument.type == CONSTEXPR:
        return f"={value_text(argument.value)}"
    if argument.type == TUPLE:
        return f"({','.join(map(key_text, argument.value.parts))}){argument.value.sequence.__qualname__}"
    return f"{argument.type}/{argument.key}"


def _specialize(value: Any, param: KernelParam) -> Specialized:
    special = _BY_TYPE.get(type(value))
    if special is not None:
        return special(value, param)
    view = view_of(value)
    if view is not None:
        return _pointer(view, param)
    for kind, special in _BY_KIND:
        if isinstance(value, kind):
            return special(value, param)
    if hasattr(value, "block_shape") and hasattr(value, "strides"):
        return _descriptor(value, param)
    kind = type(value)
    hint = "; map_blocks launches kernels on its blocks" if kind.__module__.startswith("dask.") else ""
    raise ArgumentError(f"a {kind.__name__} cannot be passed to a kernel{hint}")


def _descriptor(value: Any, param: KernelParam) -> Specialized:
    """A tensor descriptor made on the host, of whatever class."""
    shape, strides = (tuple(map(operator.index, axes)) for axes in (value.shape, value.strides))
    constants = [tuple(map(operator.index, value.block_shape)), str(value.padding)]
    layout = getattr(value, "layout", None)
    axes = [_tuple(shape, param), _tuple(strides, param)]
    if layout is not None:
        constants.append(layout)
        axes = [_numbers("i32", shape), _numbers("i64", strides)]
    parts = [_specialize(value.base, param), *axes]
    parts += [Specialized(CONSTEXPR, constant_key(constant), constant) for constant in constants]
    sequence = HostDescriptor if layout is None else GluonDescriptor
    key = (sequence, tuple((part.type, part.key) for part in parts))
    return Specialized(TUPLE, key, TupleParts(tuple(parts), sequence, value))


def _numbers(kind: str, values: tuple[int, ...]) -> Specialized:
    """Numbers of one type, of which the compiler knows nothing else."""
    parts = tuple(Specialized(kind, None, number) for number in values)
    return Specialized(TUPLE, (tuple, tuple((part.type, part.key) for part in parts)), TupleParts(parts, tuple))


def _bool(value: Any, param: KernelParam) -> Specialized:
    return Specialized("u1", None, int(value))


def _float(value: Any, param: KernelParam) -> Specialized:
    return Specialized("fp32", None, float(value))


def _int(value: Any, param: KernelParam) -> Specialized:
    number = operator.index(value)
    if number == 1 and not param.do_not_specialize and not _forbids_constant(param.annotation_type):
        if param.annotation_type:
            return Specialized(param.annotation_type, 1, 1)
        return Specialized(CONSTEXPR, (int, 1), 1)
    kind = next((kind for kind in ("i32", "i64", "u64") if number in RANGES[kind]), None)
    if kind is None:
        raise ArgumentRangeError(f"the number {number} does not fit into 64 bits")
    return Specialized(kind, _alignment(number, param), number)


def _pointer(view: ArrayView, param: KernelParam) -> Specialized:
    kind = f"*k{view.element}" if param.is_const else f"*{view.element}"
    return Specialized(kind, _alignment(view.address, param), view)


def _tuple(value: tuple[Any, ...], param: KernelParam) -> Specialized:
    parts = tuple(_specialize(part, param) for part in value)
    kind = type(value)
    if not hasattr(kind, "_fields") and not issubclass(kind, language_tuple):
        kind = tuple  # a class such as torch.Size takes numbers only, which tiles are not
    key = (kind, tuple((part.type, part.key) for part in parts))
    return Specialized(TUPLE, key, TupleParts(parts, kind))


def _constant(value: Any, param: KernelParam) -> Specialized:
    plain = value.value if isinstance(value, (constexpr, *_C_NUMBERS)) else value
    try:
        key = constant_key(plain)
        hash(key)
    except TypeError:
        whose = f"a {type(plain).__name__}"
        what = f"what {whose} holds" if type(plain).__hash__ is not None else whose
        reason = f"the value of a constexpr must be hashable, and {what} is not"
        raise TypeError(f"argument {param.name!r}: {reason}") from None
    return Specialized(CONSTEXPR, key, plain)


def _alignment(number: int, param: KernelParam) -> str | None:
    if param.do_not_specialize:
        return None
    return ALIGNED if number % DIVISIBILITY == 0 and not param.do_not_specialize_on_alignment else ""


def _forbids_constant(annotation_type: str) -> bool:
    return annotation_type.startswith(("fp", "bf", "u1"))


def _annotated(found: Specialized, kind: str) -> Specialized:
    """The annotation decides the type."""
    if isinstance(found.value, ArrayView) and not kind.startswith("*"):
        raise ArgumentError(f"the parameter is annotated {kind}, a number, and the argument is an array")
    check_fits(found.value, kind)
    if kind.startswith(("fp", "bf")):
        return Specialized(kind, None, float(found.value))
    if kind == "u1":
        return Specialized(kind, None, int(bool(found.value)))
    return found._replace(type=kind)


_Special = Callable[[Any, KernelParam], Specialized]
_NONE = Specialized(CONSTEXPR, None, None)
_BY_TYPE: dict[type, _Special] = {
    bool: _bool,
    float: _float,
    int: _int,
    tuple: _tuple,
    type(None): lambda value, param: _NONE,
}
_BY_KIND: tuple[tuple[type, _Special], ...] = (
    (constexpr, _constant),
    (KeyedCallable, _constant),
    (bool, _bool),
    (np.bool_, _bool),
    (int, _int),
    (np.integer, _int),
    (float, _float),
    (np.floating, _float),
    (tuple, _tuple),
    *((kind, lambda value, param: _specialize(value.value, param)) for kind in _C_NUMBERS),
)

for _codes, _form in (("?", bool), ("bBhHiIlLqQ", operator.index), ("efdg", float)):
    for _code in _codes:
        know_number(np.dtype(_code).type, _form)
for _kind in _C_NUMBERS:
    know_number(_kind, operator.attrgetter("value"))


RANGES = {
    **{f"i{bits}": range(-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": range(2**bits) for bits in (8, 16, 32, 64)},
}
"""Type strings of signatures, and the numbers that such a parameter holds."""


def check_fits(value: Any, kind: str) -> None:
    """Check that a number fits into a parameter of type `kind`; other types than integers hold all numbers.

    Raises:
        ArgumentRangeError: it is too large or too small.
        ArgumentError: it is no whole number.
    """
    allowed = RANGES.get(kind)
    if allowed is None:
        return
    name = f"tl.{'u' * kind.startswith('u')}int{kind[1:]}"
    try:
        number = operator.index(value)
    except TypeError:
        whose = type(value).__name__
        raise ArgumentError(f"the parameter is a {name}, and a {whose} is no whole number: pass an int") from None
    if number not in allowed:
        raise ArgumentRangeError(
            f"{number} does not fit: the parameter is a {name}, which holds {allowed.start} to {allowed.stop - 1}"
        )
