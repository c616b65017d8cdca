"""The remote cache: with a real Redis where there is one, with backends and servers that misbehave in every way."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fresh_caches import cache_without_kernels
from tilewright import knobs
from tilewright.runtime.cache import folders, redis, remote
from tilewright.runtime.cache.managers import FileCacheManager, base32
from tilewright.runtime.cache.redis import RedisRemoteCacheBackend
from tilewright.runtime.cache.remote import RemoteCacheBackend, RemoteCacheManager
from tilewright.runtime.cache.store import Entry, load, store

pytestmark = pytest.mark.filterwarnings("ignore:.* is damaged:RuntimeWarning")

DIGEST = "d" * 64
KEY = base32(DIGEST)
ENTRY = Entry({"name": "add"}, {"ttir": b"module {}", "image": bytes(range(256)) * 500})


class Shared(RemoteCacheBackend):
    """Files in a dictionary, which all machines of a test share."""

    files: dict[str, bytes]

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        return {name: self.files[f"{self.key}/{name}"] for name in filenames if f"{self.key}/{name}" in self.files}

    def put(self, filename: str, data: bytes) -> None:
        self.files[f"{self.key}/{filename}"] = data


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that has seen no failure, with an empty cache and an empty backend, and as slow as it may be."""
    monkeypatch.setattr(remote, "SLOW", remote.PATIENCE)
    monkeypatch.setattr(remote, "_paused_until", {})
    monkeypatch.setattr(folders, "_warned", set())
    monkeypatch.setattr(Shared, "files", {}, raising=False)
    with knobs.cache.scope(), knobs.redis.scope(), knobs.tilewright.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        knobs.cache.manager_class = RemoteCacheManager
        knobs.cache.remote_manager_class = Shared
        yield


def another_machine(tmp_path: Path) -> None:
    """Let the local cache be another one, which is empty."""
    knobs.cache.dir = str(tmp_path / "another")


def content() -> bytes | None:
    """The code of the kernel, as the cache has it."""
    stored = load(DIGEST, "add")
    try:
        return stored.read("image") if stored else None
    except OSError:
        return None


def test_what_one_machine_compiles_another_loads(tmp_path: Path) -> None:
    store(DIGEST, "add", ENTRY)
    another_machine(tmp_path)
    stored = load(DIGEST, "add")
    assert stored is not None
    assert {suffix: stored.read(suffix) for suffix in stored.suffixes} == ENTRY.files
    assert (tmp_path / "another" / KEY / "add.image").exists()


def test_only_what_is_needed_is_fetched(tmp_path: Path) -> None:
    store(DIGEST, "add", ENTRY)
    another_machine(tmp_path)
    content()
    assert sorted(path.name for path in (tmp_path / "another" / KEY).iterdir()) == ["add.image", "add.json"]


def test_groups(tmp_path: Path) -> None:
    store(DIGEST, "add", ENTRY)
    another_machine(tmp_path)
    names = {"add.ttir", "add.image", "add.json"}
    folder = tmp_path / "another" / KEY
    assert RemoteCacheManager(KEY).get_group("add.json") == {name: str(folder / name) for name in names}
    del Shared.files[f"{KEY}/add.ttir"]
    assert RemoteCacheManager(KEY).get_group("add.json") is None


BAD_NAMES = (b"3", b"[3]", b'["../x"]')


@pytest.mark.quick
@pytest.mark.parametrize("note", [b"", b"[]", b"[" * 100_000, *(b'{"child_paths": %s}' % names for names in BAD_NAMES)])
def test_damaged_group(note: bytes) -> None:
    Shared.files = {f"{KEY}/__grp__add.json": note, f"{KEY}/../x": b"evil"}
    assert RemoteCacheManager(KEY).get_group("add.json") is None


def test_dumps_and_overrides_stay_here(tmp_path: Path) -> None:
    knobs.cache.dump_dir = str(tmp_path / "dump")
    RemoteCacheManager(KEY, dump=True).put(b"text", "add.ttir")
    assert (tmp_path / "dump" / KEY / "add.ttir").read_bytes() == b"text"
    assert Shared.files == {}


def test_no_backend() -> None:
    knobs.cache.remote_manager_class = None
    with pytest.raises(RuntimeError, match="TRITON_REMOTE_CACHE_BACKEND"):
        RemoteCacheManager(KEY)


# Damage and malice


@pytest.mark.quick
@pytest.mark.parametrize("name", ["add.json", "add.image"])
@pytest.mark.parametrize("garbage", [b"", b"garbage", bytes(1000), "text", None, 3])
def test_garbage_is_not_loaded_and_replaced(name: str, garbage: object, tmp_path: Path) -> None:
    store(DIGEST, "add", ENTRY)
    Shared.files[f"{KEY}/{name}"] = garbage
    another_machine(tmp_path)
    assert content() is None
    store(DIGEST, "add", ENTRY)
    assert content() == ENTRY.files["image"]


def test_signed_entries_need_the_key(tmp_path: Path) -> None:
    knobs.tilewright.cache_key = "secret"
    store(DIGEST, "add", ENTRY)
    another_machine(tmp_path)
    for wrong in ("other", "secret ", None):
        knobs.tilewright.cache_key = wrong
        assert content() is None
    knobs.tilewright.cache_key = "secret"
    assert content() == ENTRY.files["image"]
    assert b"secret" not in b"".join(Shared.files.values())


def test_unsigned_entries_are_refused_by_who_has_a_key(tmp_path: Path) -> None:
    store(DIGEST, "add", ENTRY)
    another_machine(tmp_path)
    knobs.tilewright.cache_key = "secret"
    assert content() is None
    assert RemoteCacheManager(KEY).get_group("add.json") is None


def test_a_signature_holds_for_one_name_and_content(tmp_path: Path) -> None:
    knobs.tilewright.cache_key = "secret"
    store(DIGEST, "add", ENTRY)
    store("e" * 64, "add", ENTRY._replace(facts={"name": "evil"}))
    another_machine(tmp_path)
    good = dict(Shared.files)
    Shared.files[f"{KEY}/add.json"] = good[f"{base32('e' * 64)}/add.json"]
    assert load(DIGEST, "add") is None
    for position in (0, 30, 60, -1):
        changed = bytearray(good[f"{KEY}/add.json"])
        changed[position] ^= 1
        Shared.files[f"{KEY}/add.json"] = bytes(changed)
        assert load(DIGEST, "add") is None, position
    Shared.files = good
    assert load(DIGEST, "add") is not None


# Backends that fail


class Failing(RemoteCacheBackend):
    """Counts how often it is tried."""

    tried = 0

    def __init__(self, key: str) -> None:
        type(self).tried += 1
        raise LookupError("no such host")


def test_a_backend_that_fails_is_left_alone_and_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "tried", 0)
    knobs.cache.remote_manager_class = Failing
    with pytest.warns(RuntimeWarning, match="remote cache Failing failed .LookupError: no such host"):
        assert load("a" * 64, "add") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            store(DIGEST, "add", ENTRY)
            assert content() == ENTRY.files["image"], "from the local copy"
    assert Failing.tried == 1
    monkeypatch.setattr(remote, "_paused_until", {Failing: time.monotonic() - 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert content() == ENTRY.files["image"]
    assert Failing.tried == 2, "after a minute it is tried again"


class Slow(Shared):
    """Answers, but late."""

    asked = 0

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        type(self).asked += 1
        time.sleep(0.1)
        return super().get(filenames)


def test_a_slow_backend_is_left_alone_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(DIGEST, "add", ENTRY)
    another_machine(tmp_path)
    monkeypatch.setattr(Slow, "asked", 0)
    monkeypatch.setattr(remote, "SLOW", 0.05)
    knobs.cache.remote_manager_class = Slow
    with pytest.warns(RuntimeWarning, match=r"failed .TimeoutError: an answer took \d+\.\d s"):
        assert load(DIGEST, "add") is not None, "the answer is used"
    for _ in range(3):
        assert content() is None
    assert Slow.asked == 1


def hanging(when: str) -> Any:
    """A class of its own, as threads that hang outlive their test: never answers when it is made, or asked."""

    class Hanging(Shared):
        asked = 0
        end = threading.Event()

        def __init__(self, key: str) -> None:
            super().__init__(key)
            self.hang("made")

        def hang(self, now: str) -> None:
            if now == when:
                Hanging.asked += 1
                self.end.wait(30)

        def get(self, filenames: list[str]) -> dict[str, bytes]:
            self.hang("get")
            return super().get(filenames)

        def put(self, filename: str, data: bytes) -> None:
            self.hang("put")
            super().put(filename, data)

    return Hanging


@pytest.mark.parametrize("when", ["made", "get", "put"])
def test_nobody_waits_for_a_backend_that_hangs(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PATIENCE", 0.25)
    knobs.cache.remote_manager_class = made = hanging(when)
    begin = time.monotonic()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(3):
            store(DIGEST, "add", ENTRY)
            assert content() == ENTRY.files["image"], "from the local copy"
    assert time.monotonic() - begin < 25, "it waited for the end of a call that hangs"
    assert made.asked == 1
    (text,) = [str(warning.message) for warning in warned]
    assert "Hanging failed (TimeoutError: there is no answer after 0.25 s)" in text
    made.end.set()


# Redis


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server of its own on a loopback port, which keeps nothing on disk."""
    port, folder = free_port(), tmp_path_factory.mktemp("redis")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        server.kill()
        server.wait()


def use_redis(port: int) -> None:
    knobs.cache.remote_manager_class = RedisRemoteCacheBackend
    knobs.redis.host, knobs.redis.port = "127.0.0.1", port


@pytest.mark.needs_redis
def test_redis_keeps_files(redis_port: int) -> None:
    use_redis(redis_port)
    knobs.redis.key_format = "a-test:{key}:{filename}"
    backend = RedisRemoteCacheBackend("key")
    data = {"empty": b"", "lines": b"$3\r\n\r\n*1\r\n", "large": os.urandom(3_000_000)}
    for name, value in data.items():
        backend.put(name, value)
    assert RedisRemoteCacheBackend("key").get([*data, "absent"]) == data
    assert RedisRemoteCacheBackend("other").get([*data]) == {}


@pytest.mark.needs_redis
def test_redis_refuses(redis_port: int) -> None:
    use_redis(redis_port)
    with pytest.raises(redis.RedisError, match="unknown command"):
        RedisRemoteCacheBackend("key")._command(b"NONSENSE")


@pytest.mark.needs_redis
def test_kernels_in_redis(redis_port: int, tmp_path: Path) -> None:
    use_redis(redis_port)
    knobs.tilewright.cache_key = "secret"
    store("1" * 64, "add", ENTRY)
    another_machine(tmp_path)
    stored = load("1" * 64, "add")
    assert stored is not None
    assert stored.read("image") == ENTRY.files["image"]
    knobs.tilewright.cache_key = "other"
    assert load("1" * 64, "add") is None


PROGRAM = """
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

x = np.arange(1000, dtype=np.float32)
out = np.zeros_like(x)
double[(8,)](x, out, 1000, BLOCK=128)
assert np.array_equal(out, 2 * x)
"""


@pytest.mark.slow
@pytest.mark.needs_redis
def test_programs_share_kernels(redis_port: int, tmp_path: Path) -> None:
    """Keys agree also where Tilewright was installed at another time and place."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {
        **os.environ,
        "TRITON_CACHE_MANAGER": "tilewright.runtime.cache.remote:RemoteCacheManager",
        "TRITON_REMOTE_CACHE_BACKEND": "tilewright.runtime.cache.redis:RedisRemoteCacheBackend",
        "TRITON_REDIS_HOST": "127.0.0.1",
        "TRITON_REDIS_PORT": str(redis_port),
        "TILEWRIGHT_CACHE_KEY": "secret",
    }
    names = []
    for machine in ("first", "second"):
        shutil.copytree(
            Path(knobs.__file__).parents[1], tmp_path / machine / "tilewright", copy_function=shutil.copyfile
        )
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / machine), os.environ.get("PYTHONPATH", "")])
        environment["TRITON_CACHE_DIR"] = str(cache_without_kernels(tmp_path / machine / "cache"))
        subprocess.run([sys.executable, "-W", "error", program], env=environment, check=True, timeout=120)
        names.append({path.name for path in (tmp_path / machine / "cache").glob("*/*")})
    assert {"double.ttir", "double.image"} <= names[0]
    assert names[1] == {"double.json", "double.image"}, "not compiled: only these two were fetched"


Behaviour = Callable[[socket.socket], None]


@pytest.fixture
def server() -> Iterator[Callable[[Behaviour], int]]:
    """`server(behaviour)`: the port of a server that does this with every connection."""
    sockets: list[socket.socket] = []

    def start(behaviour: Behaviour) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        sockets.append(listening)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                    sockets.append(connection)
                    behaviour(connection)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        return int(listening.getsockname()[1])

    yield start
    for each in sockets:
        each.close()


def silent(connection: socket.socket) -> None:
    """Accepts and says nothing."""


def slow(connection: socket.socket) -> None:
    """A byte now and then, for ever."""
    connection.sendall(b"*")
    while True:
        connection.sendall(b"1")
        time.sleep(0.05)


def closing(connection: socket.socket) -> None:
    connection.close()


def sends(answer: bytes) -> Behaviour:
    def behaviour(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(answer)

    return behaviour


MISBEHAVIOUR: dict[str, Behaviour] = {
    "silent": silent,
    "slow": slow,
    "closing": closing,
    "garbage": sends(os.urandom(1000) + b"\r\n"),
    "a page": sends(b"HTTP/1.1 400 Bad Request\r\n\r\n<html>"),
    "an endless line": sends(b"+" + b"x" * 100_000),
    "an error": sends(b"-NOAUTH Authentication required.\r\n"),
    "too much": sends(b"$99999999999999\r\n"),
    "too many": sends(b"*99999999\r\n$-1\r\n"),
    "too few": sends(b"*0\r\n"),
    "nested": sends(b"*1\r\n*1\r\n*1\r\n"),
    "no number": sends(b"*one\r\n"),
    "wrong content": sends(b"*1\r\n$5\r\nhello\r\n"),
    "numbers": sends(b"*1\r\n:5\r\n"),
}


@pytest.mark.parametrize("behaviour", MISBEHAVIOUR)
def test_a_redis_that_misbehaves_costs_little_time_and_one_warning(
    behaviour: str, server: Callable[[Behaviour], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis, "DEADLINE", 0.3)
    use_redis(server(MISBEHAVIOUR[behaviour]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.monotonic()
        for _ in range(3):
            assert load("a" * 64, "add") is None
            store(DIGEST, "add", ENTRY)
        assert time.monotonic() - begin < 10
        told = [str(warning.message) for warning in caught if "is damaged" not in str(warning.message)]
        assert len(told) <= 1, told  # damage is told of once per process, whichever test was first
        remote._pause(RedisRemoteCacheBackend, OSError())
        assert content() == ENTRY.files["image"], "from the local copy"


def test_no_redis_at_all(tmp_path: Path) -> None:
    use_redis(free_port())
    begin = time.monotonic()
    with pytest.warns(RuntimeWarning, match="remote cache RedisRemoteCacheBackend failed") as caught:
        store(DIGEST, "add", ENTRY)
    assert content() == ENTRY.files["image"]
    assert len(caught) == 1
    assert time.monotonic() - begin < 10


def test_local_files_serve_while_the_backend_is_left_alone(tmp_path: Path) -> None:
    store(DIGEST, "add", ENTRY)
    with pytest.warns(RuntimeWarning, match="left alone|failed"):
        remote._pause(Shared, OSError("down"))
    Shared.files = {}
    assert content() == ENTRY.files["image"]
    assert RemoteCacheManager(KEY).get_group("add.json") == FileCacheManager(KEY).get_group("add.json")


def test_a_disk_that_is_full_does_not_matter(tmp_path: Path) -> None:
    store(DIGEST, "add", ENTRY)
    (tmp_path / "file").write_text("")
    knobs.cache.dir = str(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="not kept"):
        assert content() is None
