"""Rows of processes that end early."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import processes
import pytest
from processes import GIVES_UP, collected, print_rows

PROGRAM = """
import json, os, sys, time
for number in range(int(sys.argv[-1]), 4):
    {what}
    print(json.dumps({{"good": number % 2 == 0}}), flush=True)
    {after}
"""


def rows_one_by_one(what: str, after: str = "pass", seconds: float = 60) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-c", PROGRAM.format(what=what, after=after)]
    return collected(command, ["a", "b", "c", "d"], seconds=seconds)


def rows(what: str = "pass", after: str = "pass", seconds: float = 60) -> list[dict[str, Any]]:
    return list(rows_one_by_one(what, after, seconds))


ALL = [{"name": name, "good": good} for name, good in zip("abcd", (True, False, True, False), strict=True)]


def test_one_process() -> None:
    assert rows() == ALL


def test_a_process_that_gives_up_is_followed_by_another() -> None:
    assert rows(after=f"if number == 1: sys.exit({GIVES_UP})") == ALL


def test_a_process_that_dies_costs_one_row() -> None:
    found = rows(what="if number == 1: os.abort()")
    assert found == [ALL[0], {"name": "b", "good": False, "problem": "the process ended with status -6"}, *ALL[2:]]


def test_a_process_that_says_nothing_costs_one_row() -> None:
    assert [row.get("problem") for row in rows(what=f"sys.exit({GIVES_UP})")] == ["the process ended with status 3"] * 4


def test_a_row_may_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows_one_by_one(what="if number == 2: time.sleep(60)")
    assert [next(found), next(found)] == ALL[:2]
    with monkeypatch.context() as patch:
        patch.setattr(processes, "ROW_SECONDS", 0.1)
        assert next(found) == {"name": "c", "good": False, "problem": "the process ended with status -9"}
    assert list(found) == ALL[3:]


def test_time_runs_out() -> None:
    found = rows(seconds=0)
    assert found == [{"name": name, "skipped": "not reached within 0 s"} for name in "abcd"]


def test_rows_of_one_process_end_behind_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    found = {"a": {"good": True}, "b": {"skipped": "why"}, "c": {"good": False, "problem": "x"}, "d": {"good": True}}
    assert print_rows(found.__getitem__, list(found), 1) == GIVES_UP
    assert capsys.readouterr().out.splitlines() == ['{"skipped": "why"}', '{"good": false, "problem": "x"}']
    assert print_rows(found.__getitem__, list(found), 3) == 0
