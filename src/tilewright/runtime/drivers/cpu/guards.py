"""Guards: outer values that a kernel was compiled with, in a form that native code checks before each launch.

    guards = guards_for(function.used_global_vals)       # None: some value could change without being noticed natively
    kernel.guard(guards)                                 # launches go to Python as soon as one is another object

A name in a module is looked up in the module's dict; a variable of an enclosing function and the value inside a
`constexpr` are words in memory. Objects are compared by identity: if one is different, Python decides whether it is
equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from tilewright.runtime.dependencies import ABSENT, Captured, UsedGlobals, is_immutable, same_value
from tilewright.runtime.drivers.cpu import python_memory
from tilewright.runtime.drivers.cpu.native.structs import GUARD, GUARDS, Memory
from tilewright.semantics.constexpr import constexpr
from tilewright.support.named_tuple import NamedTuple


class Guards(NamedTuple):
    """GUARDS in memory.

    Attributes:
        objects: what they refer to, in order; two tables with the same objects are the same.
    """

    memory: Memory
    objects: tuple[object, ...]

    def is_same(self, other: Guards | None) -> bool:
        """Whether both check the same objects."""
        if other is None or len(self.objects) != len(other.objects):
            return False
        return all(left is right for left, right in zip(self.objects, other.objects, strict=True))


NO_GUARDS = Guards(Memory(GUARDS.pack(count=0)), ())


def guards_for(used: UsedGlobals) -> Guards | None:
    """Guards for all values; None when one cannot be guarded, or is another one now (another thread may change it)."""
    if not used:
        return NO_GUARDS
    entries: list[tuple[int, object, object]] = []  # address of a word or 0, container and name, expected object
    for (name, _), (compiled, namespace) in used.items():
        found = list(_entries(name, namespace, compiled))
        if not found:
            return None
        entries += found
    image = GUARDS.pack(count=len(entries)) + b"".join(_packed(*entry) for entry in entries)
    places = (place if isinstance(place, tuple) else (place,) for _, place, _ in entries)
    objects = (*(part for place in places for part in place), *(expected for _, _, expected in entries))
    return Guards(Memory(image), objects)


def _entries(name: str, namespace: Any, compiled: object) -> Iterator[tuple[int, object, object]]:
    """The comparisons for one name; none when that cannot be done."""
    value = namespace.get(name, ABSENT)
    if value is not compiled and not same_value(value, compiled):
        return
    inner = value.value if isinstance(value, constexpr) else value
    cell, slot = _offsets()
    if value is ABSENT or not is_immutable(inner) or cell is None or slot is None:
        return
    if isinstance(namespace, Captured):
        yield id(namespace.cell) + cell, namespace.cell, value
    elif type(namespace) is dict:
        yield 0, (namespace, name), value
    else:
        return
    if isinstance(value, constexpr):
        yield id(value) + slot, value, inner


def _packed(word: int, place: object, expected: object) -> bytes:
    if word:
        return GUARD.pack(word=word, expected=id(expected))
    assert isinstance(place, tuple), "a dict and a key"
    return GUARD.pack(namespace=id(place[0]), name=id(place[1]), expected=id(expected))


@cache
def _offsets() -> tuple[int | None, int | None]:
    """The offsets of a cell's content and of a constexpr's value, in bytes."""
    return python_memory.cell_offset(), python_memory.slot_offset(constexpr, "value")
