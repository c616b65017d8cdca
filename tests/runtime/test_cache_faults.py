"""Caches under fire: many processes at once, processes killed while they write, files and disks in every bad state.

Results are always right; what is damaged is replaced; there is one warning; nothing half made stays behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from fresh_caches import cache_without_kernels
from long_runs import LONG
from tilewright.runtime.cache import claims
from tilewright.runtime.cache.store import damages
from tilewright.runtime.cache.upkeep import entries

CROWDS = [(4, 30), pytest.param(16, 200, marks=LONG)]
"""The numbers of processes, and of kernels that each of them launches, in `make test` and in `make test-long`."""
KILLS = [300, pytest.param(1000, marks=LONG)]
REAL_KILLS = 60
NOBODY = 65534


def run(program: Path, *arguments: object, cache: Path, timeout: float = 120) -> list[str]:
    """The lines that the program prints."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache)}
    command = [sys.executable, program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def temporary_files(cache: Path) -> list[str]:
    return [path.name for path in cache.rglob("*") if ".tmp" in path.name or path.name.startswith(".removed")]


def assert_whole(cache: Path, count: int) -> None:
    """There are `count` entries, all undamaged, and nothing else."""
    found = list(entries(cache))
    assert len(found) == count
    assert [problem for entry in found for problem in damages(entry.folder)] == []
    assert temporary_files(cache) == []


# Many processes

KERNEL = """
@tw.jit
def k{i}(x_ptr, out_ptr):
    offsets = tl.arange(0, 16)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + {i})
"""

CROWD = """
import random, sys
from collections import Counter
import numpy as np
import many_kernels
from tilewright import knobs

compiled = Counter()
knobs.compilation.listener = lambda *, src, cache_hit, **_: compiled.update([] if cache_hit else [src.name])
x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
numbers = list(range(many_kernels.COUNT)) * 2
random.Random(int(sys.argv[1])).shuffle(numbers)
for number in numbers:
    getattr(many_kernels, f"k{number}")[(1,)](x, out)
    assert np.array_equal(out, x + number), number
assert max(compiled.values(), default=0) <= 1, compiled
print(sum(compiled.values()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("many", "kernels"), CROWDS)
def test_many_processes_on_one_empty_cache(many: int, kernels: int, tmp_path: Path) -> None:
    """All results are right, each kernel is compiled once in all, and one whole entry of it is left."""
    head = f"import tilewright as tw\nimport tilewright.language as tl\nCOUNT = {kernels}\n"
    (tmp_path / "many_kernels.py").write_text(head + "".join(KERNEL.format(i=i) for i in range(kernels)))
    (tmp_path / "crowd.py").write_text(CROWD)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache"), "TILEWRIGHT_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", str(tmp_path / "crowd.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    crowd = [subprocess.Popen([*command, str(i)], env=environment, **pipes) for i in range(many)]
    said = [process.communicate(timeout=900) for process in crowd]
    assert [errors.decode() for _, errors in said] == [""] * many
    assert sum(int(count) for count, _ in said) == kernels
    assert_whole(tmp_path / "cache", kernels)


# Processes that are killed

CLAIMANT = """
import os, signal, sys
import numpy as np
import many_kernels
from tilewright import knobs
from tilewright.runtime.cache import claims

if len(sys.argv) > 2:
    claims.PATIENCE = float(sys.argv[2])

def inside(*_):  # a compilation has begun, and the kernel is claimed
    print("compiling", flush=True)
    if sys.argv[1] == "victim":
        signal.pause()

knobs.runtime.add_stages_inspection_hook = lambda *all: inside() if all else ("", "")
x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
print("asks", flush=True)
many_kernels.k0[(1,)](x, out)
print("done", np.array_equal(out, x), flush=True)
"""


def claimant(folder: Path, role: str, *patience: str) -> subprocess.Popen[str]:
    (folder / "many_kernels.py").write_text(
        "import tilewright as tw\nimport tilewright.language as tl\n" + KERNEL.format(i=0)
    )
    (folder / "claimant.py").write_text(CLAIMANT)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache_without_kernels(folder / "cache"))}
    command = [sys.executable, str(folder / "claimant.py"), role, *patience]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "asks\n"
    return process


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.spared)])
def test_nobody_waits_for_a_process_that_was_killed_while_it_compiled(end: signal.Signals, tmp_path: Path) -> None:
    """A waiting process compiles at once when the owner of the claim is gone; the next claim finds the file."""
    victim = claimant(tmp_path, "victim")
    assert victim.stdout is not None
    assert victim.stdout.readline() == "compiling\n"
    heir = claimant(tmp_path, "heir", "3600")
    with pytest.raises(subprocess.TimeoutExpired):  # the other one has the claim
        heir.wait(0.3)
    victim.send_signal(end)
    victim.wait()
    assert heir.communicate(timeout=240)[0] == "compiling\ndone True\n"
    assert_whole(tmp_path / "cache", 1)
    assert list((tmp_path / "cache").glob("*.claim")) == []


@pytest.mark.spared
def test_a_process_that_was_stopped_is_not_waited_for_long(tmp_path: Path) -> None:
    """A process that waits compiles by itself after a while; what the other one keeps later does no harm."""
    assert claims.PATIENCE == 10
    victim = claimant(tmp_path, "victim")
    assert victim.stdout is not None
    assert victim.stdout.readline() == "compiling\n"
    victim.send_signal(signal.SIGSTOP)
    try:
        heir = claimant(tmp_path, "heir", "1")
        assert heir.communicate(timeout=62)[0] == "compiling\ndone True\n"
    finally:
        victim.kill()
        victim.wait()
    assert_whole(tmp_path / "cache", 1)


def test_a_claim_needs_no_cache_folder(tmp_path: Path) -> None:
    """Nothing can be claimed below a file, in a folder that others may write to, or where nothing can be locked."""
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for root in (tmp_path / "file", tmp_path / "open"):
            with claims.Claim(root, "K"):
                assert list(tmp_path.rglob("*.claim")) == []


def test_two_kernels_of_one_key_in_two_threads_do_not_wait_for_ever(tmp_path: Path) -> None:
    """A claim inside another one of the same key, in the same process, is had at once or not at all."""
    with patch.object(claims, "PATIENCE", 0.1), claims.Claim(tmp_path, "K"), claims.Claim(tmp_path, "K"):
        pass
    assert list(tmp_path.iterdir()) == []


VICTIMS = """
import os, random, signal, sys, time
from pathlib import Path
from tilewright.runtime.cache.store import Entry, load, store
from tilewright.runtime.cache.managers import base32

kills = int(sys.argv[1])
chance = random.Random(1)
cache = Path(os.environ["TRITON_CACHE_DIR"])


def entry(version):
    return Entry({"version": version}, {name: bytes([version]) * 30_000 for name in ("image", "obj", "ttir")})


def write_for_ever(begin):
    for serial in range(begin, 10**9):
        store(f"{serial % 50:064x}", "k", entry((serial + begin) % 251))


whole = partial = absent = 0
begun, begins = os.pipe()
for kill in range(kills):
    child = os.fork()
    if not child:
        os.write(begins, b"b")
        write_for_ever(kill)
    os.read(begun, 1)
    time.sleep(chance.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for key in range(kill, kill + 8):
        stored = load(f"{key % 50:064x}", "k")
        if stored is None:
            absent += 1
            continue
        version = stored.facts["version"]
        for name in stored.suffixes:
            try:
                assert stored.read(name) == bytes([version]) * 30_000
                whole += 1
            except OSError:
                partial += 1
left = len(list(cache.rglob("*.tmp")))
for key in range(50):
    store(f"{key:064x}", "k", entry(7))
print(whole, partial, absent, left)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_processes_killed_while_they_write(kills: int, tmp_path: Path) -> None:
    """At random moments: what can be loaded is right, and the next writer clears away what is left."""
    program = tmp_path / "victims.py"
    program.write_text(VICTIMS)
    (line,) = run(program, kills, cache=tmp_path / "cache", timeout=600)
    whole, partial, absent, left = map(int, line.split())
    assert whole > kills
    assert partial > 0, "some were killed between two files of an entry"
    assert absent > 0
    assert left > 0, "some were killed within a file"
    assert_whole(tmp_path / "cache", 50)


REAL_VICTIMS = """
import os, random, signal, sys, time, warnings
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def add(x_ptr, out_ptr, NUMBER: tl.constexpr):
    offsets = tl.arange(0, 16)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + NUMBER)

x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)


def check(number):
    add[(1,)](x, out, NUMBER=number)
    assert np.array_equal(out, x + number), number


def in_a_child(action):
    child = os.fork()
    if child:
        return child
    action()
    os._exit(0)


check(-1)  # everything that compiling needs is imported
chance = random.Random(2)
for kill in range(int(sys.argv[1])):
    child = in_a_child(lambda: [check(number) for number in range(kill % 7, 1000)])
    time.sleep(chance.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if kill % 10 == 9:
        assert os.waitpid(in_a_child(lambda: [check(number) for number in range(7)]), 0)[1] == 0
"""


@pytest.mark.slow
def test_processes_killed_while_they_compile(tmp_path: Path) -> None:
    program = tmp_path / "victims.py"
    program.write_text(REAL_VICTIMS)
    run(program, REAL_KILLS, cache=tmp_path / "cache", timeout=300)


# Files and disks

PROGRAM = """
import os, sys, warnings
import llvmlite.binding
import numpy as np
import tilewright as tw
import tilewright.language as tl
import tilewright.compiler.compile, tilewright.backends.cpu.pipeline, tilewright.support.deferred_signals

@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr, NUMBER: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, NUMBER * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

compiled = []
tw.knobs.compilation.listener = lambda *, cache_hit, **_: compiled.append(not cache_hit)
if os.geteuid() == 0 and sys.argv[2] != "root":
    os.seteuid(int(sys.argv[2]))
x = np.arange(1000, dtype=np.float32)
out = np.zeros_like(x)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for number in range(int(sys.argv[1])):
        double[(8,)](x, out, 1000, BLOCK=128, NUMBER=number)
        assert np.array_equal(out, number * x)
print(sum(compiled), *(warning.message for warning in caught), sep="\\n")
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach: the program, and a cache of theirs with a kernel for each damage."""
    made = Path(tempfile.mkdtemp(prefix="tilewright-faults-"))
    made.chmod(0o755)
    (made / "program.py").write_text(PROGRAM)
    cache_without_kernels(made / "template")
    if os.geteuid() == 0:
        for path in (made / "template", *(made / "template").iterdir()):
            os.chown(path, NOBODY, -1)
    compiled, *messages = run(made / "program.py", len(DAMAGED), NOBODY, cache=made / "template")
    assert (int(compiled), messages) == (len(DAMAGED), [])
    yield made
    shutil.rmtree(made)


@pytest.fixture
def cache(folder: Path) -> Iterator[Path]:
    """A copy of the cache."""
    subprocess.run(["cp", "-a", folder / "template", folder / "cache"], check=True)
    yield folder / "cache"
    subprocess.run(["chmod", "-R", "u+rwx", folder / "cache"], check=True)
    shutil.rmtree(folder / "cache")


def as_user(cache: Path, kernels: int = 2) -> tuple[int, list[str]]:
    """The number of kernels that an ordinary user compiled, and the warnings."""
    compiled, *messages = run(cache.parent / "program.py", kernels, NOBODY, cache=cache)
    return int(compiled), messages


DAMAGES: dict[str, Callable[[Path, bytes], object]] = {
    "empty": lambda path, content: path.write_bytes(b""),
    "truncated": lambda path, content: path.write_bytes(content[: len(content) // 2]),
    "longer": lambda path, content: path.write_bytes(content + b"\0"),
    "flipped first": lambda path, content: path.write_bytes(bytes([content[0] ^ 1]) + content[1:]),
    "flipped last": lambda path, content: path.write_bytes(content[:-1] + bytes([content[-1] ^ 128])),
    "unreadable": lambda path, content: path.chmod(0),
    "missing": lambda path, content: path.unlink(),
}
DAMAGED = [(damage, file) for damage in DAMAGES for file in ("double.json", "double.image")]


@pytest.mark.spared
def test_damaged_files_are_replaced_with_one_warning(cache: Path) -> None:
    for (damage, file), entry in zip(DAMAGED, cache.glob("*/"), strict=True):
        DAMAGES[damage](entry / file, (entry / file).read_bytes())
    compiled, messages = as_user(cache, len(DAMAGED))
    assert (compiled, len(messages)) == (len(DAMAGED), 1)
    assert "the kernel is compiled again" in messages[0]
    assert as_user(cache, len(DAMAGED)) == (0, [])
    assert_whole(cache, len(DAMAGED))


@pytest.mark.spared
def test_read_only_files_and_folders_can_be_used(cache: Path) -> None:
    for path in [*cache.rglob("*"), cache]:
        path.chmod(path.stat().st_mode & 0o555)
    compiled, messages = as_user(cache, len(DAMAGED) + 2)
    assert (compiled, len(messages)) == (2, 1)
    assert "not kept" in messages[0]


@pytest.mark.slow
def test_unreadable_folder(cache: Path) -> None:
    cache.chmod(0)
    compiled, messages = as_user(cache)
    assert (compiled, len(messages)) == (2, 1)
    assert "not kept" in messages[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.slow
def test_folder_of_somebody_else(cache: Path) -> None:
    """Root does not run what an ordinary user left for it."""
    compiled, *messages = run(cache.parent / "program.py", 2, "root", cache=cache)
    assert (compiled, len(messages)) == ("2", 1)
    assert f"belongs to user {NOBODY}" in messages[0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for a few kernels."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(disk)]
    if not mount or subprocess.run([mount, *options], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_full_disk(tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    compiled, *messages = run(tmp_path / "program.py", 12, "root", cache=small_disk / "cache")
    assert (compiled, len(messages)) == ("12", 1)
    assert "No space left on device" in messages[0]
    assert temporary_files(small_disk) == []
    again, *_ = run(tmp_path / "program.py", 12, "root", cache=small_disk / "cache")
    assert 0 < int(again) < 12, "what there was room for is found"
