"""The command that counts unnoticed mistakes makes mistakes, sees which functions run, and chooses short tests."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import check_mutants
import mutant_tests
import pytest
import watched_functions
from mutant_outcomes import Outcome, Outcomes, equivalent_mutants, text_of
from source_mutants import mutants_of


def changes(text: str) -> list[str]:
    return [mutant.change for mutant in mutants_of(text, "f.py")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", ["None", "a <= b"]),
        ("return a is not b", ["None", "a is b"]),
        ("return (a) - b", ["None", "(a) + b"]),
        ("return not a", ["None", "a"]),
        ("return a and b", ["None", "a or b"]),
        ("return [a, 7, True]", ["None", "8", "False"]),
        ("a.go(b)", ["pass"]),
        ("a += b", ["pass"]),
        ("return a if b else None", ["None", "not (b)"]),
        ("return False", ["True"]),
        ("return list(zip(a, strict=False))", ["None", "True"]),
    ],
)
def test_each_operator_makes_its_mistakes(line: str, expected: list[str]) -> None:
    found = changes(f"def f(a, b):\n    {line}\n")
    assert sorted(found) == sorted(change if change != "None" else "return None" for change in expected)


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring."""\n',
        "def f(a: tuple[int, 3]) -> 3:\n    raise ValueError(1)\n",
        "def f(a):\n    assert a < 3\n",
        'def f(a):\n    x = "text" % a\n',
        "for x in zip(a, b, strict=True):\n    continue\n",
        "def f(a):\n    return None\n",
        "@g(3)\nclass C(D[3]):\n    x: int\n",
    ],
)
def test_what_no_test_should_notice_is_left_alone(text: str) -> None:
    assert changes(text) == []


def test_a_mutant_is_the_file_but_for_one_place() -> None:
    text = "def outer():\n    def inner(é):\n        return é + 'ü' if é > 1 else é  # grün\n    return inner\n"
    mutants = mutants_of(text, "f.py")
    assert [m.text.count("\n") for m in mutants] == [4] * len(mutants)
    (greater,) = (m for m in mutants if m.change == "é >= 1")
    assert greater.text == text.replace("é > 1", "é >= 1")
    assert (greater.function, greater.line) == ("outer.inner", 3)
    for mutant in mutants:
        ast.parse(mutant.text)


def test_functions_say_that_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: set[str] = set()
    monkeypatch.setattr(builtins, watched_functions.HEAR, heard.add, raising=False)
    text = 'def f():\n    """Three."""\n    return C().m()\nclass C:\n    def m(self): return 3\n    def n(self): pass'
    tree = ast.parse(f"{text}\n@jit\ndef g(): pass\n")
    watched_functions.mark_functions(tree, "a.b")
    scope = {"jit": lambda function: function}
    exec(compile(tree, "f.py", "exec"), scope)
    assert scope["f"]() == 3
    assert scope["f"].__doc__ == "Three."
    scope["g"]()
    assert heard == {"a.b:f", "a.b:C.m"}


def test_the_number_tells_equal_mutants_apart() -> None:
    found = mutants_of("def f():\n    return g(2, 3, 2)\n", "f.py")
    assert [m.number for m in found if m.original == "2"] == [0, 1]
    assert len({m.key for m in found}) == len(found)


RUN, FLY = (m.key for m in mutants_of("class A:\n def run(self): return a\n def fly(self): return b\n", "ir/parts.py"))


def test_the_shortest_tests_are_chosen() -> None:
    tests = {"tilewright.ir.parts:A.run": {"long": 9.0, "short": 0.1, "middle": 1.0}}
    assert mutant_tests.quick_tests(RUN, tests, seconds=2) == ["short", "middle"]
    tests = {"tilewright.ir.parts:A.run": {"long": 9.0}}
    assert mutant_tests.quick_tests(RUN, tests, seconds=2) == ["long"]


def test_one_case_of_each_test_comes_first() -> None:
    tests = {"tilewright.ir.parts:A.run": {"a[1]": 0.2, "a[2]": 0.1, "a[3]": 0.3, "b": 9.0, "c[x]": 1.0}}
    assert mutant_tests.quick_tests(RUN, tests, seconds=20) == ["a[2]", "c[x]", "b", "a[1]", "a[3]"]


def test_tests_of_a_function_or_else_of_its_file_are_started() -> None:
    tests = {
        "tilewright.ir.parts:A.run": {"one": 1.0},
        "tilewright.ir.parts:B.run": {"two": 2.0},
        "tilewright.b:A.fly": {"no": 1.0},
    }
    assert mutant_tests.tests_of(RUN, tests) == {"one": 1.0}
    assert mutant_tests.tests_of(FLY, tests) == {"one": 1.0, "two": 2.0}


def test_late_tests_are_those_left_then_those_of_the_folder() -> None:
    other, parts, far = "tests/ir/test_other.py::t", "tests/ir/test_parts.py::t", "tests/irrelevant/test_parts.py::t"
    beside = {other: 1.0, parts: 2.0, far: 0.1}
    tests = {"tilewright.ir.parts:A.run": {"quick": 0.1, "slow": 9.0}, watched_functions.ANY: beside}
    found = mutant_tests.late_tests(RUN, tests, seconds=30, tried=["quick"])
    assert found == ["slow", parts, other]
    assert mutant_tests.late_tests(RUN, tests, seconds=10, tried=["quick"]) == ["slow"]


def test_folders_of_tests_are_there() -> None:
    for folders in mutant_tests.FOLDERS.values():
        assert all((check_mutants.ROOT / "tests" / folder).is_dir() for folder in folders)


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    first = Outcomes(file)
    for outcome in (Outcome(RUN), Outcome(FLY), Outcome(RUN, "tests/ir/test_parts.py::t", 3)):
        first.add(outcome)
    again = Outcomes(file)
    assert list(again.by_key.values()) == [Outcome(RUN, "tests/ir/test_parts.py::t", 3), Outcome(FLY)]


def test_equivalent_mutants_are_mutants_of_the_source() -> None:
    entries = equivalent_mutants()
    assert [key for key in entries if text_of(key, check_mutants.PACKAGE) is None] == []
    assert all(len(reason) > 20 for reason in entries.values())
    assert text_of(RUN, check_mutants.PACKAGE) is None
