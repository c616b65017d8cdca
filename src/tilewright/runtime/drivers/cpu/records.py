"""What Python writes into memory for the native launcher: layouts of calls, and how argument slots are filled.

    layout_for((Parameter("x"), Parameter("BLOCK", is_constant=True)), 1, ("BLOCK", "num_warps"))
        → x: argument 0;  BLOCK: argument 1, a constant;  num_warps: argument 2, a constant
    fills((Slot(0, "*fp32"),), key)
        → slot 0: the bits of the value of parameter 0

The objects made here own their memory; native code only has its address.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from tilewright.runtime.drivers.cpu.native.structs import (
    CONVERT_BITS,
    CONVERT_FLOAT_TO_FP32,
    CONVERT_INT_TO_FP32,
    CONVERT_INT_TO_FP64,
    CONVERT_TRUTH,
    FILL,
    LAYOUT,
    RECORD,
    ROLE_ANY_ALIGNMENT,
    ROLE_ANY_VALUE,
    ROLE_CONSTANT,
    SOURCE,
    TAG_BOOL,
    TAG_FLOAT,
    TAG_INT32,
    TAG_INT64,
)
from tilewright.support.named_tuple import NamedTuple

Memory = ctypes.Array[ctypes.c_char]
"""Bytes that Python owns and native code reads."""

FLOATS = ("fp16", "bf16", "fp32")
"""Types that machine code gets as fp32."""

NO_DEFAULT: Any = object()
"""The default of a parameter that has none."""


class Parameter(NamedTuple):
    """A kernel parameter, as far as launching cares.

    `is_constant`: a `tl.constexpr`, keyed by value. `by_value`: an int 1 is different from other ints.
    `by_alignment`: multiples of 16 are different from other ints and addresses.
    """

    name: str
    default: Any = NO_DEFAULT
    is_constant: bool = False
    by_value: bool = True
    by_alignment: bool = True


class Slot(NamedTuple):
    """One argument of the machine code: the parameter that fills it, and Triton's name of its type ("*fp32", "i64")."""

    parameter: int
    type: str


class Layout(NamedTuple):
    """A LAYOUT in memory, and what it refers to. `indices` has a parameter's argument, or -1 for its default."""

    positional: int
    names: tuple[str, ...] | None
    indices: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    memory: Memory
    parameter_names: object

    @property
    def address(self) -> int:
        return ctypes.addressof(self.memory)

    @property
    def bound_count(self) -> int:
        return len(self.indices)

    def kept(self, values: tuple[Any, ...]) -> tuple[object, ...]:
        """The objects whose addresses are in a key of these arguments."""
        bound = zip(self.parameters, self.indices, strict=True)
        arguments = [(p.is_constant, p.default if i < 0 else values[i]) for p, i in bound]
        return tuple(value if is_constant else getattr(value, "dtype", None) for is_constant, value in arguments)


def layout_for(parameters: tuple[Parameter, ...], positional: int, names: tuple[str, ...] | None) -> Layout | None:
    """The layout of a way to call; None when the call does not fit the parameters."""
    keywords = {name: positional + index for index, name in enumerate(names or ())}
    indices = []
    for index, parameter in enumerate(parameters):
        given = keywords.pop(parameter.name, -1)
        if index < positional and given >= 0:
            return None
        found = index if index < positional else given
        if found < 0 and parameter.default is NO_DEFAULT:
            return None
        indices.append(found)
    if positional > len(parameters):
        return None
    options = tuple(Parameter(name, is_constant=True) for name in keywords)
    bound = parameters + options
    indices += keywords.values()
    labels = (ctypes.c_uint64 * len(parameters))(*(id(parameter.name) for parameter in parameters))
    header = LAYOUT.pack(
        positional=positional,
        names=id(names) if names is not None else 0,
        name_count=len(names or ()),
        count=len(bound),
        parameters=len(parameters),
        parameter_names=ctypes.addressof(labels),
    )
    sources = (
        SOURCE.pack(index=index, role=_role(parameter), default=id(parameter.default))
        for parameter, index in zip(bound, indices, strict=True)
    )
    image = header + b"".join(sources)
    memory = ctypes.create_string_buffer(image, len(image))
    return Layout(positional, names, tuple(indices), bound, memory, labels)


def _role(parameter: Parameter) -> int:
    return (
        ROLE_CONSTANT * parameter.is_constant
        | ROLE_ANY_VALUE * (not parameter.by_value)
        | ROLE_ANY_ALIGNMENT * (not parameter.by_alignment)
    )


def fills(slots: tuple[Slot, ...], key: bytes) -> Memory | None:
    """How to fill the slots from arguments with this key; None when some conversion is only known to Python."""
    image = b""
    for slot in slots:
        (tag,) = struct.unpack_from("<q", key, 16 * slot.parameter)
        conversion = _conversion(tag, slot.type)
        if conversion is None:
            return None
        image += FILL.pack(parameter=slot.parameter, conversion=conversion)
    return ctypes.create_string_buffer(image, max(1, len(image)))


def _conversion(tag: int, kind: str) -> int | None:
    if tag == TAG_FLOAT:
        return CONVERT_FLOAT_TO_FP32 if kind in FLOATS else CONVERT_BITS if kind == "fp64" else None
    if kind in FLOATS or kind == "fp64":
        convert = CONVERT_INT_TO_FP64 if kind == "fp64" else CONVERT_INT_TO_FP32
        return convert if tag in (TAG_INT32, TAG_INT64, TAG_BOOL) else None
    return CONVERT_TRUTH if kind in ("i1", "u1") else CONVERT_BITS


def enter(table: ctypes.Array[ctypes.c_uint64], record: Memory) -> None:
    """Puts a RECORD into an open hash table, which has room."""
    address = ctypes.addressof(record)
    mask = len(table) - 1
    index = RECORD.read(address, "hash") & mask
    while table[index]:
        index = (index + 1) & mask
    table[index] = address
