"""The system that this is, whichever: what Tilewright asks of it, and what it answers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tilewright.support.system import SYSTEM, architecture

RETURNS_7 = {"x86-64": bytes.fromhex("b807000000 c3"), "aarch64": bytes.fromhex("e0008052 c0035fd6")}
HOLDS_A_LOCK = """
import os, sys
from tilewright.support.system import SYSTEM
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | SYSTEM.open_flags)
print(SYSTEM.try_lock(file), flush=True)
sys.stdin.read(1)
"""


def test_code_runs_and_is_gone_afterwards() -> None:
    image = RETURNS_7[architecture()] + bytes(10_000)
    address = SYSTEM.map_code(image)
    assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == 7
    assert ctypes.string_at(address, len(image)) == image
    SYSTEM.unmap_code(address, len(image))
    assert SYSTEM.read_memory(address, 16) is None


def test_memory_is_zeroed_and_stays() -> None:
    address = SYSTEM.allocate(10_000)
    assert address % 4096 == 0
    assert ctypes.string_at(address, 10_000) == bytes(10_000)
    ctypes.memset(address, 1, 10_000)
    assert SYSTEM.read_memory(address + 9_990, 10) == b"\1" * 10


def test_too_much_memory_is_an_error() -> None:
    with pytest.raises(OSError, match="no memory for the runtime"):
        SYSTEM.allocate(1 << 60)


def test_reserved_memory_is_zero_where_it_is_read_and_keeps_what_is_written() -> None:
    content = np.frombuffer(SYSTEM.reserve(1 << 30), np.uint8)
    content[-1] = 3
    assert (content.size, content[0], content[-1]) == (1 << 30, 0, 3)


def test_functions_are_found_by_name() -> None:
    length = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p)(SYSTEM.function("strlen"))
    assert length(b"four") == 4
    with pytest.raises(ValueError, match="no_such_function"):
        SYSTEM.function("no_such_function")


def test_each_thread_has_its_own_word() -> None:
    key = SYSTEM.new_thread_key()
    assert key != SYSTEM.new_thread_key()
    threads = [threading.Thread(target=SYSTEM.set_thread_word, args=(key, word)) for word in (1, 2)]
    for thread in threads:
        thread.start()
        thread.join()


def test_there_is_a_processor() -> None:
    assert 1 <= SYSTEM.usable_cpus() <= (os.cpu_count() or 1)


def test_processes_run_until_they_end() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert SYSTEM.is_running(child.pid)
    child.communicate(b"\n")
    assert SYSTEM.is_running(os.getpid())
    assert not SYSTEM.is_running(2**22 - 4)


def test_a_lock_is_held_by_one_process_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "locked"
    command = [sys.executable, "-c", HOLDS_A_LOCK, str(path)]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "True\n"
    file = os.open(path, os.O_RDWR | SYSTEM.open_flags)
    try:
        assert not SYSTEM.try_lock(file)
        SYSTEM.write_at(file, b"a\nb", 0)
        assert SYSTEM.read_at(file, 10, 1) == b"\nb", "it keeps nobody from reading or writing, and no line end changes"
        first.communicate("x")
        assert SYSTEM.try_lock(file)
    finally:
        os.close(file)


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    file = os.open(tmp_path / "locked", os.O_RDWR | os.O_CREAT | SYSTEM.open_flags)
    SYSTEM.lock(file)
    os.close(file)


def test_folders_of_ours_are_trusted(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir(mode=0o700)
    assert SYSTEM.problem_of(tmp_path / "ours") is None
    SYSTEM.make_private(tmp_path / "ours")
    assert SYSTEM.problem_of(tmp_path / "ours") is None
    (tmp_path / "file").touch()
    assert SYSTEM.problem_of(tmp_path / "file") == "it is not a folder"
    with pytest.raises(FileNotFoundError):
        SYSTEM.problem_of(tmp_path / "absent")


def test_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    SYSTEM.replace(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"
    assert not (tmp_path / "new").exists()


def test_facts_of_files_leave_no_file_open(tmp_path: Path) -> None:
    numbers = []
    for _ in range(2):
        opened = os.open(__file__, os.O_RDONLY)
        os.close(opened)
        numbers.append(opened)
        SYSTEM.facts_of_files(str(tmp_path), ".py")
    assert numbers[0] == numbers[1]


def test_facts_of_files_are_those_of_stat(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "note.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    found = SYSTEM.facts_of_files(str(tmp_path), ".py")
    assert [name for name, _ in found] == ["a.py", "b.py", "folder", "note.txt"]
    assert [facts and facts.st_mtime_ns for _, facts in found][:2] == [
        (tmp_path / name).stat().st_mtime_ns for name in ("a.py", "b.py")
    ]
    assert [facts for _, facts in found][2:] == [None, None]
