"""Memory of our own on GPUs, events, and facts of devices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from fake_driver import FakeDriver

import tilewright as tw
from tilewright import cuda


def test_round_trip(fake: FakeDriver) -> None:
    content = np.arange(24, dtype=np.int16).reshape(4, 6)
    there = cuda.copy(content[:, ::2])
    assert (there.shape, there.dtype, there.device, there.size, there.nbytes) == ((4, 3), np.int16, "cuda:0", 12, 24)
    assert there.stride() == (3, 1)
    assert len(there) == 4
    np.testing.assert_array_equal(there.numpy(), content[:, ::2])
    np.testing.assert_array_equal(np.asarray(cuda.copy(there)), content[:, ::2])
    np.testing.assert_array_equal(np.asarray(there, np.float32), content[:, ::2])


def test_contents(fake: FakeDriver) -> None:
    array = cuda.zeros((2, 3), ml_dtypes.bfloat16, device=1)
    assert array.device == "cuda:1"
    assert not array.numpy().any()
    array.assign(np.full((2, 3), 1.5, ml_dtypes.bfloat16))
    assert (array.numpy() == 1.5).all()
    array.clear()
    assert not array.numpy().any()
    assert cuda.empty((0, 5)).numpy().shape == (0, 5)
    assert float(cuda.copy(2.5).numpy()) == 2.5


def test_what_does_not_fit(fake: FakeDriver) -> None:
    array = cuda.empty(4)
    with pytest.raises(ValueError, match=r"shape \(5,\) do not fit into one of shape \(4,\)"):
        array.assign(np.zeros(5, np.float32))
    with pytest.raises(tw.ArgumentError, match="an array of float32 cannot take over elements of float64"):
        array.assign(np.zeros(4))
    with pytest.raises(ValueError, match=r"an extent of \(-1,\) is negative"):
        cuda.empty(-1)
    with pytest.raises(ValueError, match="cannot be seen from the CPU without a copy"):
        array.__array__(copy=False)
    with pytest.raises(TypeError, match="has no length"):
        len(cuda.empty(()))


def test_memory_is_freed_with_its_array(fake: FakeDriver) -> None:
    array = cuda.empty(100, device=1)
    address = array.data_ptr()
    del array
    assert fake.calls("cuMemFree_v2") == [("cuMemFree_v2", address)]
    assert fake.calls("cuCtxSetCurrent")[-1] == ("cuCtxSetCurrent", cuda.device(1).context)


def test_all_elements_are_set_at_once(fake: FakeDriver) -> None:
    array = cuda.zeros((2, 3), np.int32)
    other = array.clone()
    other[...] = 7
    assert (array.numpy() == 0).all()
    array[...] = other
    assert (array.numpy() == 7).all()
    with pytest.raises(TypeError, match="are set at once"):
        array[0] = 1


def test_a_forked_child_gives_nothing_back(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    things = [cuda.empty(100), cuda.stream(), cuda.event()]
    fake.forget()
    monkeypatch.setattr(cuda.device().driver, "_process", -1)
    things.clear()
    assert fake.calls() == []


def test_copies_follow_the_current_stream(fake: FakeDriver) -> None:
    with cuda.stream() as stream:
        cuda.copy(np.zeros(3)).numpy()
    copies = fake.calls("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize")
    assert {call[-1] for call in copies} == {stream.handle}
    assert len(copies) == 4


def test_events(fake: FakeDriver) -> None:
    start, end, stream = cuda.event(), cuda.event(), cuda.stream(1)
    start.record()
    end.record(stream)
    stream.wait(start)
    end.synchronize()
    stream.synchronize()
    assert end.milliseconds_since(start) == 1.5
    assert fake.calls("cuEventRecord") == [
        ("cuEventRecord", start.handle, 0),
        ("cuEventRecord", end.handle, stream.handle),
    ]
    assert fake.calls("cuStreamWaitEvent") == [("cuStreamWaitEvent", stream.handle, start.handle, 0)]


def test_devices(fake: FakeDriver) -> None:
    assert cuda.is_available()
    assert cuda.device_count() == 2
    device = cuda.device(1)
    assert (device.name, device.model, device.capability) == ("cuda:1", "Fake GPU", (9, 0))
    assert device.total_memory == 64 << 20
    assert device.properties()["multiprocessor_count"] == 132
    cuda.use_device(1)
    try:
        assert cuda.device() is device
        assert cuda.empty(1).device == "cuda:1"
    finally:
        cuda.use_device(0)
