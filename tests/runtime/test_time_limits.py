"""Alarms that raise TimeoutError, an OSError: they reach whoever set them, also where the runtime waits for others."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from tilewright.backends.llvm import nvptx
from tilewright.backends.nvidia.ptxas import assemble
from tilewright.runtime import lazy_imports, self_test
from tilewright.runtime.cache.claims import Claim
from tilewright.runtime.drivers.cpu import process
from tilewright.support.nvidia_tools import NvidiaTool
from tilewright.support.system import SYSTEM

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no alarms")
TIMER, SIGNAL = getattr(signal, "ITIMER_REAL", 0), getattr(signal, "SIGALRM", 0)


def too_slow(*_: object) -> None:
    raise TimeoutError("too slow")


@contextmanager
def ended_by_an_alarm() -> Iterator[None]:
    before = signal.signal(SIGNAL, too_slow)
    signal.setitimer(TIMER, 0.1)
    try:
        with pytest.raises(TimeoutError, match="too slow"):
            yield
    finally:
        signal.setitimer(TIMER, 0)
        signal.signal(SIGNAL, before)


@pytest.fixture
def sleeper(tmp_path: Path) -> str:
    """A program that takes a minute."""
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    program.chmod(0o700)
    return str(program)


def test_the_assembler(sleeper: str) -> None:
    with ended_by_an_alarm():
        assemble("", "sm_90", ptxas=sleeper)


def test_asking_a_tool_for_its_version(sleeper: str) -> None:
    with ended_by_an_alarm():
        NvidiaTool.from_path(sleeper)


def test_the_self_test(sleeper: str) -> None:
    with patch.object(self_test, "COMMAND", (sleeper,)), ended_by_an_alarm():
        self_test._reason()


def test_waiting_until_another_process_has_compiled(tmp_path: Path) -> None:
    """Nothing stays open: the claim that was waited for is had as soon as it is free."""
    with patch.object(type(SYSTEM), "try_lock", lambda *_: False), ended_by_an_alarm(), Claim(tmp_path, "K"):
        pass
    with Claim(tmp_path, "K") as free:
        assert free._is_held
    assert list(tmp_path.iterdir()) == []


def test_waiting_for_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = nvptx._Worker()
    monkeypatch.setattr(nvptx.marshal, "dumps", lambda _: b"")  # a request that never comes is never answered
    try:
        with ended_by_an_alarm():
            worker.ask(())
    finally:
        worker.end()


def test_compiling_the_launcher() -> None:
    with (
        patch.object(lazy_imports, "_imported", lambda *_: too_slow()),
        pytest.raises(TimeoutError, match="too slow"),
    ):
        lazy_imports.native_blob("module", "text", "x86-64")
    with patch.object(process, "runtime_blob", too_slow), pytest.raises(TimeoutError, match="too slow"):
        process._set_up.__wrapped__()
