"""Functions of Triton's own tests that run in a process of their own."""

from __future__ import annotations

import os
from pathlib import Path
from queue import SimpleQueue

import pytest

from tilewright.compat import internal_testing
from tilewright.compat.internal_testing import run_in_process

SETTING = "TILEWRIGHT_TEST_OF_A_PROCESS"


def fails(text: str, *, again: int) -> None:
    os.write(2, text.encode() * again)
    raise ValueError(f"{os.getpid()} {os.environ[SETTING]}")


def writes(text: str) -> None:
    os.write(2, text.encode())


def ends() -> None:
    os.write(2, b"last words")
    os._exit(3)


@pytest.mark.spared
def test_what_a_function_raises_and_writes_comes_back() -> None:
    done = run_in_process(fails, ("ab",), {"again": 2}, {SETTING: "is set"})
    assert isinstance(done.exc, ValueError)
    number, _, text = str(done.exc).partition(" ")
    assert number.isdigit()
    assert int(number) != os.getpid()
    assert (text, done.driver_stderr_output) == ("is set", "abab")
    assert SETTING not in os.environ
    done = run_in_process(writes, ("alone",))
    assert (done.exc, done.driver_stderr_output) == (None, "alone")


def test_the_other_process_sets_writes_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that the other process runs is called in this one."""
    monkeypatch.setenv(SETTING, "not set")
    log, results = tmp_path / "log", SimpleQueue[BaseException | None]()
    stderr = os.dup(2)
    try:
        internal_testing._call(fails, results, ("ab",), {"again": 2}, {SETTING: "is set"}, str(log))
        internal_testing._call(writes, results, ("alone",), {}, {}, f"{log}2")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
    assert (str(results.get()), results.get()) == (f"{os.getpid()} is set", None)
    assert (log.read_text(), Path(f"{log}2").read_text()) == ("abab", "alone")


@pytest.mark.spared
def test_a_process_that_ends_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_testing, "SECONDS_FOR_A_RESULT", 0.1)
    with pytest.raises(RuntimeError, match=r"the process ended with 3 and without a result\nlast words"):
        run_in_process(ends)
