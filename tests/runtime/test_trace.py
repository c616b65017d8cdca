"""The trace of launches and compilations."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fresh_caches import cache_without_kernels
from tilewright.runtime import trace

PROGRAM = """
import os, signal, sys
import numpy as np
import tilewright as tw
import tilewright.language as tl

def work(grid, metadata, args):
    return {"name": "double it", "flops": args["n"], "bytes": 8 * args["n"]}

@tw.jit(launch_metadata=work)
def double(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, 2 * tl.load(x + offsets, mask=offsets < n), mask=offsets < n)

x = np.ones(100, np.float32)
for _ in range(int(sys.argv[1])):
    double[(2,)](x, 100, BLOCK=64)
if "crash" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def start(program: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TILEWRIGHT_TRACE": str(program.with_name("trace.json"))}
    return subprocess.Popen([sys.executable, program, *arguments], env=environment)


def events(program: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(program.with_name("trace.json").read_text())
    return found


def test_every_launch_is_in_the_trace(program: Path) -> None:
    process = start(program, "3")
    assert process.wait(60) == 0
    launches = [event for event in events(program) if event["cat"] == "launch"]
    assert len(launches) == 3
    for event in launches:
        assert (event["name"], event["ph"], event["pid"]) == ("double it", "X", process.pid)
        assert (event["args"]["flops"], event["args"]["bytes"], event["args"]["kernel"]) == (100, 800, "double")
        assert event["dur"] > 0
    assert [event["ts"] for event in launches] == sorted(event["ts"] for event in launches)


@pytest.mark.spared
def test_compilations_and_their_stages_are_in_the_trace(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache_without_kernels(program.with_name("cache"))))
    for _ in range(2):
        assert start(program, "1").wait(60) == 0
    compiled, loaded = (event for event in events(program) if event["cat"] == "compile")
    assert (compiled["name"], compiled["args"]["cache_hit"]) == ("double", False)
    assert (loaded["name"], loaded["args"]["cache_hit"]) == ("load double", True)
    stages = [event for event in events(program) if event["cat"] == "stage"]
    assert stages[0]["name"] == "front end"
    assert {"ttir", "ttcir", "llir", "obj", "link and store"} <= {event["name"] for event in stages}
    for event in stages:
        assert compiled["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= compiled["ts"] + compiled["dur"] + 1


@pytest.mark.slow
def test_a_crash_leaves_the_trace_whole(program: Path) -> None:
    assert start(program, "2", "crash").wait(60) == -signal.SIGKILL
    assert start(program, "1").wait(60) == 0
    assert len([event for event in events(program) if event["cat"] == "launch"]) == 3


@pytest.mark.slow
def test_processes_share_a_file(program: Path) -> None:
    processes = [start(program, "20") for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    found = events(program)
    assert {event["pid"] for event in found} == {process.pid for process in processes}
    assert len([event for event in found if event["cat"] == "launch"]) == 60


@pytest.mark.quick
@pytest.mark.parametrize(
    "damage", ["", "[", "[\n", '[\n{"a": 1},\n{"b": ', '[\n{"a": 1},\n{"b": 2}', '[\n{"a": 1}\n]\n']
)
def test_a_write_that_was_interrupted_costs_its_event_only(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(damage)
    trace._append(path, b'{"c": 3}')
    trace._append(path, b'{"d": 4}')
    *before, third, fourth = json.loads(path.read_text())
    assert (third, fourth) == ({"c": 3}, {"d": 4})
    assert before in ([], [{"a": 1}])
