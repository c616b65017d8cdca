"""Our `NamedTuple` makes the classes that Python's makes."""

from __future__ import annotations

import pickle
import typing

import pytest

from tilewright.support import named_tuple


class Ours(named_tuple.NamedTuple):
    """A place."""

    file: str
    line: int = 1
    column: int = 2

    @property
    def text(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, file: str) -> Ours:
        return cls(file, 3)


class Python(typing.NamedTuple):
    """A place."""

    file: str
    line: int = 1
    column: int = 2


@pytest.mark.parametrize("name", ["__doc__", "__module__", "_fields", "_field_defaults", "__bases__"])
def test_it_says_of_itself_what_pythons_says(name: str) -> None:
    assert getattr(Ours, name) == getattr(Python, name)


def test_it_is_a_tuple_with_names_and_methods() -> None:
    place = Ours("a.py", column=7)
    assert place == ("a.py", 1, 7)
    assert place.text == "a.py:1"
    assert Ours.of("b.py")._replace(line=4) == Ours("b.py", 4)
    assert repr(place) == "Ours(file='a.py', line=1, column=7)"
    assert pickle.loads(pickle.dumps(place)) == place
    assert typing.get_type_hints(Ours) == {"file": str, "line": int, "column": int}
    with pytest.raises(AttributeError):
        place.line = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Ours()  # type: ignore[call-arg]
