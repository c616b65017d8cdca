"""Sharing work out over processes."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

from tilewright.runtime.tuning import forked


def marks(folder: Path, count: int, *, meet: bool = False) -> list[forked.Task]:
    """Tasks that write who ran them; if they `meet`, all but the first wait until another process has written."""

    def has_met() -> bool:
        return any(path.read_text() not in ("", f"{os.getpid()}\n") for path in folder.iterdir())

    def task(index: int) -> forked.Task:
        def run() -> None:
            deadline = time.monotonic() + 60
            while meet and index and not has_met() and time.monotonic() < deadline:
                time.sleep(0.01)
            with (folder / str(index)).open("a") as file:
                file.write(f"{os.getpid()}\n")

        return run

    return [task(index) for index in range(count)]


def ran(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.iterdir(), key=lambda path: int(path.name))]


def children() -> set[int]:
    """The processes whose parent this one is, zombies too; others of its tests may have left some."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # processes come and go
            facts = stat.read_text().rpartition(")")[2].split()
            if int(facts[1]) == os.getpid():
                found.add(int(stat.parent.name))
    return found


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_task_runs_once(tmp_path: Path, workers: int) -> None:
    began: list[int] = []
    forked.share_out(marks(tmp_path, 20, meet=workers > 1), workers, began.append)
    found = ran(tmp_path)
    assert len(found) == 20
    assert all(text.count("\n") == 1 for text in found)
    assert min(workers, 2) <= len(set(found)) <= workers  # on a busy machine, not every helper gets a task
    assert began == sorted(began)


def test_the_first_task_runs_here_and_one_runs_beside(tmp_path: Path) -> None:
    *tasks, beside = marks(tmp_path, 9)
    set_up: list[int] = []
    seen = tmp_path / "8.seen"
    tasks[0] = lambda: set_up.append(1)
    tasks += [lambda: seen.write_text(f"{set_up}")]
    forked.share_out(tasks, 3, lambda _: None, beside=beside)
    assert set_up == [1]
    assert seen.read_text() == "[1]"
    assert (tmp_path / "8").read_text() != f"{os.getpid()}\n"


def test_failures_stop_nobody(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("no")

    forked.share_out([fail, *marks(tmp_path, 6), fail], 2, lambda _: None)
    assert len(ran(tmp_path)) == 6


def test_a_helper_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "_PATIENCE", 0.05)
    here = os.getpid()

    def hang_elsewhere() -> None:
        if os.getpid() != here:
            time.sleep(60)
        time.sleep(0.02)

    begin, before = time.monotonic(), children()
    forked.share_out([hang_elsewhere] * 10, 3, lambda _: None)
    assert time.monotonic() - begin < 20
    assert children() <= before


def test_helpers_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    here = os.getpid()

    def speak() -> None:
        time.sleep(0.02)
        if os.getpid() != here:
            os.write(1, b"out")
            os.write(2, b"err")

    forked.share_out([speak] * 8, 2, lambda _: None)
    assert capfd.readouterr() == ("", "")
