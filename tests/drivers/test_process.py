"""Setting up the native runtime: from the cache, from nothing, and not at all."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fresh_caches import OF_THIS_RUN
from tilewright.backends.llvm.machine import emit_assembly, host_target
from tilewright.runtime import lazy_imports
from tilewright.runtime.drivers.cpu import process, python_memory
from tilewright.runtime.drivers.cpu.launcher import is_native
from tilewright.runtime.drivers.cpu.loader import Blob, host_machine
from tilewright.runtime.drivers.cpu.native.structs import HEADER
from tilewright.runtime.drivers.cpu.native.text import runtime_text
from tilewright.runtime.drivers.cpu.process import native_runtime
from tilewright.support.system import SYSTEM

pytestmark = pytest.mark.quick

SCRIPT = """
import sys, time
from tilewright.runtime.drivers.cpu.launcher import is_native
from tilewright.runtime.drivers.cpu.launcher import (NativeKernel)
start = time.process_time()
NativeKernel([], lambda *_: None)[(1,)]()
print(is_native(), "llvmlite" in sys.modules, time.process_time() - start)
"""

needs_native = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")


def run_script(cache: Path, script: str = SCRIPT) -> list[str]:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.split()


@needs_native
@pytest.mark.slow
def test_the_second_process_needs_no_llvm(tmp_path: Path) -> None:
    assert run_script(tmp_path)[:2] == ["True", "True"]
    assert run_script(tmp_path)[:2] == ["True", "False"]
    assert min(float(run_script(tmp_path)[2]) for _ in range(2)) < 0.010  # 1 ms on a quiet machine


@pytest.fixture(scope="module")
def good() -> Blob:
    """The blob of the runtime, from this worker's cache: it takes a while to compile."""
    return process.runtime_blob(host_machine(), OF_THIS_RUN)


@pytest.fixture
def compiled(good: Blob, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The machines that a blob was asked for of the compiler, which gives a good one."""
    machines: list[str] = []
    monkeypatch.setattr(lazy_imports, "native_runtime_blob", lambda machine, cpu: machines.append(machine) or good)
    return machines


@pytest.mark.spared
@needs_native
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "folder"])
def test_a_damaged_cache_is_not_used(tmp_path: Path, damage: str, good: Blob, compiled: list[str]) -> None:
    machine = host_machine()
    for _ in range(2):
        assert process.runtime_blob(machine, tmp_path) == good
    assert len(compiled) == 1
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
        path.mkdir()

    assert process.runtime_blob(machine, tmp_path) == good
    assert len(compiled) == 2


@needs_native
@pytest.mark.filterwarnings("ignore:compiled kernels are not kept:RuntimeWarning")
def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path, compiled: list[str]) -> None:
    (tmp_path / "file").write_text("")

    assert process.runtime_blob(host_machine(), tmp_path / "file" / "cache").symbols


@needs_native
def test_another_source_is_another_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]) -> None:
    process.runtime_blob(host_machine(), tmp_path)
    monkeypatch.setattr(process, "RUNTIME_IDENTITY", "0" * 64)
    process.runtime_blob(host_machine(), tmp_path)

    assert len(compiled) == len(list(tmp_path.iterdir())) == 2


@pytest.mark.spared
@pytest.mark.parametrize(
    ("machine", "cpu", "clock"), [("x86-64", "x86-64-v2", "rdtsc"), ("aarch64", "aarch64", "CNTVCT_EL0")]
)
def test_the_runtime_reads_the_clock_of_the_processor(machine: str, cpu: str, clock: str) -> None:
    """LLVM has a second counter, which reads as 0 on AArch64: threads that timed themselves by it never slept."""
    assert clock in emit_assembly(runtime_text(machine), host_target(cpu))


@needs_native
def test_the_clock_goes() -> None:
    runtime = native_runtime()
    assert runtime
    now = runtime.function("now", ctypes.c_int64)
    started = now()
    time.sleep(0.001)

    assert now() > started


class Slotted:
    __slots__ = ("first", "second")


def test_slots_are_found_where_they_are() -> None:
    offset = python_memory.slot_offset(Slotted, "second")
    instance = Slotted()
    instance.second = value = object()

    assert offset is not None
    assert python_memory._word(id(instance) + offset) == id(value)
    assert python_memory.slot_offset(Slotted, "third") is None
    assert python_memory.slot_offset(list, "append") is None


@pytest.mark.parametrize("place", [HEADER + 8, HEADER + 16, HEADER + 32, HEADER + 40])
def test_descriptors_that_are_laid_out_otherwise_are_left_alone(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_memory, "_known_kinds", set())
    monkeypatch.setattr(python_memory, "_DESCRIPTOR_OFFSET", place)
    assert python_memory.slot_offset(Slotted, "second") is None
    assert python_memory.subscript_definition() is None


@pytest.mark.parametrize("definition", [0, 8, 2**47 - 8, 2**64 - 8])
def test_addresses_that_lead_nowhere_are_not_read(definition: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a descriptor began as is known, and went on in another way."""
    monkeypatch.setattr(python_memory, "_known_kinds", set())
    known = python_memory._word
    place = id(Slotted.__dict__["second"]) + python_memory._DESCRIPTOR_OFFSET
    monkeypatch.setattr(python_memory, "_word", lambda at: definition if at == place else known(at))
    assert python_memory.slot_offset(Slotted, "second") is None
    assert python_memory.slot_offset(Slotted, "first") is not None


def test_memory_is_read_only_where_there_is_some() -> None:
    page = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    page[-5:] = b"whole"
    end = ctypes.addressof(ctypes.c_char.from_buffer(page)) + 2 * mmap.PAGESIZE
    assert SYSTEM.read_memory(end - 5, 5) == b"whole"
    assert SYSTEM.read_memory(8, 5) is None
    mapped = {int(line.split("-")[0], 16) for line in Path("/proc/self/maps").read_text().splitlines()}
    if end not in mapped:
        assert SYSTEM.read_memory(end - 5, 6) is None


def test_numpy_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_memory.ndarray_is_as_expected()
    monkeypatch.setattr(python_memory, "NDARRAY_DTYPE", 48)
    assert not python_memory.ndarray_is_as_expected()


def test_addresses_of_arrays_are_those_that_numpy_says() -> None:
    whole = np.arange(12.0).reshape(3, 4)
    arrays = [whole, whole[1:, ::2], whole.T, whole[:0], np.float32(3)[...], np.ma.zeros(3), whole.view(np.recarray)]
    whole.flags.writeable = False
    for array in arrays:
        assert python_memory.array_address(array) == array.__array_interface__["data"][0]


@needs_native
def test_set_up_is_quick(good: Blob) -> None:
    best = 1.0
    for _ in range(3):
        start = time.thread_time()
        process.NativeRuntime(good)
        best = min(best, time.thread_time() - start)

    assert best < 0.01


@pytest.mark.spared
@needs_native
def test_code_in_a_folder_of_everybody_is_not_run(tmp_path: Path, compiled: list[str]) -> None:
    process.runtime_blob(host_machine(), tmp_path)
    (path,) = tmp_path.glob("*.blob")
    path.chmod(0o600)
    content = path.read_bytes()
    tmp_path.chmod(0o777)
    assert run_script(tmp_path)[:2] == ["True", "True"], "compiled again"
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content], "and not kept"
