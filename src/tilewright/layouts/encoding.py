"""The base class of all layouts: interned objects with a text, in the spelling of Triton 3.9.

A kind is a class with fields, the keys of its text, and rules; see distributed.py and shared.py:

    class Slice(Distributed):
        name: ClassVar[str] = "ttg.slice"
        keys: ClassVar[tuple[Key, ...]] = (Key("dim", "dim", integer), Key("parent", "parent", layout))
        dim: int
        parent: Distributed

Two equal layouts are one object, so passes compare with `is` and memoise on them.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, dataclass_transform

from tilewright.layouts.attribute_text import Value, Written, read
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.keys import Key, current_spelling, print_keys, read_keys
from tilewright.support.cached_property import cached_property
from tilewright.support.named_tuple import fields_of

KINDS: dict[str, type[Encoding]] = {}
"""The kinds by the name of their attribute."""


@dataclass_transform(frozen_default=True, eq_default=False)
class Encoding:
    """Base of all layouts. Subclasses name their fields as dataclasses do, and the keys of their text in order.

    They are no real dataclasses, as those are slow to import.
    """

    name: ClassVar[str] = ""
    keys: ClassVar[tuple[Key, ...]] = ()
    _fields: ClassVar[tuple[str, ...]] = ()
    _interned: ClassVar[dict[tuple[Any, ...], Encoding]] = {}

    def __init_subclass__(cls) -> None:
        if cls.name:
            KINDS[cls.name] = cls
        cls._fields = fields_of(cls)

    def __new__(cls, *args: Any, **fields: Any) -> Encoding:
        if fields or len(args) < len(cls._fields):
            rest = cls._fields[len(args) :]
            args = (*args, *(fields[name] if name in fields else getattr(cls, name) for name in rest))
        found = cls._interned.get((cls, *args))
        if found is None:
            found = object.__new__(cls)
            found.__dict__.update(zip(cls._fields, args, strict=True))
            found.check()
            cls._interned[cls, *args] = found
        return found

    def __init__(self, *args: Any, **fields: Any) -> None:
        """`__new__` sets all fields, once."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __reduce__(self) -> str:
        raise TypeError("layouts are not pickled: print and read them")

    def __repr__(self) -> str:
        return self.text

    @property
    def rank(self) -> int:
        """The number of dimensions of the tiles that can have this layout."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise LayoutError if the fields break a rule of this kind."""

    @cached_property
    def text(self) -> str:
        """The attribute, as Triton 3.9 prints it."""
        return self.spell()

    def spell(self) -> str:
        """The value of `text`."""
        return f"#{self.name}<{{{self.body()}}}>"

    def body(self) -> str:
        """The part in braces."""
        shown = ((key, getattr(self, key.field)) for key in self.keys)
        return print_keys((key.spelled, value) for key, value in shown if key.printed or value != key.default)

    @classmethod
    def from_written(cls, written: Written) -> Encoding:
        """The layout that `written` is."""
        demand(not written.pads and not written.trailing, f"#{cls.name} takes nothing but <{{…}}>")
        return cls(**read_keys(written.keys, cls.keys, cls.name))


class Distributed(Encoding):
    """A layout of elements in the registers of threads."""


class Shared(Encoding):
    """A layout of elements in shared memory."""

    @property
    def alignment(self) -> int:
        """The alignment of a buffer in shared memory, in bytes."""
        return 16


def layout(value: Value, key: str) -> Encoding:
    """A layout inside a layout."""
    if not isinstance(value, Written):
        raise LayoutError(f"{key} must be a layout such as #ttg.blocked<{{…}}>")
    return from_written(value)


def from_written(written: Written) -> Encoding:
    """The layout that `written` is."""
    kind = KINDS.get(written.name)
    if kind is None:
        known = ", ".join(f"#{name}" for name in KINDS if name.startswith("tt"))
        raise LayoutError(f"#{written.name} is no layout; layouts are {known}", written.offset)
    return kind.from_written(current_spelling(written))


EncodingT = TypeVar("EncodingT", bound=Encoding)
_BY_TEXT: dict[str, Encoding] = {}


def encoding(text: str) -> Encoding:
    """The layout that `text` describes, in the spelling of Triton 3.9 or 3.5.1.

    Raises:
        LayoutError: the text is no layout attribute, or the layout breaks a rule of its kind.
    """
    found = _BY_TEXT.get(text)
    if found is None:
        found = _BY_TEXT[text] = from_written(read(text))
    return found


def encoding_as(kind: type[EncodingT], text: str | None) -> EncodingT:
    """The layout that `text` describes, which must be of the class `kind`."""
    found = encoding(text or "")
    assert isinstance(found, kind), f"{text} is no layout of kind {kind.__name__}"
    return found
