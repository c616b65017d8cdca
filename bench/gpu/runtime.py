"""Tilewright on a GPU: arrays, streams, contexts, prints, assertions, torch, errors; each in a process of its own.

python bench/gpu/runtime.py build/gpu/right.json       # adds its rows to what the part found
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from processes import add_rows, print_one

import tilewright as tw
import tilewright.language as tl
from tilewright import cuda

N = 1000
OUT_OF_MEMORY, ILLEGAL_ADDRESS, ASSERTION, LAUNCH_FAILED = 2, 700, 710, 719
TRAPS = (715, 718, LAUNCH_FAILED)
"""Errors that a trap may raise: an illegal instruction, an invalid program counter, a launch that failed."""


class NotInstalledError(Exception):
    """A package that a row needs is not installed."""


class Hardware:
    """Arrays on the current GPU."""

    is_real = True
    copy = staticmethod(cuda.copy)

    def numpy(self, array: Any) -> Any:
        return array.numpy()


@tw.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


@tw.jit
def count_programs(count_ptr):
    tl.atomic_add(count_ptr, 1)


@tw.jit
def store_far(x_ptr, distance):
    tl.store(x_ptr + distance, 1)


@tw.jit
def print_number(x_ptr):
    tl.device_print("seen", tl.load(x_ptr))


@tw.jit(debug=True)
def assert_positive(x_ptr):
    tl.device_assert(tl.load(x_ptr) > 0, "wants a positive number")


@tw.jit
def outer_sum(x_ptr, SIZE: tl.constexpr):
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + i * SIZE + j)
    tl.store(x_ptr + i * SIZE + j, tl.dot(x, tl.trans(x)).to(tl.float16))


@tw.jit
def trap(x_ptr):
    tl.store(x_ptr, tl.inline_asm_elementwise("trap; mov.u32 $0, 0;", "=r", [], tl.int32, is_pure=False, pack=1))


def start() -> Any:
    return np.arange(N, dtype=np.int32)


def check_added(found: Any, times: int = 1) -> None:
    """Raises AssertionError."""
    np.testing.assert_array_equal(found, start() + times)


def launch(x: Any, **options: Any) -> None:
    add_one[(tw.cdiv(N, 256),)](x, N, BLOCK=256, **options)


def is_usable(gpu: Any) -> None:
    """A launch is right: what came before did no harm."""
    x = gpu.copy(start())
    launch(x)
    check_added(gpu.numpy(x))


@contextmanager
def fails(*codes: int) -> Iterator[None]:
    """The driver gives one of these errors."""
    try:
        yield
    except cuda.CudaError as error:
        if error.code not in codes:
            raise
    else:
        raise AssertionError(f"no error, but one of {codes} was to come")


def streams(gpu: Any) -> None:
    x, first, second, event = gpu.copy(start()), cuda.stream(), cuda.stream(), cuda.event()
    cuda.synchronize()
    for _ in range(20):
        for ours, other in ((first, second), (second, first)):
            launch(x, stream=ours)
            event.record(ours)
            other.wait(event)
    cuda.synchronize()
    check_added(gpu.numpy(x), 40)


def contexts(gpu: Any) -> None:
    """Another context is current: arrays of the first one can be used, and the other one stays current."""
    x, library = gpu.copy(start()), ctypes.CDLL("libcuda.so.1")
    other, found = ctypes.c_void_p(), ctypes.c_void_p()
    assert library.cuCtxCreate_v2(ctypes.byref(other), 0, 0) == 0
    for _ in range(3):
        launch(x)
    check_added(gpu.numpy(x), 3)
    assert library.cuCtxGetCurrent(ctypes.byref(found)) == 0
    assert found.value == other.value, "another context is current"


def prints(gpu: Any) -> None:
    x = gpu.copy(np.array([-7654321], np.int32))
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        before = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            print_number[(1,)](x)
            gpu.numpy(x)
            ctypes.CDLL(None).fflush(None)
            sys.stdout.flush()
        finally:
            os.dup2(before, 1)
        file.seek(0)
        text = file.read().decode()
    assert "seen" in text, text
    assert "-7654321" in text, text


def assertions(gpu: Any) -> None:
    good, bad = (gpu.copy(np.array([number], np.int32)) for number in (1, -1))
    assert_positive[(1,)](good, debug=True)
    gpu.numpy(good)
    try:
        with fails(ASSERTION, *TRAPS):
            assert_positive[(1,)](bad, debug=True)
            gpu.numpy(bad)
    except tw.DeviceAssertError as error:
        assert "wants a positive number" in str(error)  # noqa: PT017 - one of two ways to hear of it


def torch_on_gpu() -> Any:
    """The module torch.

    Raises:
        NotInstalledError: it is not there.
    """
    if not find_spec("torch"):
        raise NotInstalledError("torch is not installed")
    return import_module("torch")


def torch_tensors(gpu: Any) -> None:
    torch = torch_on_gpu()
    x = torch.arange(N, dtype=torch.int32, device="cuda")
    launch(x)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        launch(x)
        x += 1
        launch(x)
    torch.cuda.synchronize()
    check_added(x.cpu().numpy(), 4)


def graphs(gpu: Any) -> None:
    """Launches that torch captures into a CUDA graph are repeated by it."""
    torch = torch_on_gpu()
    x = torch.arange(N, dtype=torch.int32, device="cuda")
    launch(x)  # compiled and loaded before, as torch's own kernels are
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(x)
        launch(x)
    x.copy_(torch.from_numpy(start()))
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    check_added(x.cpu().numpy(), 6)


def threads(gpu: Any) -> None:
    """Eight threads launch the same kernel, each on a stream and an array of its own."""
    arrays = [gpu.copy(start()) for _ in range(8)]
    cuda.synchronize()

    def work(x: Any) -> None:
        with cuda.stream() as stream:
            for _ in range(50):
                launch(x, stream=stream)
            stream.synchronize()

    with ThreadPoolExecutor(len(arrays)) as pool:
        list(pool.map(work, arrays))
    for x in arrays:
        check_added(gpu.numpy(x), 50)


def grids(gpu: Any) -> None:
    """Every program of large grids runs once, and none of an empty one."""
    for grid in ((1 << 20,), (2, 65535), (1, 2, 65535), (0,), (3, 0, 2)):
        count = gpu.copy(np.zeros(1, np.int32))
        count_programs[grid](count)
        assert gpu.numpy(count)[0] == prod(grid), f"{gpu.numpy(count)[0]} programs of a grid {grid}"


def array_interface(gpu: Any) -> None:
    """An object that has nothing but `__cuda_array_interface__`."""

    class Only:
        def __init__(self, array: Any) -> None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    x = gpu.copy(start())
    launch(Only(x))
    check_added(gpu.numpy(x))


def illegal_address(gpu: Any) -> None:
    x = gpu.copy(start())
    with fails(ILLEGAL_ADDRESS, *TRAPS):
        store_far[(1,)](x, 1 << 44)
        gpu.numpy(x)


def out_of_memory(gpu: Any) -> None:
    with fails(OUT_OF_MEMORY):
        cuda.empty(1 << 46, np.uint8)
    is_usable(gpu)


def out_of_resources(gpu: Any) -> None:
    x = gpu.copy(np.zeros((512, 512), np.float16))
    try:
        outer_sum[(1,)](x, 512)
    except tw.OutOfResources:
        is_usable(gpu)
    else:
        raise AssertionError("a product of 512×512 fits into shared memory")


def launch_failure(gpu: Any) -> None:
    x = gpu.copy(start())
    with fails(*TRAPS):
        trap[(1,)](x)
        gpu.numpy(x)


ROWS: dict[str, Callable[[Any], None]] = {
    "arrays": is_usable,
    **{function.__name__: function for function in (streams, contexts, prints, assertions, torch_tensors)},
    **{function.__name__: function for function in (graphs, threads, grids)},
    **{function.__name__: function for function in (array_interface, illegal_address, out_of_memory)},
    **{function.__name__: function for function in (out_of_resources, launch_failure)},
}


def row_of(name: str, gpu: Any) -> dict[str, Any]:
    """The outcome of a row; errors of any kind are its subject."""
    try:
        ROWS[name](gpu)
    except NotInstalledError as reason:
        return {"skipped": str(reason)}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the row says
        return {"good": False, "problem": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"good": True}


if __name__ == "__main__":
    if sys.argv[1] == "--skip":
        print_one(lambda name: row_of(name, Hardware()), list(ROWS), int(sys.argv[2]))
    else:
        add_rows(Path(sys.argv[1]), [sys.executable, __file__], list(ROWS))
