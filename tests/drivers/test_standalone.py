"""Kernels as shared objects that a process without Tilewright loads and launches."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_shared_object import row_products

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.llvm.machine import host_target
from tilewright.runtime.compile import compile as compile_source
from tilewright.runtime.drivers.cpu.standalone import (
    LOOKS_AT_FAILURES,
    StandaloneError,
    _scratch,
    kernel_object,
    launcher_object,
)
from tilewright.runtime.sources import ASTSource
from tilewright.support.system import SYSTEM

elf = pytest.mark.skipif(SYSTEM.name != "linux", reason="files that run without Python are for Linux")

Launch = Callable[..., int]


def loaded(folder: Path, compiled: Any, types: Sequence[str], *, threads: int = 1) -> Launch:
    """A function that launches from the two objects: grid, then an address for each type."""
    entry = compiled.metadata.entry
    (folder / "kernel.so").write_bytes(kernel_object(compiled.asm["obj"], entry=entry, name="the_kernel"))
    launcher = launcher_object(types, scratch_bytes=compiled.scratch_bytes, target=host_target())
    (folder / "launcher.so").write_bytes(launcher)
    kernel = ctypes.cast(ctypes.CDLL(str(folder / "kernel.so")).the_kernel, ctypes.c_void_p)
    run = ctypes.CDLL(str(folder / "launcher.so")).run_from_nativert
    run.restype = ctypes.c_int64

    def launch(grid: tuple[int, int, int], *addresses: int | None) -> int:
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        return int(run(*map(ctypes.c_uint32, grid), threads, pointers, kernel))

    return launch


@tw.jit
def places(out_ptr, N: tl.constexpr, small, byte, wide, single, real, flag):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = out_ptr + N * (x + tl.num_programs(0) * (y + tl.num_programs(1) * z))
    tl.store(at, x + 10 * y + 100 * z)
    tl.store(at + 1, small + byte)
    tl.store(at + 2, wide)
    tl.store(at + 3, single)
    tl.store(at + 4, real)
    tl.store(at + 5, tl.where(flag, 7, 8))


@elf
def test_a_grid_of_three_axes_with_numbers_of_every_kind(tmp_path: Path) -> None:
    types = ("*fp64", "constexpr", "i32", "u8", "i64", "fp32", "fp64", "u1")
    names = ("out_ptr", "N", "small", "byte", "wide", "single", "real", "flag")
    source = ASTSource(places, dict(zip(names, types, strict=True)), {"N": 6})
    launch = loaded(tmp_path, compile_source(source), types)
    values = (
        ctypes.c_int32(-5), ctypes.c_uint8(200), ctypes.c_int64(-(1 << 40)),
        ctypes.c_float(0.5), ctypes.c_double(0.1), ctypes.c_bool(True),
    )  # fmt: skip
    out = np.zeros((2, 3, 4, 6))

    launch((4, 3, 2), out.ctypes.data, None, *map(ctypes.addressof, values))
    launch((4, 0, 2), None, None, *map(ctypes.addressof, values))

    z, y, x = np.indices((2, 3, 4))
    np.testing.assert_array_equal(out[..., 0], x + 10 * y + 100 * z)
    assert (out[..., 1:] == [195, -(1 << 40), 0.5, 0.1, 7]).all()


@pytest.mark.parametrize("size", [64, 256])
@elf
def test_products_with_scratch_memory_on_several_threads(tmp_path: Path, size: int) -> None:
    x, y = (np.random.default_rng(seed).random((3, size, size), dtype=np.float32) for seed in (1, 2))
    outs = [np.zeros_like(x) for _ in range(4)]
    compiled = row_products.warmup(x, y, outs[0], N=size, grid=(1,))
    assert (compiled.scratch_bytes > 1 << 16) == (size == 256)  # on the stack, or mapped
    launch = loaded(tmp_path, compiled, ("*fp32", "*fp32", "*fp32", "constexpr"))

    threads = [
        threading.Thread(target=launch, args=((3, 1, 1), x.ctypes.data, y.ctypes.data, out.ctypes.data, None))
        for out in outs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for out in outs:
        np.testing.assert_allclose(out, x @ y.transpose(0, 2, 1), rtol=1e-4)


@pytest.mark.parametrize(("size", "is_mapped"), [(0, False), (1 << 16, False), ((1 << 16) + 1, True)])
def test_much_scratch_memory_is_mapped(size: int, is_mapped: bool) -> None:
    """The stack of a thread may have room for some hundred kilobytes only."""
    stack, taken, given, _ = _scratch(size)
    assert ("alloca" in stack, "mmap" in taken, "munmap" in given) == (not is_mapped, is_mapped, is_mapped)


def test_a_number_that_c_lacks_is_refused() -> None:
    with pytest.raises(StandaloneError, match="type bf16"):
        launcher_object(("bf16",), scratch_bytes=0, target=host_target())


@tw.jit
def hailstones(x_ptr, out_ptr):
    """A loop without a bound, in which a launch from Python looks for signals."""
    program = tl.program_id(0)
    number, steps = tl.load(x_ptr + program), 0
    while number != 1:
        number = tl.where(number % 2 == 0, number // 2, 3 * number + 1)
        steps += 1
    tl.store(out_ptr + program, steps)


@elf
def test_a_loop_without_a_bound(tmp_path: Path) -> None:
    x, out = np.array([1, 6, 7, 27], np.int32), np.zeros(4, np.int32)
    launch = loaded(tmp_path, hailstones.warmup(x, out, grid=(1,)), ("*i32", "*i32"))

    launch((4, 1, 1), x.ctypes.data, out.ctypes.data)

    assert out.tolist() == [0, 8, 16, 111]


@tw.jit
def waits(flag_ptr):
    if tl.program_id(0) == 0:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass
    else:
        tl.atomic_xchg(flag_ptr, 1)


def test_a_kernel_whose_programs_wait_for_one_another_is_refused() -> None:
    compiled = waits.warmup(np.zeros(1, np.int32), grid=(1,))

    with pytest.raises(StandaloneError, match="programs of waits wait for one another"):
        compiled.asm["so"]


def test_a_kernel_that_checks_its_accesses_is_refused() -> None:
    compiled = hailstones.warmup(np.ones(1, np.int32), np.ones(1, np.int32), grid=(1,), sanitize="bounds")

    with pytest.raises(StandaloneError, match="hailstones checks its accesses"):
        compiled.asm["launcher.so"]


@elf
def test_kernels_of_other_processes_have_them(tmp_path: Path) -> None:
    """As those of compile workers."""
    x, out = np.array([6], np.int32), np.zeros(1, np.int32)
    compiled = hailstones.warmup(x, out, grid=(1,))
    there = pickle.loads(pickle.dumps(compiled.asm))

    assert there["so"] == compiled.asm["so"]
    assert there["launcher.so"] == compiled.asm["launcher.so"]


@tw.jit
def takes(out_ptr, index_ptr, N: tl.constexpr):
    at = tl.load(index_ptr + tl.program_id(0))
    tl.device_assert(at < N, "index out of bounds")
    tl.store(out_ptr + tl.program_id(0), at)


@elf
def test_a_launch_says_whether_an_assertion_failed_to_those_who_look(tmp_path: Path) -> None:
    """The programs before the one that fails have run; for callers that do not look, the process ends."""
    types = ("*i32", "*i32", "constexpr")
    compiled = compile_source(
        ASTSource(takes, {"out_ptr": "*i32", "index_ptr": "*i32", "N": "constexpr"}, {"N": 8}), options={"debug": True}
    )
    assert [site["message"] for site in compiled.reports] == ["index out of bounds"]
    launch = loaded(tmp_path, compiled, types, threads=LOOKS_AT_FAILURES)
    indices, out = np.array([7, 3, 8, 1], np.int32), np.full(4, -1, np.int32)

    assert launch((2, 1, 1), out.ctypes.data, indices.ctypes.data, None) == 0
    assert launch((4, 1, 1), out.ctypes.data, indices.ctypes.data, None) == 1
    assert out.tolist()[:3] == [7, 3, -1]

    (tmp_path / "other").mkdir()
    unlooked, child = loaded(tmp_path / "other", compiled, types), os.fork()
    if child == 0:
        faulthandler.disable()
        unlooked((4, 1, 1), out.ctypes.data, indices.ctypes.data, None)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (-signal.SIGILL, -signal.SIGTRAP)


@tw.jit
def talks(out_ptr):
    tl.device_print("hello", 1)
    tl.store(out_ptr, 1)


@elf
def test_the_stages_of_a_kernel_are_made_on_request(tmp_path: Path) -> None:
    out = np.zeros((1, 64, 64), np.float32)
    compiled = row_products.warmup(out, out, out, N=64, grid=(1,))
    assert not {"so", "launcher.so"} & set(compiled.asm)

    (tmp_path / "kernel.so").write_bytes(compiled.asm["so"])
    (tmp_path / "launcher.so").write_bytes(compiled.asm["launcher.so"])

    assert hasattr(ctypes.CDLL(str(tmp_path / "kernel.so")), compiled.metadata.name)
    assert hasattr(ctypes.CDLL(str(tmp_path / "launcher.so")), "run_from_nativert")


@pytest.mark.parametrize("stage", ["so", "launcher.so"])
def test_a_kernel_that_prints_is_refused(stage: str) -> None:
    compiled = talks.warmup(np.zeros(1, np.float32), grid=(1,))

    with pytest.raises(StandaloneError, match="talks prints"):
        compiled.asm.get(stage)
