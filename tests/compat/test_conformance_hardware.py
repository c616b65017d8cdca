"""Triton's tests on hardware: a file of tests in several processes, one of which crashes and one of which hangs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

from hardware import Group, Outcome, Shard, failures_of, outcomes, rows_of, run_shard

HERE = Path(__file__).parents[1] / "conformance"
pytestmark = pytest.mark.needs_torch
TESTS = """
import os, time
import pytest

@pytest.mark.parametrize("number", range(4))
def test_many(number):
    assert number != 2, "two is wrong"

def test_skipped():
    pytest.skip("not here")

def test_ends_the_process():
    os._exit(9)

def test_behind():
    pass
"""


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Outcome]:
    (tmp_path / "test_some.py").write_text(TESTS)
    group = Group("", ("test_some.py",), 1.0)
    end = time.time() + 100
    shards = [Shard(tmp_path, group, "", number, 2, tmp_path / f"{number}.jsonl", end) for number in range(2)]
    for shard in shards:
        run_shard(shard)
    return outcomes([shard.log for shard in shards])


@pytest.mark.slow
def test_each_test_runs_once_and_a_crash_takes_nothing_with_it(found: dict[str, Outcome]) -> None:
    collected = json.loads(found.pop("")["message"])
    assert collected == {"test_some.py": 7}
    assert len(found) == 7
    crashed = found["test_some.py::test_ends_the_process"]
    assert crashed["outcome"] == "begun"
    crashed["outcome"] = "failed"
    row = {"name": "test_some.py", "passed": 4, "failed": 2, "skipped": 1, "all": 7}
    assert rows_of(found.values(), collected) == [row]
    assert {(row["test"], row["reason"], row["cases"]) for row in failures_of(found.values())} == {
        ("test_some.py::test_many", "not explained yet: AssertionError: two is wrong", 1),
        ("test_some.py::test_ends_the_process", "not explained yet: the process ended, or took too long", 1),
    }


@pytest.mark.slow
def test_one_case_of_each_function_comes_before_the_second_of_any(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS.replace("os._exit(9)", "pass"))
    shard = Shard(tmp_path, Group("", ("test_some.py",), 1.0), "", 0, 1, tmp_path / "log.jsonl", time.time() + 100)
    run_shard(shard)
    begun = [line["test"] for line in map(json.loads, shard.log.read_text().splitlines()) if line["outcome"] == "begun"]
    names = [name.partition("::")[2].partition("[")[0] for name in begun]
    assert names[:4] == ["test_many", "test_skipped", "test_ends_the_process", "test_behind"]
    assert names[4:] == ["test_many"] * 3


def test_without_a_gpu_it_says_so() -> None:
    command = [sys.executable, str(HERE / "hardware.py"), "nowhere", "--out", "x.json", "--groups"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("no GPU: ")
