"""Bars of long work: on a terminal they count and go, elsewhere nobody sees them."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from fresh_caches import cache_without_kernels
from tilewright.support import progress
from tilewright.support.progress import Line, Progress, clock

WORK = """
import sys, time
from tilewright.support import progress
kind, pause = sys.argv[1], float(sys.argv[2])
if kind == "plain":
    progress.find_spec = lambda name: None
progress.DELAY = 0.0
with progress.Progress("sorting things", 40) as bar:
    for done in range(40):
        time.sleep(pause)
        bar.at(done)
        with progress.Progress("inside of it", 2) as inner:
            inner.at(1)
        if done == 20:
            bar.write("a line of results")
print("the end", file=sys.stderr)
"""
LONG_WORK = """
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import tilewright as tw, tilewright.language as tl
from tilewright.support import progress
progress.DELAY = 0.0

def bench(launch, quantiles):
    launch()
    time.sleep(0.02)
    return [1.0, 1.0, 1.0]

@tw.autotune([tw.Config({"B": 2**k}) for k in range(4, 7)], key=[], do_bench=bench)
@tw.jit
def tuned(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), 1)

@tw.jit
def filled(x, B: tl.constexpr):
    tl.store(x + tl.program_id(0) * B + tl.arange(0, B), 1)

@tw.testing.perf_report(tw.testing.Benchmark(["n"], [1, 2, 3], "who", ["a"], ["A"], "sleeping", {}))
def sleeping(n, who):
    time.sleep(0.02)
    return n

x = np.zeros(4096, np.int32)
"""


def on_terminal(code: str, *arguments: str, **variables: str) -> tuple[str, str]:
    """The output of a program to a terminal on stderr, and to stdout, which is none."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, **variables}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=environment, text=True) as child:
        os.close(slave)
        found = b""
        try:
            while piece := os.read(master, 4096):
                found += piece
        except OSError:  # how a terminal says that the other side is closed
            pass
        assert child.stdout is not None
        said = child.stdout.read()
    os.close(master)
    assert child.returncode == 0, found.decode()
    return found.decode(), said


@pytest.mark.parametrize("kind", ["plain", pytest.param("tqdm", marks=pytest.mark.needs_tqdm)])
def test_a_bar_on_a_terminal(kind: str) -> None:
    shown, said = on_terminal(WORK, kind, "0.01")
    assert "sorting things" in shown
    assert ("left" if kind == "plain" else "it/s") in shown
    assert "inside of it" not in shown
    assert re.search(r"\r *\rthe end", shown), "something of the bar is left"
    assert said == "a line of results\n"


@pytest.mark.parametrize("kind", ["plain", pytest.param("tqdm", marks=pytest.mark.needs_tqdm)])
def test_the_knob_takes_it_away_and_puts_it_everywhere(kind: str) -> None:
    shown, _ = on_terminal(WORK, kind, "0", TILEWRIGHT_PROGRESS="0")
    assert shown.strip() == "the end"
    environment = {**os.environ, "TILEWRIGHT_PROGRESS": "1"}
    command = [sys.executable, "-c", WORK, kind, "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "sorting things" in done.stderr
    del environment["TILEWRIGHT_PROGRESS"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == "the end\n"


@pytest.mark.parametrize(
    ("work", "title"),
    [
        ("tuned[(1,)](x)", "trying tuned"),
        ("sleeping.run()", "measuring sleeping"),
        ("with tw.simulate('cuda:90'): filled[(256,)](x, 16)", "simulating filled"),
        pytest.param(
            "with ThreadPoolExecutor(1) as pool, tw.AsyncCompileMode(pool):\n"
            "    for k in (16, 32, 64): filled.warmup(x, k, grid=(1,))",
            "compiling kernels",
            marks=pytest.mark.spared,
        ),
    ],
)
def test_long_work_shows_a_bar(work: str, title: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"{LONG_WORK}{work}\n")
    code = f"import runpy; runpy.run_path({str(file)!r})"
    shown, _ = on_terminal(code, TRITON_CACHE_DIR=str(cache_without_kernels(tmp_path / "cache")))
    assert title in shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("short", 3) as bar:
        bar.at(2)
    assert stream.getvalue() == ""


def test_no_stream_and_a_failure_are_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("no stream", 3) as bar:
        bar.at(1)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with suppress(ZeroDivisionError), Progress("fails", 3) as bar:
        bar.at(1)
        raise ZeroDivisionError
    assert stream.getvalue().endswith("\r")
    with Progress("next", 0) as bar:
        bar.at(0)
    assert "next: 0 of 0" in stream.getvalue()


def test_a_child_of_a_fork_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("of the parent", 3) as bar:
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: -1)
            bar.at(1)
        assert stream.getvalue() == ""


WORKERS = """
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tilewright.support import progress
progress.DELAY = 0.0

def work(number):
    with progress.Progress("in a worker", 3) as bar:
        bar.at(1)
        time.sleep(0.2)
    return number

with ProcessPoolExecutor(2, get_context("fork")) as pool:
    assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
"""


@pytest.mark.spared
def test_workers_show_nothing() -> None:
    shown, _ = on_terminal(WORKERS)
    assert shown == ""
    shown, _ = on_terminal(WORKERS, TILEWRIGHT_PROGRESS="1")
    assert "in a worker" in shown


def test_time_left() -> None:
    stream = io.StringIO()
    Line(stream, "work", 40, elapsed=30.0).show(10)
    assert stream.getvalue() == "\rwork: 10 of 40 #####...............  1:30 left"
    assert [clock(seconds) for seconds in (0, 5.4, 65, 3723)] == ["0:00", "0:05", "1:05", "1:02:03"]


NOTEBOOK = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})


def test_notebooks_show_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = NOTEBOOK()
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("under a cell", 3) as bar:
        bar.at(1)
    assert "under a cell: 1 of 3" in stream.getvalue()
