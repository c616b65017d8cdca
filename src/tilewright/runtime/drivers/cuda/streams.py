"""Current device and stream of a thread: torch's where torch has GPUs, else ours.

Our current stream is a word of the thread that native launches read: `STREAM` in the CPU driver's `native/structs.py`.

Events in the current stream measure the duration of work on a GPU:

    milliseconds(gpu, lambda: add[grid](x, y, out, n, BLOCK=1024), 100)     # a list of 100 times

Time of the function's work on the CPU counts, too, if the GPU waits for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import byref, c_float, c_void_p
from threading import local
from typing import Any, Self

from tilewright.runtime.drivers.cpu.launcher import set_thread_stream
from tilewright.runtime.drivers.cpu.native.structs import STREAM
from tilewright.runtime.drivers.cuda.gpu import Block, Gpu


class _Thread(local):
    """The choices made by `use_device` and `set_current` in this thread."""

    def __init__(self) -> None:
        self.ordinal = 0
        self.stream = (0, 0)
        self.memory: Any = None


_thread = _Thread()


class _Known:
    """A torch that was seen to have GPUs: querying it again takes longer than a launch."""

    torch: Any = None


_known = _Known()


def imported_torch() -> Any:
    """The module torch, if the program has imported it; else None."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "cuda") else None


def torch_with_gpus() -> Any:
    """The module torch, if the program has imported it and it has GPUs of NVIDIA; else None."""
    torch = imported_torch()
    if torch is None or torch is _known.torch:
        return torch
    if not torch.cuda.is_available() or torch.version.hip is not None:
        return None
    _known.torch = torch
    return torch


def current_device() -> int:
    """The number of the GPU that is meant where none is said."""
    torch = torch_with_gpus()
    return _thread.ordinal if torch is None else int(torch.cuda.current_device())


def use_device(ordinal: int) -> None:
    """Make a GPU the default one of this thread.

    Args:
        ordinal: its number, from 0.
    """
    torch = torch_with_gpus()
    if torch is None:
        _thread.ordinal = ordinal
    else:
        torch.cuda.set_device(ordinal)


def current(ordinal: int) -> int:
    """The handle of the current stream of a GPU; 0 is the default stream."""
    torch = torch_with_gpus()
    if torch is not None:
        return int(torch.cuda.current_stream(ordinal).cuda_stream)
    device, handle = _thread.stream
    return handle if device == ordinal else 0


def set_current(ordinal: int, handle: int) -> tuple[int, int]:
    """Make a stream the current one of its GPU in this thread; gives what was current, for the next call of this."""
    torch = torch_with_gpus()
    if torch is not None:
        before = torch.cuda.current_stream(ordinal).cuda_stream
        torch.cuda.set_stream(torch.cuda.ExternalStream(handle, device=ordinal))
        return ordinal, int(before)
    before, _thread.stream = _thread.stream, (ordinal, handle)
    memory = ctypes.create_string_buffer(STREAM.pack(device=ordinal, handle=handle), STREAM.size)
    set_thread_stream(ctypes.addressof(memory))
    _thread.memory = memory  # what was there before may go only now
    return before


def torch_stream_function() -> int | None:
    """The address of torch's C function that gives the current stream: `int32_t f(int32_t device, void **stream)`."""
    torch = torch_with_gpus()
    try:
        return ctypes.addressof(
            ctypes.c_char.in_dll(ctypes.CDLL(torch._C.__file__), "aoti_torch_get_current_cuda_stream")
        )
    except (AttributeError, OSError, ValueError):
        return None


class Stream:
    """A queue of work: launches and copies on it run in order. `with stream:` makes it the current one.

    Attributes:
        handle: the driver's; 0 is the default stream.
    """

    def __init__(self, gpu: Gpu, handle: int | None = None) -> None:
        self.gpu, self.handle = gpu, handle or 0
        self._is_ours = handle is None
        self._before: list[tuple[int, int]] = []
        if handle is None:
            self.handle = gpu.get("cuStreamCreate", c_void_p, _ORDERED)

    def __del__(self) -> None:
        if self._is_ours:
            self.gpu.release("cuStreamDestroy_v2", self.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of this protocol, and the handle, for other libraries."""
        return 0, self.handle

    def __enter__(self) -> Self:
        self._before.append(set_current(self.gpu.ordinal, self.handle))
        return self

    def __exit__(self, *_: object) -> None:
        set_current(*self._before.pop())

    def synchronize(self) -> None:
        """Wait for all of its work.

        Raises:
            CudaError: some of it failed.
        """
        self.gpu.call("cuStreamSynchronize", self.handle)

    def wait(self, event: Event) -> None:
        """Make later work on the stream wait for an event."""
        self.gpu.call("cuStreamWaitEvent", self.handle, event.handle, 0)


class Event:
    """A place in a stream, with the time when its work got there.

    Attributes:
        handle: the driver's.
    """

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.handle = gpu, 0
        self.handle = gpu.get("cuEventCreate", c_void_p, 0)

    def __del__(self) -> None:
        self.gpu.release("cuEventDestroy_v2", self.handle)

    def record(self, stream: Stream | None = None) -> None:
        """Place the event behind all work that is on a stream now, or on the current one."""
        stream_handle = current(self.gpu.ordinal) if stream is None else stream.handle
        self.gpu.call("cuEventRecord", self.handle, stream_handle)

    def synchronize(self) -> None:
        """Wait for the work before the event.

        Raises:
            CudaError: some of it failed.
        """
        self.gpu.call("cuEventSynchronize", self.handle)

    def milliseconds_since(self, start: Event) -> float:
        """The time since `start`, in milliseconds; both have happened."""
        found = c_float()
        self.gpu.call("cuEventElapsedTime", byref(found), start.handle, self.handle)
        return found.value


_ORDERED = 0  # CU_STREAM_DEFAULT: waits for what is on the default stream before, and that for it


CACHE_BYTES = 256 << 20
"""Bytes to write so that nothing else is left in the second-level cache."""


def milliseconds(gpu: Gpu, fn: Callable[[], Any], count: int, before: Callable[[], None] | None = None) -> list[float]:
    """The times of `count` runs, each with nothing of its arrays in the GPU's caches.

    Args:
        fn: what to measure.
        count: the number of runs.
        before: called before each run, and not measured.
    """
    cache = Block(gpu, CACHE_BYTES)
    events = []
    for _ in range(count):
        if before is not None:
            before()
        gpu.call("cuMemsetD8Async", cache.address, 0, CACHE_BYTES, current(gpu.ordinal))
        start, end = Event(gpu), Event(gpu)
        start.record()
        fn()
        end.record()
        events.append((start, end))
    gpu.synchronize()
    return [end.milliseconds_since(start) for start, end in events]
