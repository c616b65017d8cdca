"""torch decides on current device and stream where it has GPUs: a stand-in for it, on the fake driver."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from gpu_kernels import add

from tilewright import cuda
from tilewright.runtime import lazy_imports
from tilewright.runtime.drivers.cuda import streams

DEFAULT, OTHER = 0, 0xBEEF


class FakeTorch:
    """A stand-in with as much of torch as the driver asks."""

    version = SimpleNamespace(hip=None)

    def __init__(self) -> None:
        self.device, self.stream = 1, DEFAULT
        self.cuda: Any = SimpleNamespace(
            is_available=lambda: True,
            current_device=lambda: self.device,
            set_device=lambda ordinal: setattr(self, "device", ordinal),
            current_stream=lambda ordinal: SimpleNamespace(cuda_stream=self.stream),
            set_stream=lambda stream: setattr(self, "stream", stream.cuda_stream),
            ExternalStream=lambda handle, device: SimpleNamespace(cuda_stream=handle),
        )


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    found = FakeTorch()
    monkeypatch.setattr(streams, "imported_torch", lambda: found)
    yield found
    streams._known.torch = None


class Tensor:
    """A tensor of this torch."""

    dtype = np.dtype(np.float32)

    def __init__(self, memory: cuda.DeviceArray) -> None:
        self.memory, self.device = memory, Device(memory.gpu.ordinal)

    def data_ptr(self) -> int:
        return self.memory.data_ptr()


class Device:
    """torch.device."""

    type = "cuda"

    def __init__(self, index: int) -> None:
        self.index = index

    def __str__(self) -> str:
        return f"cuda:{self.index}"


def test_the_current_device_is_that_of_torch(fake: FakeDriver, torch: FakeTorch) -> None:
    assert cuda.device().ordinal == 1
    cuda.use_device(0)
    assert torch.device == 0
    assert cuda.empty(1).device == "cuda:0"


def test_launches_are_on_its_current_stream(fake: FakeDriver, torch: FakeTorch) -> None:
    x = Tensor(cuda.zeros(64, device=1))
    for stream in (DEFAULT, OTHER, DEFAULT):
        torch.stream = stream
        kernel = add[(1,)](x, x, x, 64, BLOCK=64)
        assert fake.launches()[-1].stream == stream
    assert kernel.metadata.target.backend == "cuda"
    with cuda.stream(1) as ours:
        assert torch.stream == ours.handle
        add[(1,)](x, x, x, 64, BLOCK=64)
        assert fake.launches()[-1].stream == ours.handle
    assert torch.stream == DEFAULT


def test_without_the_c_function_of_torch_each_launch_asks_it(fake: FakeDriver, torch: FakeTorch) -> None:
    assert streams.torch_stream_function() is None
    x = cuda.zeros(64, device=0)
    for stream in (DEFAULT, DEFAULT, OTHER):
        torch.stream = stream
        add[(1,)](x, x, x, 64, BLOCK=4)
    assert [launch.stream for launch in fake.launches()] == [DEFAULT, DEFAULT, OTHER]


def test_a_gpu_that_torch_uses_is_measured_by_its_clock(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lazy_imports.busy_gpu() is not None
    monkeypatch.setattr("tilewright.runtime.drivers.cuda.device.is_in_use", lambda: False)
    assert lazy_imports.busy_gpu() is None
