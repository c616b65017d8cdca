"""Failures on GPUs: each is an error that says what, with CUDA's name and text."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from gpu_kernels import add, product

import tilewright as tw
from tilewright import cuda
from tilewright.backends.base import GPUTarget
from tilewright.support import knobs


def arrays() -> tuple[cuda.DeviceArray, ...]:
    return cuda.zeros(64), cuda.zeros(64), cuda.zeros(64)


def test_no_driver(tmp_path: Path) -> None:
    with knobs.nvidia.scope():
        knobs.nvidia.libcuda_path = str(tmp_path)
        assert not cuda.is_available()
        with pytest.raises(cuda.MissingDriverError, match=f"tried {tmp_path}/libcuda.so.1; .*TRITON_LIBCUDA_PATH"):
            cuda.empty(3)
        tensor = SimpleNamespace(dtype=np.dtype(np.float32), device="cuda:0", data_ptr=lambda: 4096)
        with pytest.raises(cuda.CudaError, match="cannot be loaded"):
            add[(1,)](tensor, tensor, tensor, 64, BLOCK=64)


def test_compiling_needs_no_driver(tmp_path: Path) -> None:
    with knobs.nvidia.scope():
        knobs.nvidia.libcuda_path = str(tmp_path)
        source = tw.ASTSource(add, {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 64})
        kernel = tw.compile(source, target=GPUTarget("cuda", 80, 32))
        assert ".target sm_80" in kernel.asm["ptx"]
        with pytest.raises(cuda.MissingDriverError):
            kernel[(1,)](4096, 4096, 4096, 64, None)


def test_no_gpu(fake: FakeDriver) -> None:
    fake.state.device_count = 0
    assert not cuda.is_available()
    with pytest.raises(cuda.CudaError, match=r"CUDA_ERROR_INVALID_DEVICE \(101\) from cuDeviceGet: invalid device"):
        cuda.device(7)


def test_a_library_that_does_not_start(tmp_path: Path) -> None:
    fake = FakeDriver(tmp_path)
    fake.fail("cuInit", 100)
    with knobs.nvidia.scope():
        knobs.nvidia.libcuda_path = str(tmp_path / "libcuda.so.1")
        with pytest.raises(cuda.CudaError, match=r"CUDA_ERROR_NO_DEVICE \(100\) from cuInit: no CUDA-capable device"):
            cuda.device_count()


def test_launches_that_fail(fake: FakeDriver) -> None:
    x, y, out = arrays()
    add[(1,)](x, y, out, 64, BLOCK=64)
    fake.fail("cuLaunchKernelEx", 700)
    with pytest.raises(cuda.CudaError, match=r"an illegal memory access was encountered; .*earlier") as native:
        add[(1,)](x, y, out, 64, BLOCK=64)
    with pytest.raises(cuda.CudaError) as slow:
        add[(1,)](x, y, out, 64, BLOCK=32)
    for error in (native.value, slow.value):
        assert (error.function, error.code, error.name) == ("cuLaunchKernelEx", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    fake.fail("cuLaunchKernelEx", 0)
    add[(1,)](x, y, out, 64, BLOCK=64)
    fake.fail("cuCtxGetCurrent", 3)
    with pytest.raises(cuda.CudaError, match="in the child of a fork"):
        add[(1,)](x, y, out, 64, BLOCK=64)


def test_an_unknown_error(fake: FakeDriver) -> None:
    fake.fail("cuCtxSynchronize", 12345)
    with pytest.raises(cuda.CudaError, match=r"unknown \(12345\) from cuCtxSynchronize"):
        cuda.synchronize()


def test_code_that_the_driver_does_not_take(fake: FakeDriver) -> None:
    fake.fail("cuModuleLoadDataEx", 218)
    with pytest.raises(cuda.CudaError, match=r"INVALID_PTX.*loading add, compiled for cuda:90; ptxas error: the fake"):
        add[(1,)](*arrays(), 64, BLOCK=16)


def test_too_much_shared_memory(fake: FakeDriver) -> None:
    a = cuda.zeros((4, 64, 64), np.float16)
    out = cuda.zeros((64, 64))
    fake.state.device_facts[97] = 50000
    with pytest.raises(tw.OutOfResources, match=r"shared memory, Required: .* Hardware limit: 50000") as error:
        product[(1,)](a, a, out, 4, SIZE=64, num_stages=5)
    assert error.value.required > error.value.limit == 50000
    assert fake.launches() == []


@pytest.mark.slow
def test_too_much_shared_memory_for_all_gpus_of_the_kind(fake: FakeDriver) -> None:
    a = cuda.zeros((4, 64, 64), np.float16)
    with pytest.raises(tw.OutOfResources, match=r"shared memory, Required: .* Hardware limit: 232448"):
        product[(1,)](a, a, cuda.zeros((64, 64)), 4, SIZE=64, num_stages=30)


def test_too_many_threads(fake: FakeDriver) -> None:
    fake.state.kernel_facts[0] = 128
    with pytest.raises(tw.OutOfResources, match="threads, Required: 256, Hardware limit: 128"):
        add[(1,)](*arrays(), 64, BLOCK=64, num_warps=8)


def test_arrays_in_the_wrong_memory(fake: FakeDriver) -> None:
    x, y, out = arrays()
    host = np.zeros(64, np.float32)
    message = "argument 'out_ptr' is in CPU memory, and the kernel runs on cuda:0, where argument 'x_ptr' is: pass a"
    with pytest.raises(tw.ArgumentError, match=message):
        add[(1,)](x, y, host, 64, BLOCK=64)
    on_cpu = add[(1,)](host, host, host, 64, BLOCK=64)
    with pytest.raises(tw.ArgumentError, match=r"argument 'y_ptr' is in the memory of cuda:0, and .* on the CPU"):
        on_cpu[(1,)](host, y, host, 64, 64)
    on_gpu = add[(1,)](x, y, out, 64, BLOCK=64)
    with pytest.raises(tw.ArgumentError, match="argument 'x_ptr' is in CPU memory, and the kernel runs on cuda:0"):
        on_gpu[(1,)](host, host, host, 64, 64)
    with pytest.raises(tw.ArgumentError, match=r"argument 'x_ptr' is in the memory of cuda:0, and .* on the CPU"):
        tw.jit(add.fn, interpret=True)[(1,)](x, y, out, 64, BLOCK=64)


def test_pinned_memory_can_be_used(fake: FakeDriver) -> None:
    x, y, _ = arrays()
    pinned: Any = SimpleNamespace(
        dtype=np.dtype(np.float32), device="cpu", data_ptr=lambda: 4096, is_pinned=lambda: True
    )
    fake.expect(8, 8, 8)
    for _ in range(2):
        add[(1,)](x, y, pinned, 64, BLOCK=64)
    assert int.from_bytes(fake.launches()[-1].parameters[2], "little") == 4096


def test_memory_of_nobody(fake: FakeDriver) -> None:
    class Foreign:
        def __init__(self) -> None:
            self.__cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (4096, False), "version": 3}

    foreign = Foreign()
    with pytest.raises(cuda.CudaError, match="cuPointerGetAttribute: invalid argument"):
        add[(1,)](foreign, foreign, foreign, 64, BLOCK=64)


def test_memory_runs_out(fake: FakeDriver) -> None:
    with pytest.raises(cuda.CudaError, match=r"CUDA_ERROR_OUT_OF_MEMORY \(2\) from cuMemAlloc_v2: out of memory"):
        cuda.empty(1 << 40)
