"""Our named tuples are those of Python, in everything that is asked of them."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from typing import Any

import pytest

from tilewright.support.named_tuple import NamedTuple

pytestmark = pytest.mark.quick


class Ours(NamedTuple):
    """A place."""

    file: str
    line: int = 7
    column: int = 1

    @property
    def text(self) -> str:
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, file: str) -> Any:
        return cls(file, 3)


class Theirs(typing.NamedTuple):
    """A place."""

    file: str
    line: int = 7
    column: int = 1

    @property
    def text(self) -> str:
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, file: str) -> Any:
        return cls(file, 3)


class Empty(NamedTuple):
    pass


QUESTIONS: dict[str, typing.Callable[[Any], Any]] = {
    "fields": lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__doc__),
    "made": lambda kind: [kind("a"), kind("a", 2, 3), kind(column=4, file="b")],
    "signature": lambda kind: [(name, p.default) for name, p in inspect.signature(kind).parameters.items()],
    "bases": lambda kind: (kind.__bases__, kind.__module__, kind.of("a")),
    "types": lambda kind: typing.get_type_hints(kind),
    "parts": lambda kind: (kind("a").file, kind("a")[1], kind("a").text, str(kind("a")), len(kind("a"))),
    "repr": lambda kind: repr(kind("a", None)).replace(kind.__name__, ""),
    "equal": lambda kind: (kind("a") == ("a", 7, 1), hash(kind("a")) == hash(("a", 7, 1)), kind("a") < kind("b")),
    "replaced": lambda kind: (kind("a")._replace(line=9), type(kind("a")._replace(file="")) is kind),
    "dict": lambda kind: kind("a")._asdict(),
    "from values": lambda kind: kind._make(iter("abc")),
    "copied": lambda kind: (copy.copy(kind("a")), type(copy.deepcopy(kind("a"))) is kind),
    "pickled": lambda kind: (
        pickle.loads(pickle.dumps(kind("a"))),
        type(pickle.loads(pickle.dumps(kind("a")))) is kind,
    ),
    "no others": lambda kind: hasattr(kind("a"), "__dict__"),
}
ERRORS: list[typing.Callable[[Any], Any]] = [
    lambda kind: kind(),
    lambda kind: kind("a", 1, 2, 3),
    lambda kind: kind("a", row=1),
    lambda kind: kind("a", file="b"),
    lambda kind: setattr(kind("a"), "line", 3),
    lambda kind: setattr(kind("a"), "row", 3),
    lambda kind: kind._make("a" * 9),
    lambda kind: kind._make("a"),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_the_same(question: str) -> None:
    assert QUESTIONS[question](Ours) == QUESTIONS[question](Theirs)


@pytest.mark.parametrize("wrong", ERRORS)
def test_errors_are_of_the_same_kind(wrong: typing.Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, AttributeError)) as theirs:
        wrong(Theirs)
    with pytest.raises(theirs.type):
        wrong(Ours)


def test_others() -> None:
    assert Empty() == ()
    with pytest.raises(TypeError, match="row"):
        Ours("a")._replace(row=2)
    match Ours("a", 2):
        case Ours(file, line):
            assert (file, line) == ("a", 2)
    with pytest.raises(TypeError, match="come first"):

        class Wrong(NamedTuple):
            first: int = 1
            second: int
