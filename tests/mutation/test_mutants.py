"""The command that counts unnoticed mistakes makes mistakes, sees which blocks run, and chooses short tests."""

from __future__ import annotations

import ast
import builtins
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import check_mutants
import endless_tests
import mutant_tests
import pytest
import watched_blocks
from mutant_outcomes import Outcome, Outcomes, equivalent_mutants, mutant_of
from source_mutants import mutants_of


def changes(text: str) -> list[str]:
    return [mutant.change for mutant in mutants_of(text, "f.py")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", ["None", "a <= b"]),
        ("return a is not b", ["None", "a is b"]),
        ("return not (a or b)", ["None", "(a or b)", "a and b"]),
        ("return (a) - b", ["None", "(a) + b"]),
        ("return not a", ["None", "a"]),
        ("return a and b", ["None", "a or b"]),
        ("return [a, 7, True]", ["None", "8", "False"]),
        ("a.go(b)", ["pass"]),
        ("a += b", ["pass"]),
        ("return a if b else None", ["None", "not (b)"]),
        ("return False", ["True"]),
        ("return list(zip(a, strict=False))", ["None", "True"]),
        ("return a.reshape(-1, 4)", ["None", "5"]),
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


BLOCKS = """
def f(a):
    '''Doc.'''
    if a:
        return 1
    elif a is None:
        b = 2
    try:
        b = 3
    except E:
        b = 4
    return b
"""


@pytest.mark.parametrize(
    ("argument", "expected"), [(1, "f f#1"), (None, "f f#2 f#3 f#4 f#5 f#7"), (0, "f f#2 f#4 f#5 f#7")]
)
def test_blocks_say_that_they_run(heard: set[str], argument: object, expected: str) -> None:
    tree = ast.parse(BLOCKS)
    watched_blocks.mark_blocks(tree, "m")
    scope: dict[str, Any] = {}
    exec(compile(tree, "f.py", "exec"), scope)
    scope["f"](argument)
    assert heard == {f"m:{block}" for block in expected.split()}


def test_a_line_stands_in_a_block() -> None:
    found = [watched_blocks.mark_of(BLOCKS, "f", line) for line in range(2, 13)]
    assert found == ["f", "f", "f", "f#1", "f#2", "f#3", "f#4", "f#5", "f#5", "f#6", "f#7"]
    assert watched_blocks.mark_of(BLOCKS, "", 1) is None


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The blocks that run."""
    marks: set[str] = set()
    monkeypatch.setattr(builtins, watched_blocks.HEAR, marks.add, raising=False)
    return marks


def test_functions_of_the_language_say_nothing(heard: set[str]) -> None:
    text = 'def f():\n    """Three."""\n    return C().m()\nclass C:\n    def m(self): return 3\n    def n(self): pass'
    tree = ast.parse(f"{text}\n@jit\ndef g(): pass\n")
    watched_blocks.mark_blocks(tree, "a.b")
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


RUN, FLY = mutants_of("class A:\n def run(self): return a\n @jit\n def fly(self): return b\n", "ir/parts.py")


def test_the_shortest_tests_are_chosen() -> None:
    tests = {"tilewright.ir.parts:A.run": {"long": 9.0, "short": 0.1, "middle": 1.0}}
    assert mutant_tests.quick_tests(RUN, tests, seconds=2) == ["short", "middle"]
    tests = {"tilewright.ir.parts:A.run": {"long": 9.0}}
    assert mutant_tests.quick_tests(RUN, tests, seconds=2) == ["long"]


def test_one_case_of_each_test_comes_first() -> None:
    tests = {"tilewright.ir.parts:A.run": {"a[1]": 0.2, "a[2]": 0.1, "a[3]": 0.3, "b": 9.0, "c[x]": 1.0}}
    assert mutant_tests.quick_tests(RUN, tests, seconds=20) == ["a[2]", "c[x]", "b", "a[1]", "a[3]"]


def test_tests_of_a_block_are_started_or_of_functions_that_use_a_constant_or_of_its_file() -> None:
    tests = {
        "tilewright.ir.parts:A.run": {"one": 1.0},
        "tilewright.ir.parts:B.run": {"two": 2.0},
        "tilewright.b:A.fly": {"no": 1.0},
    }
    assert mutant_tests.tests_of(RUN, tests) == {"one": 1.0}
    assert mutant_tests.tests_of(FLY, tests) == {"one": 1.0, "two": 2.0}
    (more,) = mutants_of("MOST = 3\ndef f(): g(MOST)\ndef g(n): pass\n", "ir/parts.py")[:1]
    assert mutant_tests.tests_of(more, tests) == {"one": 1.0, "two": 2.0}
    assert mutant_tests.tests_of(more, {**tests, "tilewright.ir.parts:f": {"three": 3.0}}) == {"three": 3.0}
    del tests["tilewright.ir.parts:A.run"]
    assert mutant_tests.tests_of(RUN, tests) == {}


def test_late_tests_are_those_left_then_those_of_the_folder() -> None:
    other, parts, far = "tests/ir/test_other.py::t", "tests/ir/test_parts.py::t", "tests/irrelevant/test_parts.py::t"
    beside = {other: 1.0, parts: 2.0, far: 0.1}
    tests = {"tilewright.ir.parts:A.run": {"quick": 0.1, "slow": 9.0}, watched_blocks.ANY: beside}
    found = mutant_tests.late_tests(RUN, tests, seconds=30, tried=["quick"])
    assert found == ["slow", parts, other]
    assert mutant_tests.late_tests(RUN, tests, seconds=10, tried=["quick"]) == ["slow"]


def test_folders_of_tests_are_there() -> None:
    for folders in mutant_tests.FOLDERS.values():
        assert all((check_mutants.ROOT / "tests" / folder).is_dir() for folder in folders)


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    first = Outcomes(file)
    for outcome in (Outcome(RUN.key), Outcome(FLY.key), Outcome(RUN.key, "tests/ir/test_parts.py::t", 3)):
        first.add(outcome)
    again = Outcomes(file)
    assert list(again.by_key.values()) == [Outcome(RUN.key, "tests/ir/test_parts.py::t", 3), Outcome(FLY.key)]


def test_a_stopped_record_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("BLOCKS_RUN", str(tmp_path / "run"))
    noted = [[request.node.nodeid, 0.5, ["m:f", "m:g#1"]], ["other", 2.0, ["m:f"]]]
    (tmp_path / "run.7.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in noted))
    both = {request.node.nodeid: 0.5, "other": 2.0}
    tests = watched_blocks.blocks_run(tmp_path / "run")
    assert tests == {"m:f": both, "m:g#1": {request.node.nodeid: 0.5}, watched_blocks.ANY: both}
    left = [item for item in request.session.items if item is not request.node]
    items = [request.node, *left]
    watched_blocks.pytest_collection_modifyitems(items)
    assert items == left


@pytest.mark.spared
@pytest.mark.parametrize(("line", "ends"), [("while True: pass", True), ("time.sleep(0.5)", False)])
def test_a_test_that_computes_for_ever_ends_the_process(tmp_path: Path, line: str, ends: bool) -> None:
    (tmp_path / "test_it.py").write_text(f"import time\ndef test_it():\n    {line}\n")
    program = "import endless_tests as e, pytest; e.MIN_SECONDS = 0.2; pytest.main(['-pendless_tests', 'test_it.py'])"
    environment = {**os.environ, "PYTHONPATH": str(check_mutants.HERE), "TEST_SECONDS": "{}"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == (endless_tests.ENDED if ends else 0)


def test_equivalent_mutants_are_mutants_of_the_source() -> None:
    entries = equivalent_mutants()
    assert [key for key in entries if mutant_of(key, check_mutants.PACKAGE) is None] == []
    assert all(len(reason) > 20 for reason in entries.values())
    assert mutant_of(RUN.key, check_mutants.PACKAGE) is None


def test_blocks_that_only_other_tests_run_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    tests = {watched_blocks.ANY: {"a": 1.0, "b": 2.0}, "ir:f": {"a": 1.0, "b": 2.0}, "ir:f#1": {"b": 2.0}}
    assert check_mutants.of_these(tests, {"a"}) == {watched_blocks.ANY: {"a": 1.0}, "ir:f": {"a": 1.0}, "ir:f#1": {}}
    assert capsys.readouterr().out == "1 of 3 blocks are run by other tests only\n  ir:f#1\n"
