"""The disk cache: whole entries or none, whatever happens to the files; managers, and who may own the folder."""

from __future__ import annotations

import ast
import base64
import grp
import json
import os
import pwd
import stat
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tilewright import knobs
from tilewright.runtime.cache import folders
from tilewright.runtime.cache.folders import file_stem, is_trusted, make_private, remove_leftovers, write_whole
from tilewright.runtime.cache.managers import (
    USED_STEP,
    CacheManager,
    FileCacheManager,
    base32,
    get_cache_manager,
    get_dump_manager,
    get_override_manager,
)
from tilewright.runtime.cache.store import Entry, damages, load, store
from tilewright.support import knob_kinds
from tilewright.support.system import posix

pytestmark = pytest.mark.filterwarnings("ignore:.* is damaged:RuntimeWarning")

DIGEST = "d" * 64
ENTRY = Entry({"name": "add", "scratch_bytes": 64}, {"ttir": b"module {}", "image": bytes(range(256))})


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, which is not there yet."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(folders, "_warned", set())
    return tmp_path / "cache"


@pytest.fixture
def folder(root: Path) -> Path:
    """The folder of an entry."""
    store(DIGEST, "add", ENTRY)
    return root / base32(DIGEST)


def test_what_is_stored_can_be_loaded(folder: Path) -> None:
    stored = load(DIGEST, "add")
    assert stored is not None
    assert stored.facts == ENTRY.facts
    assert {suffix: stored.read(suffix) for suffix in stored.suffixes} == ENTRY.files
    assert stored.group == {name: str(folder / name) for name in ("add.ttir", "add.image", "add.json")}


def test_absent(folder: Path) -> None:
    assert load("e" * 64, "add") is None
    assert load(DIGEST, "sub") is None


def test_folders_and_files_are_private(root: Path, folder: Path) -> None:
    assert [stat.S_IMODE(path.stat().st_mode) for path in (root, folder)] == [0o700, 0o700]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_layout_is_tritons(root: Path, folder: Path) -> None:
    """The folder has the key's name in base 32; a note says which files belong together."""
    assert folder.name == base64.b32encode(bytes.fromhex(DIGEST)).decode().rstrip("=")
    assert sorted(path.name for path in folder.iterdir()) == ["__grp__add.json", "add.image", "add.json", "add.ttir"]
    assert get_cache_manager(DIGEST).get_group("add.json") == {
        name: str(folder / name) for name in ("add.ttir", "add.image", "add.json")
    }


def test_a_cache_folder_may_be_moved(root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = root.rename(root.with_name("moved"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(moved))
    stored = load(DIGEST, "add")
    assert stored is not None
    assert stored.read("image") == ENTRY.files["image"]
    assert get_cache_manager(DIGEST).get_group("add.json") is not None


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(knob_kinds, "_started_in", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", "here")
    store(DIGEST, "add", ENTRY)
    stored = load(DIGEST, "add")
    monkeypatch.chdir("/")
    assert stored is not None
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert stored.read("image") == ENTRY.files["image"]


@pytest.mark.quick
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"digest": "x", "entry": {}}'])
def test_damaged_index_counts_as_absent(folder: Path, content: bytes) -> None:
    (folder / "add.json").write_bytes(content)
    assert load(DIGEST, "add") is None


def test_every_flipped_byte_of_the_index_is_noticed(folder: Path) -> None:
    index = folder / "add.json"
    text = index.read_bytes()
    with index.open("r+b", buffering=0) as file:  # written in place: a file that is cut goes to the disk each time
        for position, byte in enumerate(text):
            file.seek(position)
            file.write(bytes([byte ^ 1]))
            assert load(DIGEST, "add") is None, f"byte {position}"
            file.seek(position)
            file.write(bytes([byte]))
    assert load(DIGEST, "add") is not None


def test_changed_fact_is_noticed(folder: Path) -> None:
    facts = json.loads((folder / "add.json").read_text())
    assert facts["scratch_bytes"] == 64, "the file has the metadata as they are, as Triton's has"
    (folder / "add.json").write_text(json.dumps({**facts, "scratch_bytes": 0}))
    assert load(DIGEST, "add") is None


@pytest.mark.quick
@pytest.mark.parametrize("content", [b"", bytes(255), bytes(range(255)) + b"\0"])
def test_damaged_file_is_an_error(folder: Path, content: bytes) -> None:
    (folder / "add.image").write_bytes(content)
    stored = load(DIGEST, "add")
    assert stored is not None
    with pytest.raises(OSError, match="damaged"):
        stored.read("image")
    assert stored.read("ttir") == ENTRY.files["ttir"]
    assert list(damages(folder)) == ["add.image is damaged or missing"]


def test_storing_again_mends(folder: Path) -> None:
    (folder / "add.image").write_bytes(b"")
    store(DIGEST, "add", ENTRY)
    stored = load(DIGEST, "add")
    assert stored is not None
    assert stored.read("image") == ENTRY.files["image"]
    assert list(damages(folder)) == []


def test_folder_that_cannot_be_made_warns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="TRITON_CACHE_DIR"):
        assert store(DIGEST, "add", ENTRY) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store(DIGEST, "add", ENTRY)
        assert load(DIGEST, "add") is None


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    with pytest.raises(OSError):
        write_whole(folder, b"a folder stands where the file should be")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_with_the_same_content_is_left_alone(tmp_path: Path, root: Path) -> None:
    manager = FileCacheManager("KEY")
    path = Path(manager.put(b"content", "add.image"))
    first = path.stat().st_ino
    os.utime(path, (0, 0))
    manager.put(b"content", "add.image")
    assert path.stat().st_ino == first
    assert time.time() - path.stat().st_mtime < 60, "the entry is in use again"


@pytest.mark.quick
@pytest.mark.parametrize("other", [b"conten", b"contents", b"CONTENT", b""])
def test_a_file_with_other_content_is_replaced(other: bytes, root: Path) -> None:
    manager = FileCacheManager("KEY")
    manager.put(other, "add.image")
    assert Path(manager.put(b"content", "add.image")).read_bytes() == b"content"


def test_a_link_to_the_same_content_is_replaced(tmp_path: Path, root: Path) -> None:
    """Else others could change the content afterwards."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"content")
    manager = FileCacheManager("KEY")
    path = Path(manager.put(b"content", "add.image"))
    path.unlink()
    path.symlink_to(elsewhere)
    manager.put(b"content", "add.image")
    assert not path.is_symlink()


def test_leftovers_of_processes_that_ended_are_removed(tmp_path: Path) -> None:
    gone = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(gone, 0)
    names = [f"add.image.{gone}.0.tmp", f"add.image.{os.getpid()}.0.tmp", "notes.tmp", "add.image"]
    for name in names:
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])


def test_leftovers_do_not_depend_on_process_numbers(tmp_path: Path) -> None:
    """Every process may have number 1, as in containers."""
    old = tmp_path / f"add.image.{os.getpid()}.0.tmp"
    old.write_text("")
    os.utime(old, (time.time() - 2 * folders.PATIENCE,) * 2)
    remove_leftovers(tmp_path)
    assert not old.exists()


def test_storing_again_removes_leftovers(folder: Path) -> None:
    gone = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(gone, 0)
    (folder / f"add.image.{gone}.7.tmp").write_text("")
    store(DIGEST, "add", ENTRY)
    assert [path.name for path in folder.iterdir() if "tmp" in path.name] == []


@pytest.mark.quick
@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "x" * 300, "ä" * 300, "kernel<int>", "a\0b"])
def test_names_stay_in_the_folder(name: str, root: Path) -> None:
    stem = file_stem(name)
    assert len(stem.encode()) <= 100
    assert not {"/", "\0", "."} & set(stem)
    store(DIGEST, name, ENTRY)
    assert load(DIGEST, name) is not None
    assert [path.name for path in root.parent.iterdir()] == ["cache"]


@pytest.mark.quick
@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "", "a\0b", "/etc/passwd"])
def test_managers_refuse_names_that_lead_elsewhere(name: str) -> None:
    manager = FileCacheManager("KEY")
    with pytest.raises(ValueError, match="not the name"):
        manager.put(b"", name)
    with pytest.raises(ValueError, match="not the name"):
        manager.get_file(name)
    with pytest.raises(ValueError, match="not the name"):
        FileCacheManager(name)


# Who may own the folder


def refused(root: Path, reason: str) -> None:
    """Nothing is loaded from `root` nor stored there, and that is said once."""
    with pytest.warns(RuntimeWarning, match=reason):
        assert load(DIGEST, "add") is None
    before = sorted(root.rglob("*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store(DIGEST, "add", ENTRY) == {}
        assert load(DIGEST, "add") is None
    assert sorted(root.rglob("*")) == before


def test_a_folder_that_everybody_may_write_to_is_not_used(root: Path, folder: Path) -> None:
    root.chmod(0o777)
    refused(root, "everybody may write to it")


def test_a_folder_that_a_group_may_write_to_is_not_used(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posix, "is_own_group", lambda number: False)
    root.chmod(0o770)
    refused(root, f"group {root.stat().st_gid} may write to it")
    assert stat.S_IMODE(root.stat().st_mode) == 0o770, "nothing is done to it"


def test_a_group_of_ours_alone_loses_the_right_to_write(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posix, "is_own_group", lambda number: True)
    root.chmod(0o775)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(DIGEST, "add") is not None
        store(DIGEST, "add", ENTRY)
    assert stat.S_IMODE(root.stat().st_mode) == 0o755


@pytest.mark.quick
@pytest.mark.parametrize(
    ("group", "is_ours"),
    [
        (("me", 7, ["me"]), True),
        (("me", 7, []), True),
        (("me", 8, []), False),
        (("staff", 7, []), False),
        (("me", 7, ["me", "you"]), False),
        (None, False),
    ],
)
def test_whose_a_group_is(group: Any, is_ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda user: SimpleNamespace(pw_name="me", pw_gid=7))
    known = {group[1]: SimpleNamespace(gr_name=group[0], gr_mem=group[2])} if group else {}
    monkeypatch.setattr(grp, "getgrgid", known.__getitem__)
    assert posix.is_own_group(group[1] if group else 7) is is_ours


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_used(root: Path, folder: Path) -> None:
    os.chown(root, 12345, 12345)
    refused(root, "belongs to user 12345")


def test_a_folder_of_somebody_else_is_not_used_by_others_either(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = root.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    refused(root, f"belongs to user {owner}, not to {owner + 1}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_somebody_else_is_not_followed(root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = root.with_name("link")
    link.symlink_to(root)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(link))
    assert load(DIGEST, "add") is not None, "a link of ours is"
    os.chown(link, 12345, 12345, follow_symlinks=False)
    refused(link, "a link that belongs to user 12345")


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(os, "urandom", bytes)
    (tmp_path / f"add.{os.getpid()}.00000000.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "add", b"content")
    assert victim.read_text() == "precious"


def test_a_link_in_the_place_of_a_file_is_replaced(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "add.image").unlink()
    (folder / "add.image").symlink_to(victim)
    stored = load(DIGEST, "add")
    assert stored is not None
    with pytest.raises(OSError, match="damaged"):
        stored.read("image")
    store(DIGEST, "add", ENTRY)
    assert victim.read_text() == "precious"
    assert not (folder / "add.image").is_symlink()


def test_a_file_is_no_folder(root: Path) -> None:
    root.write_text("")
    with pytest.warns(RuntimeWarning, match="not a folder"):
        assert not is_trusted(root)


# Managers


def test_a_group_is_there_only_with_all_its_files(tmp_path: Path) -> None:
    manager = FileCacheManager("KEY")
    paths = {name: manager.put(name, name, binary=False) for name in ("k.json", "k.obj")}
    outside = tmp_path / "outside"
    outside.write_text("")
    manager.put_group("k.json", {**paths, "outside": str(outside)})
    assert manager.get_group("k.json") == {**paths, "outside": str(outside)}
    assert manager.has_file("k.obj")
    outside.unlink()
    assert manager.get_group("k.json") is None
    assert manager.get_group("other.json") is None


@pytest.mark.quick
@pytest.mark.parametrize("note", ["", "{", "[]", "{}", '{"child_paths": 3}', '{"child_paths": {"a": 3}}'])
def test_damaged_group_counts_as_absent(note: str) -> None:
    manager = FileCacheManager("KEY")
    Path(manager.put_group("k.json", {})).write_text(note)
    assert manager.get_group("k.json") is None


def test_dump_and_override_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_HOME", str(tmp_path))
    assert get_dump_manager(DIGEST).put("text", "add.ttir") == f"{tmp_path}/.tilewright/dump/{base32(DIGEST)}/add.ttir"
    assert get_override_manager(DIGEST).get_file("add.ttir") is None
    path = get_override_manager(DIGEST).put("text", "add.ttir")
    assert path == f"{tmp_path}/.tilewright/override/{base32(DIGEST)}/add.ttir"
    assert get_override_manager(DIGEST).get_file("add.ttir") == path


@pytest.mark.quick
@pytest.mark.parametrize("key", ["00", "ff" * 32, "0123456789abcdef", "a" * 10])
def test_base32(key: str) -> None:
    assert base32(key) == base64.b32encode(bytes.fromhex(key)).decode().rstrip("=")


def test_use_is_noted_once_an_hour(folder: Path) -> None:
    long_ago = time.time() - 10 * USED_STEP
    os.utime(folder / "add.json", (long_ago, long_ago))
    load(DIGEST, "add")
    first = (folder / "add.json").stat().st_mtime
    assert first > time.time() - 60
    load(DIGEST, "add")
    assert (folder / "add.json").stat().st_mtime == first


class InMemory(CacheManager):
    """A manager of a user: files in memory, with paths only while somebody asks."""

    kept: ClassVar[dict[tuple[str, str], bytes]] = {}
    folder = Path()

    def get_file(self, filename: str) -> str | None:
        if (self.key, filename) not in self.kept:
            return None
        path = self.folder / filename
        path.write_bytes(self.kept[self.key, filename])
        return str(path)

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        self.kept[self.key, filename] = data if isinstance(data, bytes) else data.encode()
        return filename

    def get_group(self, filename: str) -> dict[str, str] | None:
        return None

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        return self.put(json.dumps(dict(group)), f"group of {filename}")


@pytest.fixture
def in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[InMemory]]:
    monkeypatch.setattr(InMemory, "kept", {})
    monkeypatch.setattr(InMemory, "folder", tmp_path)
    with knobs.cache.scope():
        knobs.cache.manager_class = InMemory
        yield InMemory


def test_kernels_are_kept_by_the_manager_of_the_user(in_memory: type[InMemory], root: Path) -> None:
    store(DIGEST, "add", ENTRY)
    assert {name for _, name in in_memory.kept} == {"add.ttir", "add.image", "add.json", "group of add.json"}
    stored = load(DIGEST, "add")
    assert stored is not None
    assert stored.read("image") == ENTRY.files["image"]
    assert not root.exists()


def test_manager_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "tilewright.runtime.cache.managers:FileCacheManager")
    assert type(get_cache_manager(DIGEST)) is FileCacheManager
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "tilewright.runtime.cache.store:Entry")
    with pytest.raises(knobs.KnobError, match="CacheManager"):
        get_cache_manager(DIGEST)


def test_nothing_is_unpickled_or_evaluated() -> None:
    forbidden = {"pickle", "marshal", "shelve", "eval", "exec", "compile", "__import__", "import_module"}
    for path in Path(folders.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            assert not forbidden & {*names, getattr(node, "id", ""), getattr(node, "module", "")}, path


def test_folders_round_a_private_one_are_made(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two" / "cache"
    for _ in range(2):
        make_private(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
