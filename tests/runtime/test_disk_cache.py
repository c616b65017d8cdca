"""The disk cache: whole entries or none, whatever happens to the files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tilewright.runtime.cache import DiskCache, Entry, file_stem, write_whole

DIGEST = "d" * 64
ENTRY = Entry({"name": "add", "scratch_bytes": 64}, {"ttir": b"module {}", "image": bytes(range(256))})


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    found = DiskCache(tmp_path / "cache")
    found.store(DIGEST, "add", ENTRY)
    return found


def test_what_is_stored_can_be_loaded(cache: DiskCache) -> None:
    stored = cache.load(DIGEST, "add")
    assert stored is not None
    assert stored.facts == ENTRY.facts
    assert {suffix: stored.read(suffix) for suffix in stored.suffixes} == ENTRY.files


def test_absent(cache: DiskCache) -> None:
    assert cache.load("e" * 64, "add") is None
    assert cache.load(DIGEST, "sub") is None


def test_folders_are_private(cache: DiskCache) -> None:
    for folder in (cache.root, cache.root / DIGEST):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_no_temporary_files_stay(cache: DiskCache) -> None:
    names = sorted(path.name for path in (cache.root / DIGEST).iterdir())
    assert names == ["add.image", "add.json", "add.ttir"]


def index(cache: DiskCache) -> Path:
    return cache.root / DIGEST / "add.json"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"digest": "x", "entry": {}}'])
def test_damaged_index_counts_as_absent(cache: DiskCache, content: bytes) -> None:
    index(cache).write_bytes(content)
    assert cache.load(DIGEST, "add") is None


def test_every_flipped_byte_of_the_index_is_noticed(cache: DiskCache) -> None:
    text = index(cache).read_bytes()
    for position in range(len(text)):
        changed = bytearray(text)
        changed[position] ^= 1
        index(cache).write_bytes(changed)
        found = cache.load(DIGEST, "add")
        assert found is None or found.facts == ENTRY.facts, f"byte {position}"


def test_changed_fact_is_noticed(cache: DiskCache) -> None:
    body = json.loads(index(cache).read_text())
    body["entry"]["facts"]["scratch_bytes"] = 0
    index(cache).write_text(json.dumps(body))
    assert cache.load(DIGEST, "add") is None


@pytest.mark.parametrize("content", [b"", bytes(255), bytes(range(255)) + b"\0"])
def test_damaged_file_is_an_error(cache: DiskCache, content: bytes) -> None:
    (cache.root / DIGEST / "add.image").write_bytes(content)
    stored = cache.load(DIGEST, "add")
    assert stored is not None
    with pytest.raises(OSError, match="damaged"):
        stored.read("image")
    assert stored.read("ttir") == ENTRY.files["ttir"]


def test_storing_again_mends(cache: DiskCache) -> None:
    (cache.root / DIGEST / "add.image").write_bytes(b"")
    cache.store(DIGEST, "add", ENTRY)
    stored = cache.load(DIGEST, "add")
    assert stored is not None
    assert stored.read("image") == ENTRY.files["image"]


def test_folder_that_cannot_be_made_warns_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="TRITON_CACHE_DIR"):
        cache.store(DIGEST, "add", ENTRY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store(DIGEST, "add", ENTRY)
        assert cache.load(DIGEST, "add") is None


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    with pytest.raises(OSError):
        write_whole(folder, b"a folder stands where the file should be")
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "x" * 300, "kernel<int>", "a\0b"])
def test_names_stay_in_the_folder(name: str, tmp_path: Path) -> None:
    stem = file_stem(name)
    assert len(stem) <= 100
    assert (tmp_path / f"{stem}.json").parent == tmp_path
    assert not {"/", "\0", "."} & set(stem)


@pytest.mark.slow
def test_writers_that_are_killed_never_leave_a_wrong_entry(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tilewright.runtime.cache import DiskCache, Entry\n"
        "cache = DiskCache(Path(sys.argv[1]))\n"
        "print(flush=True)\n"
        "while True: cache.store('d' * 64, 'add', Entry({'n': 1}, {'image': bytes(100_000)}))\n"
    )
    cache = DiskCache(tmp_path)
    for _ in range(20):
        writer = subprocess.Popen([sys.executable, "-c", program, os.fspath(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.kill()
        writer.wait()
        stored = cache.load(DIGEST, "add")
        assert stored is None or stored.read("image") == bytes(100_000)
