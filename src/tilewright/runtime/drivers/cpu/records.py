"""The data that Python writes for the native launcher: layouts of calls, and rules to fill argument slots.

    layout_for((Parameter("x"), Parameter("BLOCK", is_constant=True)), 1, ("BLOCK", "num_warps"))
        → x: argument 0;  BLOCK: argument 1, a constant;  num_warps: argument 2, a constant
    fills((Slot(0, "*fp32"),), key)
        → slot 0: the bits of the value of parameter 0

The objects made here own their memory; native code only has its address.

Arguments of types unknown to native code are converted to a known form: foreign arrays become NumPy's, numbers
Python's.

    know_number(np.int64, int)              # such arguments of run-time parameters are launched as ints
    know_form(Tensor, view_of_tensor)       # … as NumPy arrays
    in_plain_forms(grid, values, layout, 3) # the grid and the values of a call, or None if nothing needs conversion

The converted value must compile as the original does; the caller that registers a class is responsible for that.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from tilewright.runtime.constants import is_fixed
from tilewright.runtime.drivers.cpu.native.structs import (
    FILL,
    INDEX,
    LAYOUT,
    MAP,
    RECORD,
    SOURCE,
    Convert,
    Memory,
    Role,
    Tag,
    Word,
    write_word,
)
from tilewright.semantics.constexpr import constexpr, unwrap
from tilewright.support.named_tuple import NamedTuple

FLOATS = ("fp16", "bf16", "fp32")
"""Types of arguments that machine code gets as fp32."""

DESCRIPTOR = ("tensordesc<", "tensordesc_im2col<")
"""The prefix of the types of tensor maps."""

NO_DEFAULT: Any = object()
"""The default of a parameter that has none."""


class Parameter(NamedTuple):
    """A kernel parameter, as far as launching cares.

    `is_constant`: a `tl.constexpr`, keyed by value. `by_value`: an int 1 is different from other ints.
    `by_alignment`: multiples of 16 are different from other ints and addresses. `kind`: the type string of the
    annotation, or "".
    """

    name: str
    default: Any = NO_DEFAULT
    is_constant: bool = False
    by_value: bool = True
    by_alignment: bool = True
    kind: str = ""


class Slot(NamedTuple):
    """One argument of the machine code: the parameter that fills it, and Triton's name of its type ("*fp32", "i64").

    `elements`: which element of a tuple it is, of which element of that, and so on.
    """

    parameter: int
    type: str
    elements: tuple[int, ...] = ()


class RecordLayout(NamedTuple):
    """A LAYOUT in memory, and what it refers to. `indices` has a parameter's argument, or -1 for its default."""

    positional: int
    names: tuple[str, ...] | None
    indices: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    memory: Memory
    parameter_names: object

    @property
    def address(self) -> int:
        return self.memory.address

    def kept(self, values: tuple[Any, ...]) -> tuple[object, ...] | None:
        """The objects whose addresses are in a key of these arguments.

        None for a tuple that only Python can read, and for a constant that may become another one.
        """
        kept: list[object] = []
        for parameter, index in zip(self.parameters, self.indices, strict=True):
            value = parameter.default if index < 0 else values[index]
            if parameter.is_constant:
                if not is_fixed(value):
                    return None
                kept.append(value)
            elif not _keep(value, kept):
                return None
        return tuple(kept)


def _keep(value: Any, kept: list[object]) -> bool:
    """Adds what an argument's key refers to; False for a tuple whose elements are not what iterating gives."""
    if not isinstance(value, tuple):
        kept.append(getattr(value, "dtype", None))
        if hasattr(value, "block_shape"):
            kept += [type(value), getattr(value.base, "dtype", None), value.padding]
        return True
    kept.append(type(value))
    return type(value).__iter__ is tuple.__iter__ and all(_keep(item, kept) for item in value)


def layout_for(
    parameters: tuple[Parameter, ...], positional: int, names: tuple[str, ...] | None
) -> RecordLayout | None:
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
    labels = Memory(struct.pack(f"<{len(parameters)}Q", *(id(parameter.name) for parameter in parameters)))
    header = LAYOUT.pack(
        positional=positional,
        names=id(names) if names is not None else 0,
        name_count=len(names or ()),
        count=len(bound),
        parameters=len(parameters),
        parameter_names=labels.address,
    )
    sources = (
        SOURCE.pack(index=index, role=_role(parameter), default=id(parameter.default))
        for parameter, index in zip(bound, indices, strict=True)
    )
    return RecordLayout(positional, names, tuple(indices), bound, Memory(header + b"".join(sources)), labels)


def _role(parameter: Parameter) -> int:
    return (
        Role.CONSTANT * parameter.is_constant
        | Role.ANY_VALUE * (not parameter.by_value)
        | Role.ANY_ALIGNMENT * (not parameter.by_alignment)
        | _INTEGER_ROLES.get(parameter.kind, 0) * (not parameter.is_constant)
    )


_INTEGER_ROLES = {
    **{f"i{bits}": Role.LIMITED | Role.SIGNED | Role.BITS * (bits - 1) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": Role.LIMITED | Role.BITS * min(bits, 63) for bits in (8, 16, 32, 64)},
}
"""The roles by which native code checks that an int fits into the type of the annotation."""


class MapSlot(NamedTuple):
    """An argument of the machine code that is the tensor map of a descriptor.

    `slot`: the number of the argument; `path`: where the descriptor is among the parameters, as in `Slot`; `doubles`:
    the innermost extent counts twice; other fields as in MAP, the box innermost first.
    """

    slot: int
    path: tuple[int, ...]
    size: int
    element: int
    swizzle: int
    fill: int
    doubles: bool
    box: tuple[int, ...]


def map_records(maps: tuple[MapSlot, ...], key: bytes) -> Memory | None:
    """MAPs in memory, for arguments with this key; None if a descriptor has no entries there."""
    image = b""
    entries = _entries(key)
    for one in maps:
        found = [entries.get((*one.path, *part)) for part in ((0,), (1, 0), (2, 0))]
        numbers = [entry.number for entry in found if entry is not None]
        if len(numbers) < len(found):
            return None
        image += MAP.pack(
            slot=one.slot,
            **dict(zip(("address", "shape", "strides"), numbers, strict=True)),
            rank=len(one.box),
            size=one.size,
            element=one.element,
            swizzle=one.swizzle,
            fill=one.fill,
            doubles=int(one.doubles),
            **{f"box{axis}": extent for axis, extent in enumerate(one.box)},
        )
    return Memory(image)


def fills(slots: tuple[Slot, ...], key: bytes) -> Memory | None:
    """The FILLs of the slots for arguments with this key; None when some conversion is only known to Python."""
    image = b""
    entries = _entries(key)
    for slot in slots:
        if slot.type.startswith(DESCRIPTOR):  # the launch puts a tensor map there
            image += FILL.pack(entry=0, conversion=Convert.BITS)
            continue
        found = entries.get((slot.parameter, *slot.elements))
        conversion = None if found is None else _conversion(found.tag, slot.type)
        if found is None or conversion is None:
            return None
        image += FILL.pack(entry=found.number, conversion=conversion)
    return Memory(image)


class _Entry(NamedTuple):
    number: int
    tag: int
    word: int


def _entries(key: bytes) -> dict[tuple[int, ...], _Entry]:
    """The entries of a key that are no tuples, by path: under (2, 0) the first element of argument 2."""
    words = struct.unpack(f"<{len(key) // 8}q", key)
    ahead = map(_Entry, count(), words[::2], words[1::2])
    found: dict[tuple[int, ...], _Entry] = {}
    for argument, entry in enumerate(ahead):
        _find((argument,), entry, ahead, found)
    return found


def _find(path: tuple[int, ...], entry: _Entry, ahead: Iterator[_Entry], found: dict[tuple[int, ...], _Entry]) -> None:
    if entry.tag <= Tag.LAST or not entry.word & Word.TUPLE:
        found[path] = entry
        return
    for index in range(entry.word - Word.TUPLE):
        _find((*path, index), next(ahead), ahead, found)


def _conversion(tag: int, kind: str) -> int | None:
    if tag == Tag.FLOAT:
        return Convert.FLOAT_TO_FP32 if kind in FLOATS else Convert.BITS if kind == "fp64" else None
    if kind in FLOATS or kind == "fp64":
        convert = Convert.INT_TO_FP64 if kind == "fp64" else Convert.INT_TO_FP32
        return convert if tag in (Tag.INT32, Tag.INT64, Tag.BOOL) else None
    return Convert.TRUTH if kind in ("i1", "u1") else Convert.BITS


class RecordIndex:
    """An INDEX in memory: RECORDs by their keys' hashes.

    Args: size: entries, a power of two; at least one of them has to stay empty.
    """

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._memory = Memory(INDEX.pack(mask=size - 1), INDEX.size + 8 * size)
        self.address = self._memory.address

    def place_for(self, record: Memory) -> int:
        """The address of the empty entry where a RECORD belongs."""
        mask = self.size - 1
        number = RECORD.read(record.address, "hash") & mask
        while ctypes.c_uint64.from_address(self.address + INDEX.size + 8 * number).value:
            number = (number + 1) & mask
        return self.address + INDEX.size + 8 * number

    def enter(self, record: Memory) -> None:
        """Puts a RECORD into an index that native code does not have yet."""
        write_word(self.place_for(record), record.address)


def launch_record(
    grid: Sequence[int], values: Sequence[int | float], types: Sequence[str], *, listener: int = 0
) -> bytes:
    """The bytes that machine code gets as its `launch` argument, for `run_grid`.

    Args:
        grid: one to three extents; values: an address or number per slot; types: Triton's names of their types.
        listener: the address of a CONTROL that kernels which print or check report to (`listener.py`).
    Errors: struct.error for extents that do not fit.
    """
    x, y, z = (*grid, 1, 1)[:3]
    slots = b"".join(map(packed, values, types))
    return struct.pack("<iiiiQ", x, y, z, 0, listener) + slots


def packed(value: int | float, kind: str) -> bytes:
    """A number as it stands in a slot of the launch record, eight bytes; halves stand there as fp32."""
    if kind in FLOATS:
        return struct.pack("<fi", ctypes.c_float(value).value, 0)
    if kind == "fp64":
        return struct.pack("<d", value)
    return struct.pack("<Q", int(value) & 0xFFFFFFFFFFFFFFFF)


PROGRAM = struct.Struct("<4i")


class StuckPrograms(Exception):  # noqa: N818 - no error by itself: the launch makes one of it
    """All programs that ran waited for others for too long: `program` is one of them, `site` where it waits."""

    def __init__(self, record: bytes) -> None:
        *self.program, self.site = PROGRAM.unpack_from(record)


number_forms: dict[type, Callable[[Any], Any]] = {}
"""Classes of numbers, and what makes an int, a float or a bool of one; native code uses this table, too."""
forms: dict[type, Callable[[Any], Any]] = {}
"""Classes of numbers and arrays, and what makes such a number or a NumPy array of one; native code uses it, too."""
_constant_forms: dict[type, Callable[[Any], Any]] = {constexpr: unwrap}


def know_form(kind: type, form: Callable[[Any], Any]) -> None:
    """Make launches take arguments of exactly this class as what `form` makes of them; what it raises is ignored."""
    forms[kind] = form


def know_number(kind: type, form: Callable[[Any], Any]) -> None:
    """Make launches take arguments of exactly this class as the int, float or bool that `form` makes of them."""
    forms[kind] = number_forms[kind] = form


def in_plain_forms(
    grid: Any, values: tuple[Any, ...], layout: RecordLayout, parameters: int
) -> tuple[Any, tuple[Any, ...]] | None:
    """The grid and the values of a call, foreign ones converted; None if there are none, or if one cannot be converted.

    A grid function is called, with the values as they are; it may resize one.

    Args:
        grid: as in `kernel[grid]`.
        values, layout: the call.
        parameters: how many of the layout are the kernel's; options follow.
    """
    plain = _plain_values(values, layout)
    if plain is None or not callable(grid):
        return None if plain is None else (grid, plain)
    ahead = zip(layout.parameters[:parameters], layout.indices, strict=False)
    named = {parameter.name: parameter.default if index < 0 else values[index] for parameter, index in ahead}
    return grid(named), _plain_values(values, layout) or values


def _plain_values(values: tuple[Any, ...], layout: RecordLayout) -> tuple[Any, ...] | None:
    plain: list[Any] | None = None
    for parameter, index in zip(layout.parameters, layout.indices, strict=True):
        if index < 0:
            continue
        form = (_constant_forms if parameter.is_constant else forms).get(type(values[index]))
        if form is None:
            continue
        plain = list(values) if plain is None else plain
        try:
            plain[index] = form(values[index])
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
            return None  # the launch from Python says what is wrong
    return None if plain is None else tuple(plain)
