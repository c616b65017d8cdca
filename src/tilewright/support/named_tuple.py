"""`typing.NamedTuple`, made in a tenth of the time: annotations are not parsed, and no text is compiled.

    class Span(NamedTuple):
        file: str
        line: int = 0

For modules that `import tilewright` imports, which have fifty such classes. Type checkers see the original; no class
may be generic. The constructor is one of `_CONSTRUCTORS` with renamed parameters, or that of Python's own named tuple
if there are more fields.
"""

from __future__ import annotations

from collections import _tuplegetter, namedtuple  # type: ignore[attr-defined]  # it is in every Python, and in C
from collections.abc import Iterable
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any


def fields_of(cls: Any) -> tuple[str, ...]:
    """The fields of a class that is no real dataclass, as those are slow to import: its base's, then its own."""
    annotations = vars(cls).get("__annotations__", {})
    own = (name for name, kind in annotations.items() if not str(kind).startswith("ClassVar"))
    return tuple(dict.fromkeys((*cls._fields, *own)))


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    _new = tuple.__new__
    _CONSTRUCTORS = (
        lambda z: _new(z, ()),
        lambda z, a: _new(z, (a,)),
        lambda z, a, b: _new(z, (a, b)),
        lambda z, a, b, c: _new(z, (a, b, c)),
        lambda z, a, b, c, d: _new(z, (a, b, c, d)),
        lambda z, a, b, c, d, e: _new(z, (a, b, c, d, e)),
        lambda z, a, b, c, d, e, f: _new(z, (a, b, c, d, e, f)),
        lambda z, a, b, c, d, e, f, g: _new(z, (a, b, c, d, e, f, g)),
        lambda z, a, b, c, d, e, f, g, h: _new(z, (a, b, c, d, e, f, g, h)),
        lambda z, a, b, c, d, e, f, g, h, i: _new(z, (a, b, c, d, e, f, g, h, i)),
        lambda z, a, b, c, d, e, f, g, h, i, j: _new(z, (a, b, c, d, e, f, g, h, i, j)),
        lambda z, a, b, c, d, e, f, g, h, i, j, k: _new(z, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda z, a, b, c, d, e, f, g, h, i, j, k, m: _new(z, (a, b, c, d, e, f, g, h, i, j, k, m)),
        lambda z, a, b, c, d, e, f, g, h, i, j, k, m, n: _new(z, (a, b, c, d, e, f, g, h, i, j, k, m, n)),
        lambda z, a, b, c, d, e, f, g, h, i, j, k, m, n, o: _new(z, (a, b, c, d, e, f, g, h, i, j, k, m, n, o)),
        lambda z, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p: _new(z, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p)),
    )

    def _constructor(size: int) -> FunctionType:
        if size < len(_CONSTRUCTORS):
            return _CONSTRUCTORS[size]
        return namedtuple("_like", [f"field{i}" for i in range(size)]).__new__

    @cache
    def _getter(index: int) -> Any:
        return _tuplegetter(index, f"Alias for field number {index}")

    class _Methods:
        @classmethod
        def _make(cls, values: Iterable[Any]) -> Any:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
            return made

        def _replace(self, /, **changed: Any) -> Any:
            made = type(self)(*map(changed.pop, self._fields, self))
            if changed:
                raise TypeError(f"{type(self).__name__} has no fields {', '.join(changed)}")
            return made

        __replace__ = _replace

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            fields = ", ".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
            return f"{type(self).__name__}({fields})"

    _METHODS = {name: method for name, method in vars(_Methods).items() if name not in ("__dict__", "__weakref__")}

    class _Maker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: fields without a default come first")
            new = _constructor(len(fields))
            code = new.__code__.replace(co_varnames=("_cls", *fields))
            made = {field: _getter(index) for index, field in enumerate(fields)}
            made["__new__"] = FunctionType(code, new.__globals__, "__new__", tuple(defaults.values()))
            made.update(_fields=fields, _field_defaults=defaults, __match_args__=fields, __slots__=())
            return type(name, (tuple,), {**_METHODS, **body, **made})

    class NamedTuple(metaclass=_Maker):
        """Base of classes that name the fields of a tuple."""
