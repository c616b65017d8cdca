"""GPUs as programs for Triton ask for them, and measuring what runs there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from gpu_kernels import add, nothing

import tilewright as tw
from tilewright import cuda, gluon
from tilewright.backends.base import GPUTarget
from tilewright.compat.driver import CpuDriver, CudaDriver, DriverConfig, get_device_key
from tilewright.gluon import language as gl
from tilewright.runtime import devices
from tilewright.runtime.build import current_target
from tilewright.runtime.drivers.cuda import streams, structs
from tilewright.runtime.drivers.cuda.streams import CACHE_BYTES
from tilewright.runtime.testing.measure import do_bench
from tilewright.support import knobs


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch was not imported by the program; the one for the CPU says that there are no GPUs."""
    monkeypatch.setattr(streams, "imported_torch", lambda: None)
    yield
    devices.choose(devices.BY_ARGUMENTS)


def test_the_driver_of_a_machine_with_gpus(fake: FakeDriver, without_torch: None) -> None:
    driver = DriverConfig()
    assert isinstance(driver.active, CudaDriver)
    assert driver.active.get_current_target() == GPUTarget("cuda", 90, 32)
    assert driver.active.utils.get_device_properties(0)["max_shared_mem"] == 232448
    assert driver.active.utils.get_device_capability(1) == driver.active.get_device_capability() == (9, 0)
    driver.active.set_current_device(1)
    assert driver.active.get_current_device() == driver.active.utils.get_current_device() == 1
    driver.active.set_current_device(0)
    with cuda.stream() as stream:
        assert driver.active.get_current_stream(0) == stream.handle
        assert driver.active.utils.get_default_stream(1) == 0
    assert driver.active.map_python_to_cpp_type("*fp32") == "CUdeviceptr"
    assert driver.active.map_python_to_cpp_type("tensordesc<fp16[64, 64]>") == "CUtensorMap"
    assert driver.get_active_gpus() == ["cuda"]
    cache = driver.active.get_empty_cache_for_benchmark
    assert callable(cache)


OF_ADD = {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32"), "n": "i32", "BLOCK": "constexpr"}


@gluon.jit
def counted(x_ptr, SIZE: gl.constexpr):
    gl.store(x_ptr, SIZE)


@gluon.jit
def empty(SIZE: gl.constexpr):
    gl.static_assert(SIZE > 0)


def test_what_only_gpus_can_compile_is_compiled_for_the_gpu_that_is_there(
    fake: FakeDriver, without_torch: None, tmp_path: Path
) -> None:
    of_gpu = GPUTarget("cuda", 90, 32)
    assert empty.warmup(8, grid=(1,)).metadata.target == of_gpu
    assert counted.warmup(np.float32, 8, grid=(1,)).metadata.target == of_gpu
    with pytest.raises(tw.CompilationError, match="its kernels name what GPUs have"):
        counted.warmup(np.zeros(1, np.float32), 8, grid=(1,))
    file = tmp_path / "add.ttgir"
    file.write_text(tw.compile(tw.ASTSource(add, OF_ADD, {"BLOCK": 128}), target=of_gpu).asm["ttgir"])
    assert tw.compile(file).metadata.target == of_gpu


def test_in_programs_for_triton_what_no_array_decides_is_for_the_gpu(
    fake: FakeDriver, without_torch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import triton` in `tilewright run` calls `expect_gpu`; NumPy's arrays are the CPU's all the same."""
    source, of_cpu = tw.ASTSource(add, OF_ADD, {"BLOCK": 128}), current_target()
    assert tw.compile(source).metadata.target == of_cpu
    monkeypatch.setattr(devices._Process, "is_tritons", True)
    assert tw.compile(source).metadata.target == current_target() == GPUTarget("cuda", 90, 32)
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    assert add[(1,)](x, x, out, 100, BLOCK=64, num_warps=8).metadata.target == of_cpu
    assert (out[:64] == 2).all()


def test_a_machine_without(tmp_path: Any, without_torch: None) -> None:
    with knobs.nvidia.scope():
        knobs.nvidia.libcuda_path = str(tmp_path)
        driver = DriverConfig()
        assert isinstance(driver.active, CpuDriver)
        assert driver.get_active_gpus() == []
        with pytest.raises(RuntimeError, match="no active driver for 'cuda'"):
            driver.set_active_to_gpu()


def test_the_default_can_be_named(fake: FakeDriver, without_torch: None) -> None:
    with knobs.tilewright.scope():
        knobs.tilewright.default_backend = "cpu"
        assert isinstance(DriverConfig().active, CpuDriver)
        knobs.tilewright.default_backend = "hip"
        with pytest.raises(RuntimeError, match="no active driver for 'hip'"):
            _ = DriverConfig().active


def test_programs_choose(fake: FakeDriver, without_torch: None) -> None:
    driver, host, there = DriverConfig(), np.zeros(64, np.float32), cuda.zeros(64)
    assert driver.set_active_to_gpu() == "cuda"
    assert get_device_key() == "cuda:0"
    assert nothing[(1,)](5).metadata.target.backend == "cuda"  # no argument tells
    add[(1,)](there, there, there, 64, BLOCK=64)
    with pytest.raises(tw.ArgumentError, match="in CPU memory, and the kernel runs on cuda:0"):
        add[(1,)](host, host, host, 64, BLOCK=64)
    source = tw.ASTSource(add, {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 64})
    assert tw.compile(source).metadata.target == GPUTarget("cuda", 90, 32)
    driver.set_active_to_cpu()
    assert get_device_key() == "cpu:0"
    assert add[(1,)](host, host, host, 64, BLOCK=64).metadata.target.backend == "cpu"
    with pytest.raises(tw.ArgumentError, match="in the memory of cuda:0"):
        add[(1,)](there, there, there, 64, BLOCK=64)
    driver.reset_active()
    add[(1,)](there, there, there, 64, BLOCK=64)


@pytest.mark.slow
def test_tuning_is_for_a_machine(fake: FakeDriver, without_torch: None) -> None:
    tuned = tw.autotune([tw.Config({"BLOCK": 32}), tw.Config({"BLOCK": 64})], key=["n"], reset_to_zero=["out_ptr"])(add)
    x, out = cuda.zeros(64), cuda.zeros(64)
    host = np.zeros((3, 64), np.float32)
    for _ in range(2):
        tuned[lambda meta: (64 // meta["BLOCK"],)](x, x, out, 64)
        tuned[lambda meta: (64 // meta["BLOCK"],)](*host, 64)
    on_gpu, on_cpu = tuned.cache
    assert on_gpu == (64, "float32", "float32", "float32", "Fake GPU GPUTarget(backend='cuda', arch=90, warp_size=32)")
    assert on_cpu == on_gpu[:-1]


def test_printing_and_occupancy(fake: FakeDriver, without_torch: None) -> None:
    utilities = CudaDriver().utils
    utilities.set_printf_fifo_size(1 << 20)  # as it is
    assert fake.calls("cuCtxSetLimit") == []
    utilities.set_printf_fifo_size(4096)
    assert fake.calls("cuCtxSetLimit") == [("cuCtxSetLimit", structs.PRINTF_FIFO, 4096)]
    with pytest.raises(ValueError, match="-1 is less than no bytes"):
        utilities.set_printf_fifo_size(-1)
    assert utilities.cuOccupancyMaxActiveClusters(0x1234, 1000, 16) == 4
    assert [call[2:] for call in fake.calls("cuFuncSetAttribute")] == [(8, 1000), (14, 1)]


def test_the_clock_of_the_gpu(fake: FakeDriver, without_torch: None) -> None:
    x = cuda.zeros(64)
    fake.forget()
    runs: list[int] = []

    def run() -> None:
        runs.append(1)
        add[(1,)](x, x, x, 64, BLOCK=64)

    assert do_bench(run, warmup=1, rep=9) == 1.5  # what the fake says of all events
    order = [name for name, *_ in fake.calls("cuMemsetD8Async", "cuEventRecord", "cuLaunchKernelEx")]
    measured = ["cuMemsetD8Async", "cuEventRecord", "cuLaunchKernelEx", "cuEventRecord"]
    assert order == ["cuLaunchKernelEx", *measured * 5, "cuLaunchKernelEx", *measured * 6]
    assert fake.calls("cuMemsetD8Async")[0][3] == CACHE_BYTES
    assert len(runs) == 1 + 5 + 1 + 6
