"""Values of a kernel and the SSA values inside them.

A value is a tile, a tuple of values, an object with values as attributes (a tensor descriptor, an aggregate), or
something known at compile time (numbers, types, functions, None). `flatten` extracts the SSA values and a layout;
`rebuild` makes the same structure with other SSA values:

    flatten((x, 3, (y,)))   →   [x.handle, y.handle], layout
    rebuild(layout, iter([a, b]))   →   (tile of a, 3, (tile of b,))
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from tilewright.ir.attributes import FileLocation
from tilewright.ir.core import Block, Op, Value
from tilewright.language.callable import KeyedCallable
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.constexpr import NUMBERS, constexpr, unwrap
from tilewright.semantics.running_sums import running_type
from tilewright.semantics.tile import Held, Tile
from tilewright.semantics.types import AnyType, block_type, dtype
from tilewright.support.named_tuple import NamedTuple


class Fixed(NamedTuple):
    """The layout of a compile-time value: itself."""

    value: Any


class Sequence(NamedTuple):
    """The layout of a tuple."""

    container: type[tuple[Any, ...]]
    items: tuple[Structure, ...]


class Compound(NamedTuple):
    """The layout of an object with tiles among its attributes."""

    kind: type[Any]
    names: tuple[str, ...]
    items: tuple[Structure, ...]


Structure: TypeAlias = "AnyType | Fixed | Sequence | Compound"


def flatten(value: Any, handles: list[Value]) -> Structure:
    """Append the SSA values inside `value` to `handles`; returns how they sit in it."""
    if isinstance(value, Held):
        handles.append(value.handle)
        kind: Structure = value.type
        return kind
    if isinstance(value, tuple):
        return Sequence(value.__class__, tuple(flatten(item, handles) for item in value))
    attributes = run_time_attributes(value)
    if attributes is not None:
        items = tuple(flatten(item, handles) for item in attributes.values())
        return Compound(value.__class__, tuple(attributes), items)
    return Fixed(value)


def run_time_attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an object that holds tiles; None for everything else."""
    attributes = getattr(value, "__dict__", None)
    if attributes is None or isinstance(value, _NOT_COMPOUND) or all(map(is_compile_time, attributes.values())):
        return None
    return dict(attributes)


def rebuild(layout: Structure, handles: Iterator[Value]) -> Any:
    """The value of that layout with its SSA values taken from `handles`."""
    if isinstance(layout, Fixed):
        return layout.value
    if isinstance(layout, Sequence):
        return make_tuple(layout.container, [rebuild(item, handles) for item in layout.items])
    if isinstance(layout, Compound):
        made = object.__new__(layout.kind)
        made.__dict__.update(
            {name: rebuild(item, handles) for name, item in zip(layout.names, layout.items, strict=True)}
        )
        return made
    return holder_of(layout)(next(handles), layout)


def holder_of(kind: Any) -> Any:
    """The class of values of a type."""
    return getattr(kind, "held_by", Tile.concrete)


def make_tuple(container: type[tuple[Any, ...]], items: list[Any]) -> tuple[Any, ...]:
    """A tuple of a tuple class; named tuples take their fields one by one."""
    make = getattr(container, "_make", container)
    made: tuple[Any, ...] = make(items)
    return made


def same_structure(left: Structure, right: Structure) -> bool:
    """Whether values of the two layouts can take each other's place at run time."""
    if isinstance(left, Fixed) and isinstance(right, Fixed):
        return same_constant(left.value, right.value)
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        return len(left.items) == len(right.items) and all(map(same_structure, left.items, right.items))
    if isinstance(left, Compound) and isinstance(right, Compound):
        alike = left.kind is right.kind and left.names == right.names
        return alike and all(map(_same_value, left.items, right.items))
    return left is right


def _same_value(left: Structure, right: Structure) -> bool:
    """The same of attributes, where a sum that runs on is as good as a tile: Triton looks at their types in the IR."""
    if isinstance(left, running_type) or isinstance(right, running_type):
        return getattr(left, "ir", None) is getattr(right, "ir", left)
    return same_structure(left, right)


def same_constant(left: Any, right: Any) -> bool:
    """Whether two compile-time values are the same, also in type and sign of zero."""
    left, right = unwrap(left), unwrap(right)
    if left is right:
        return True
    return left.__class__ is right.__class__ and left.__class__ in _COMPARABLE and repr(left) == repr(right)


def at_run_time(value: Any) -> Any:
    """`value` with the numbers in it turned into tiles (int32 or wider, fp32, int1)."""
    kind = value.__class__
    if kind in NUMBERS:
        return to_tensor(value)
    if kind is constexpr:
        return at_run_time(value.value)
    if isinstance(value, tuple):
        return make_tuple(kind, [at_run_time(item) for item in value])
    return value


def is_compile_time(value: Any) -> bool:
    """Whether there is no tile inside `value`."""
    if isinstance(value, tuple):
        return all(map(is_compile_time, value))
    return not isinstance(value, Held) and run_time_attributes(value) is None


def describe(value: Any) -> str:
    """The description of a value, for messages: the type of tiles, the value of constants."""
    if isinstance(value, Held):
        return str(value.type)
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))}{',' if len(value) == 1 else ''})"
    if value.__class__ in _COMPARABLE or value is None:
        return repr(value)
    if isinstance(value, (dtype, block_type)):
        return f"the type {value}"
    name = getattr(value, "__name__", None)
    return f"`{name}`" if name else f"a {type(value).__name__}"


def origin(handle: Value) -> str:
    """The origin of a value, for messages: `, the argument n`, `, computed at kernel.py:12`."""
    if isinstance(handle.owner, Block):
        return f", the argument `{handle.name}`," if handle.name else ""
    place = handle.owner.location
    return f", computed at {place.file.rpartition('/')[2]}:{place.line}," if isinstance(place, FileLocation) else ""


def set_name(value: Any, name: str) -> None:
    """Let the SSA value of a tile carry the name of the variable that holds it first; constants are shared."""
    if isinstance(value, Held):
        handle = value.handle
        if handle.name is None and not (isinstance(handle.owner, Op) and handle.owner.definition.constant):
            handle.name = name
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            set_name(item, f"{name}_{number}")


_COMPARABLE = NUMBERS | {str}
_NOT_COMPOUND = (type, ModuleType, FunctionType, KeyedCallable)
