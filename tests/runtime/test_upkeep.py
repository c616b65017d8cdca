"""The size of the cache folder: counting, eviction, the command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright.runtime.cache.managers import base32
from tilewright.runtime.cache.store import Entry, load, store
from tilewright.runtime.cache.upkeep import USAGE, clean, entries, evict, note_stored
from tilewright.tools.main import main

SIZE = 10_000


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TILEWRIGHT_CACHE_SIZE", raising=False)
    return tmp_path / "cache"


def digest(number: int) -> str:
    return f"{number:064x}"


def keep(number: int, hours_ago: float = 0) -> Path:
    """Store an entry that was used some hours ago; returns its folder."""
    group = store(digest(number), "k", Entry({"number": number}, {"image": bytes(SIZE)}))
    folder = Path(group["k.json"]).parent
    then = time.time() - 3600 * hours_ago
    for path in folder.iterdir():
        os.utime(path, (then, then))
    return folder


def numbers(root: Path) -> set[int]:
    return {number for number in range(100) if (root / base32(digest(number))).exists()}


def test_entries_are_measured(root: Path) -> None:
    folder = keep(1, hours_ago=5)
    (entry,) = entries(root)
    assert entry.folder == folder
    assert entry.size == sum(path.stat().st_size for path in folder.iterdir())
    assert time.time() - entry.used == pytest.approx(5 * 3600, abs=100)


def test_what_was_used_last_stays(root: Path) -> None:
    for number in range(10):
        keep(number, hours_ago=number)
    size = next(iter(entries(root))).size
    assert evict(root, 4 * size) == 6
    assert numbers(root) == {0, 1, 2, 3}
    assert not [path for path in root.iterdir() if path.name.startswith(".")]


def test_loading_counts_as_use(root: Path) -> None:
    for number in range(3):
        keep(number, hours_ago=2 + number)
    assert load(digest(2), "k") is not None
    evict(root, next(iter(entries(root))).size)
    assert numbers(root) == {2}


def test_storing_evicts_when_the_limit_is_passed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "100K")
    for number in range(40):
        keep(number, hours_ago=40 - number)
    found = numbers(root)
    assert found == set(range(min(found), 40)), "the oldest went"
    assert 3 <= len(found) <= 10
    assert sum(entry.size for entry in entries(root)) <= 110 * 1024


def test_no_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "0")
    for number in range(20):
        keep(number)
    assert len(numbers(root)) == 20


def test_the_count_is_cheap_and_about_right(root: Path) -> None:
    for number in range(5):
        keep(number)
    stored = sum(entry.size for entry in entries(root))
    assert (root / USAGE).stat().st_size * 1024 == pytest.approx(stored, abs=10 * 1024)


def test_a_lost_count_starts_with_what_is_there(root: Path) -> None:
    for number in range(5):
        keep(number)
    (root / USAGE).unlink()
    keep(5)
    assert (root / USAGE).stat().st_size * 1024 >= 5 * SIZE


def test_a_count_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    note_stored(tmp_path / "nowhere", 10)


def test_foreign_files_and_folders_stay(root: Path) -> None:
    keep(1)
    triton = root / base32("ab" * 32)
    triton.mkdir()
    (triton / "k.cubin").write_text("")
    (root / "mine").mkdir()
    (root / "notes.txt").write_text("")
    assert evict(root, 0) == 1
    assert main(["cache", "clear"]) == 0
    assert {path.name for path in root.iterdir()} == {triton.name, "mine", "notes.txt"}


def test_links_are_not_followed(root: Path, tmp_path: Path) -> None:
    keep(1)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("")
    (root / base32("cd" * 32)).symlink_to(tmp_path / "precious")
    evict(root, 0)
    main(["cache", "clear"])
    assert (tmp_path / "precious" / "file").exists()


def test_what_an_evicting_process_left_is_deleted(root: Path) -> None:
    keep(1).rename(root / ".removed-1-1")
    clean(root)
    assert not (root / ".removed-1-1").exists()


EVICTING = """
import sys
from tilewright.runtime.cache.store import Entry, load, store
begin = int(sys.argv[1])
for number in range(begin, begin + 60):
    store(f"{number:064x}", "k", Entry({"number": number}, {"image": bytes(10_000), "ttir": b"t"}))
    for other in range(begin, number):
        stored = load(f"{other:064x}", "k")
        try:
            assert stored is None or stored.facts["number"] == other and stored.read("image") == bytes(10_000)
        except OSError:
            pass  # gone meanwhile
"""


@pytest.mark.slow
def test_processes_evict_what_others_use(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody fails, warns, or sees half an entry."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "120K")
    command = [sys.executable, "-W", "error", "-c", EVICTING]
    processes = [subprocess.Popen([*command, str(100 * i)], stderr=subprocess.PIPE) for i in range(4)]
    assert [process.communicate(timeout=120)[1] for process in processes] == [b""] * 4
    assert [process.returncode for process in processes] == [0] * 4
    assert not [path for path in root.rglob("*") if "tmp" in path.name or "removed" in path.name]


def test_stats(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(1, hours_ago=50)
    keep(2, hours_ago=3)
    assert main(["cache", "stats"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"folder   {root}",
        "entries  2",
        "size     20.2 KiB of 1 GiB",
        "used     from 2 days to 3 hours ago",
    ]


def test_verify(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(1)
    damaged = keep(2)
    assert main(["cache", "verify"]) == 0
    assert capsys.readouterr().out == "2 entries, 0 damaged\n"
    (damaged / "k.image").write_bytes(b"")
    assert main(["cache", "verify"]) == 1
    out = capsys.readouterr().out
    assert out == f"{damaged.name}/k.image is damaged or missing\n2 entries, 1 damaged\n"
    assert main(["cache", "verify", "--delete"]) == 1
    assert main(["cache", "verify"]) == 0
    assert numbers(root) == {1}


def test_verify_sees_a_damaged_index(capsys: pytest.CaptureFixture[str]) -> None:
    index = keep(1) / "k.json"
    index.write_text(index.read_text().replace('"number": 1', '"number": 2'))
    assert main(["cache", "verify"]) == 1
    assert "k.json is damaged" in capsys.readouterr().out


def test_clear(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(1)
    keep(2)
    (root / "runtime-x86_64-0123456789abcdef.blob").write_text("")
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "2 entries deleted, 20.2 KiB\n"
    assert list(root.iterdir()) == []


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    for action in ("stats", "verify", "clear"):
        assert main(["cache", action]) == 0
        assert capsys.readouterr().out == f"{root}: not there\n"


def test_a_folder_of_everybody_is_not_touched(root: Path) -> None:
    keep(1)
    root.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="everybody"):
        assert main(["cache", "clear"]) == 1
    assert numbers(root) == {1}
