"""Launches on GPUs, against a driver that remembers how it was called."""

from __future__ import annotations

import struct
from threading import Thread
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from fake_driver import KERNEL, FakeDriver
from gpu_kernels import add, fill, product, through_descriptor, wide

import tilewright as tw
from tilewright import cuda
from tilewright.backends.base import GPUTarget
from tilewright.backends.nvidia import backend
from tilewright.backends.registry import make_backend
from tilewright.runtime import devices
from tilewright.runtime.allocation import allocator
from tilewright.runtime.drivers.cuda import launching, structs
from tilewright.runtime.drivers.cuda.launching import Shape, _scratch
from tilewright.support import knobs

launch_from_python = launching.launch
POINTERS = 8, 8, 8, 4, 8, 8
"""Bytes of the parameters of `add`: its own, and two pointers to scratch memory."""


def arrays(n: int = 1000) -> tuple[cuda.DeviceArray, ...]:
    return cuda.copy(np.arange(n, dtype=np.float32)), cuda.copy(np.ones(n, np.float32)), cuda.empty(n)


def words(values: tuple[bytes, ...]) -> list[int]:
    return [int.from_bytes(value, "little") for value in values]


def test_slow_and_native_launches_are_the_same(fake: FakeDriver) -> None:
    x, y, out = arrays()
    fake.expect(*POINTERS)
    kernel = add[(4, 2, 3)](x, y, out, 1000, BLOCK=256)
    before = len(fake.calls())
    assert add[(4, 2, 3)](x, y, out, 1000, BLOCK=256) is kernel
    slow, native = fake.launches()
    assert slow == native
    assert (slow.grid, slow.block, slow.shared, slow.stream) == ((4, 2, 3), (128, 1, 1), 0, 0)
    assert slow.function == kernel.function >= KERNEL
    assert words(slow.parameters) == [x.data_ptr(), y.data_ptr(), out.data_ptr(), 1000, 0, 0]
    assert [name for name, *_ in fake.calls()[before:]] == ["cuCtxGetCurrent", "cuLaunchKernelEx"]


def test_compiled_for_the_gpu(fake: FakeDriver) -> None:
    kernel = add[(1,)](*arrays(), 1000, BLOCK=128)
    assert kernel.metadata.target == GPUTarget("cuda", 90, 32)
    assert ".target sm_90a" in kernel.asm["ptx"]
    loaded = fake.calls("cuModuleLoadDataEx", "cuModuleGetFunction")
    assert [name for name, *_ in loaded] == ["cuModuleLoadDataEx", "cuModuleGetFunction"]
    assert loaded[0][3] == 2, "options: a buffer for what the assembler says, and its size"
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (40, 16, 1024)
    on_cpu = add[(1,)](*np.ones((3, 1000), np.float32), 1000, BLOCK=128)
    assert on_cpu.metadata.target.backend == "cpu"


def test_the_driver_assembles_where_there_is_no_ptxas(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_ptxas", lambda capability: None)
    make_backend.cache_clear()
    try:
        x, y, out = arrays()
        kernel = add[(1,)](x, y, out, 1000, BLOCK=2)
    finally:
        make_backend.cache_clear()
    assert "cubin" not in kernel.asm
    assert kernel.kernel.lstrip().startswith(b"//")
    assert (kernel.n_regs, kernel.n_spills) == (40, 16)  # what the fake says of all kernels
    assert len(fake.launches()) == 1


def test_numbers_have_the_size_of_their_types(fake: FakeDriver) -> None:
    fake.expect(8, 8, 4, 8, 1, 2, 2, 1, 8, 8)
    out = cuda.empty(1, np.float64)
    for _ in range(2):
        fill[(1,)](out, -5, 1.5, 2.5, -3, 0.25, 1.0078125 + 2**-9, True)
    first, second = fake.launches()
    assert first == second
    _, a, b, c, d, e, f, g, *_ = first.parameters
    assert struct.unpack("<qfdbe", a + b + c + d + e) == (-5, 1.5, 2.5, -3, 0.25)
    assert struct.unpack("<H", f) == (0x3F81,)
    assert g == b"\x01"


def test_streams(fake: FakeDriver) -> None:
    x, y, out = arrays()
    stream = cuda.stream()
    assert stream.handle

    def launch(**options: Any) -> int:
        add[(1,)](x, y, out, 1000, BLOCK=64, **options)
        return fake.launches()[-1].stream

    assert [launch() for _ in range(2)] == [0, 0]
    with stream:
        assert cuda.current_stream().handle == stream.handle
        assert [launch() for _ in range(2)] == [stream.handle] * 2
    assert launch() == 0
    assert [launch(stream=stream) for _ in range(2)] == [stream.handle] * 2
    assert [launch(stream=77) for _ in range(2)] == [77, 77]
    kernel = add[(1,)](x, y, out, 1000, BLOCK=64)
    kernel[(1,)](x, y, out, 1000, 64, stream=stream)
    assert fake.launches()[-1].stream == stream.handle


def test_a_stream_is_current_in_its_thread_only(fake: FakeDriver) -> None:
    x, y, out = arrays()
    with cuda.stream() as stream:
        add[(1,)](x, y, out, 1000, BLOCK=64)
        thread = Thread(target=lambda: add[(1,)](x, y, out, 1000, BLOCK=64))
        thread.start()
        thread.join()
        add[(1,)](x, y, out, 1000, BLOCK=64)
    assert [launch.stream for launch in fake.launches()] == [stream.handle, 0, stream.handle]


def test_streams_of_other_libraries(fake: FakeDriver) -> None:

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 5

    class Torch:
        cuda_stream = 6

    class Cupy:
        ptr = 7

    assert [devices.stream_handle(stream) for stream in (Protocol(), Torch(), Cupy(), 8, None)] == [5, 6, 7, 8, None]
    with pytest.raises(TypeError, match="a list is no stream"):
        add[(1,)](*arrays(), 1000, BLOCK=64, stream=[])


def test_each_gpu_has_its_own_context_and_code(fake: FakeDriver) -> None:
    first, second = (cuda.zeros(64, device=ordinal) for ordinal in (0, 1))
    for array in (first, second, first, second):
        add[(1,)](array, array, array, 64, BLOCK=8)
    functions = [launch.function for launch in fake.launches()]
    assert functions[0] == functions[2] != functions[1] == functions[3]
    assert len(fake.calls("cuModuleLoadDataEx")) == 2
    # The first context stays current; the other one only while it is needed.
    contexts = [call[1] for call in fake.calls("cuCtxSetCurrent")[-2:]]
    assert contexts == [cuda.device(1).context, cuda.device(0).context]


def test_large_shared_memory_is_asked_for_once(fake: FakeDriver) -> None:
    a = cuda.zeros((4, 64, 64), np.float16)
    out = cuda.zeros((64, 64))
    kernel = None
    for _ in range(2):
        kernel = product[(1,)](a, a, out, 4, SIZE=64, num_stages=5)
    assert kernel is not None
    assert kernel.metadata.shared > structs.UNLIMITED_SHARED
    handle = kernel.function
    assert fake.calls("cuFuncSetAttribute") == [
        ("cuFuncSetAttribute", handle, structs.DYNAMIC_SHARED, kernel.metadata.shared)
    ]
    assert fake.calls("cuFuncSetCacheConfig") == [("cuFuncSetCacheConfig", handle, structs.PREFER_SHARED)]
    assert [launch.shared for launch in fake.launches()] == [kernel.metadata.shared] * 2


@pytest.mark.parametrize("options", [{"launch_pdl": True}, {"launch_cooperative_grid": True}, {}])
def test_launch_attributes(fake: FakeDriver, options: dict[str, Any]) -> None:
    for _ in range(2):
        add[(3,)](*arrays(), 1000, BLOCK=128, **options)
    expected = {6: (1, 0, 0)} if "launch_pdl" in options else {2: (1, 0, 0)} if options else {}
    assert [launch.attributes for launch in fake.launches()] == [expected] * 2


class Facts:
    """Metadata of a kernel in clusters, which the compiler need not know how to make."""

    num_warps, num_ctas, shared = 4, 16, 100

    def _asdict(self) -> dict[str, Any]:
        return {}


def test_clusters() -> None:
    shape = Shape.of(Facts())
    config = shape.config((3, 5, 7), 0)
    assert tuple(config.grid) == (48, 5, 7)
    found = {a.id: tuple(a.value[:3]) for a in shape.attributes[: config.attribute_count]}
    assert found == {structs.ATTRIBUTE_CLUSTER: (16, 1, 1), structs.ATTRIBUTE_CLUSTER_POLICY: (structs.SPREAD, 0, 0)}


@pytest.mark.parametrize("grid", [(0,), lambda meta: (0, meta["BLOCK"])])
def test_empty_grids_are_not_launched(fake: FakeDriver, grid: Any) -> None:
    """Neither by the first launch with such arguments nor by the next, which knows them."""
    new = tw.jit(add.fn)
    for _ in range(2):
        new[grid](*arrays(), 1000, BLOCK=128)
    assert fake.launches() == []


def test_grid_functions_and_many_arguments(fake: FakeDriver) -> None:
    fake.expect(8, 8, 8, 4, 4, 4, 4, 4)
    a = cuda.zeros(16)
    for _ in range(2):
        wide[lambda meta: (meta["n"],)](a, a, a, 9, 8, 7, 0.5, 2.0)
    slow, native = fake.launches()
    assert slow == native
    assert slow.grid == (9, 1, 1)
    assert struct.unpack("<iiiff", b"".join(slow.parameters[3:])) == (9, 8, 7, 0.5, 2.0)


def test_alignment_makes_kernels_of_their_own(fake: FakeDriver) -> None:
    x, y, out = arrays(64)
    aligned = [add[(1,)](x, y, out, 64, BLOCK=64) for _ in range(2)]
    other = View(x.data_ptr() + 4)
    unaligned = [add[(1,)](other, y, out, 64, BLOCK=64) for _ in range(2)]
    assert aligned[0] is aligned[1] is not unaligned[0] is unaligned[1]


class View:
    """A tensor of another library, on the first GPU."""

    dtype = np.dtype(np.float32)

    def __init__(self, address: int, device: str = "cuda:0") -> None:
        self.address, self.device = address, device

    def data_ptr(self) -> int:
        return self.address


class Exporter:
    """An array of a library that has `__cuda_array_interface__` only."""

    def __init__(self, array: cuda.DeviceArray, **changes: Any) -> None:
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changes}


def test_cuda_array_interface(fake: FakeDriver) -> None:
    x, y, out = arrays()
    assert x.__cuda_array_interface__["version"] == 3  # the one with streams
    fake.expect(*POINTERS)
    add[(1,)](Exporter(x), Exporter(y, stream=None), out, 1000, BLOCK=64)
    assert words(fake.launches()[-1].parameters)[:3] == [x.data_ptr(), y.data_ptr(), out.data_ptr()]
    assert fake.calls("cuEventRecord") == []
    add[(1,)](Exporter(x, stream=99), y, out, 1000, BLOCK=64)
    ((_, event, theirs),) = fake.calls("cuEventRecord")
    assert theirs == 99
    assert fake.calls("cuStreamWaitEvent") == [("cuStreamWaitEvent", 0, event, 0)]
    names = [name for name, *_ in fake.calls("cuStreamWaitEvent", "cuLaunchKernelEx")]
    assert names[-2:] == ["cuStreamWaitEvent", "cuLaunchKernelEx"]


def test_read_only_exports_are_not_stored_to(fake: FakeDriver) -> None:
    x, y, out = arrays()
    locked = Exporter(out, data=(out.data_ptr(), True))
    with pytest.raises(tw.ReadOnlyError, match="argument 'out_ptr'"):
        add[(1,)](x, y, locked, 1000, BLOCK=64)


def test_hooks(fake: FakeDriver) -> None:
    told: list[Any] = []
    x, y, out = arrays()
    add[(1,)](x, y, out, 1000, BLOCK=32)

    def hook(metadata: Any) -> None:
        told.append(metadata.get())

    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(hook)
        with cuda.stream() as stream:
            add[(1,)](x, y, out, 1000, BLOCK=32)
        knobs.runtime.launch_enter_hook.remove(hook)
    assert [(entry["name"], entry["stream"]) for entry in told] == [("add", stream.handle)]
    assert told[0]["function"] == fake.launches()[-1].function


def test_memory_of_the_cpu_is_no_scratch_memory(fake: FakeDriver) -> None:
    """The kernel read where nothing is, and the process could not use the GPU any more."""

    class Scratch(Facts):
        num_ctas, global_scratch_size, global_scratch_align = 1, 128, 64
        profile_scratch_size, profile_scratch_align = 0, 1

    class OnCpu:
        is_cuda = False

        def data_ptr(self) -> int:
            return 1 << 20

    token = allocator.set(lambda size, alignment, stream: OnCpu())
    try:
        with pytest.raises(tw.ArgumentError, match=r"made a OnCpu in CPU memory .*device=.cuda."):
            _scratch(cuda.device(), Scratch(), 6, 0)
    finally:
        allocator.reset(token)


def test_scratch_memory_comes_from_the_allocator(fake: FakeDriver) -> None:
    asked: list[tuple[int, int, int | None]] = []
    memory = cuda.zeros(1024, np.uint8)

    class Scratch(Facts):
        num_ctas, global_scratch_size, global_scratch_align = 2, 128, 64
        profile_scratch_size, profile_scratch_align = 0, 1

    def give(size: int, alignment: int, stream: int | None) -> cuda.DeviceArray:
        asked.append((size, alignment, stream))
        return memory

    token = allocator.set(give)
    found = _scratch(cuda.device(), Scratch(), 6, 0)
    allocator.reset(token)
    assert asked == [(128 * 6 * 2, 64, 0)]
    assert found == [memory, None]
    own = [_scratch(cuda.device(), Scratch(), programs, stream)[0] for programs, stream in ((6, 0), (5, 0), (6, 8))]
    assert own[0] is own[1] is not own[2]  # nobody said where from; each stream has its own
    assert all(block is not None and block.data_ptr() % 64 == 0 for block in own)


def test_known_launches_use_scratch_memory_again(fake: FakeDriver) -> None:
    fake.expect(8, 4, 8, 8)
    x, streams = cuda.zeros((512, 32)), (cuda.stream(), cuda.stream())
    by_python = 0

    def counted(*arguments: Any) -> None:
        nonlocal by_python
        by_python += 1
        launch_from_python(*arguments)

    def launch(programs: int, **options: Any) -> tuple[int, int]:
        """The number of launches that were Python's, and the address of the scratch memory."""
        before = by_python
        kernel = through_descriptor[(programs,)](x, 512, ROWS=16, **options)
        assert kernel.metadata.global_scratch_size > 0
        return by_python - before, int.from_bytes(fake.launches()[-1].parameters[2], "little")

    with patch.object(launching, "launch", counted):
        first, again, fewer, more = launch(40), launch(40), launch(2), launch(800)
        assert [calls for calls, _ in (first, again, fewer, more)] == [1, 0, 0, 1]
        assert first[1] == again[1] == fewer[1] != more[1] != 0
        assert launch(40) == (0, more[1])
        with streams[0]:
            there = launch(40)
            assert there[0] == 1
            assert there[1] != more[1]
            assert launch(40) == (0, there[1])
        assert launch(80) == (1, more[1])
        given = [launch(80, stream=stream) for stream in streams for _ in range(2)]
        assert [calls for calls, _ in given] == [1, 0, 1, 0]
        assert given[0][1] == given[1][1] != given[2][1] == given[3][1]
        assert [launch(4, launch_pdl=True)[0] for _ in range(2)] == [1, 1]  # perhaps at the same time


def test_the_program_may_say_which_device(fake: FakeDriver) -> None:
    host = np.ones(64, np.float32)
    x, y, out = arrays(64)
    with devices.using(cuda.device(0)):
        assert add[(1,)](x, y, out, 64, BLOCK=64).metadata.target.backend == "cuda"
        with pytest.raises(tw.ArgumentError, match="'x_ptr' is in CPU memory, and the kernel runs on cuda:0"):
            add[(1,)](host, host, host, 64, BLOCK=64)
        with devices.using(devices.CPU):
            add[(1,)](host, host, host, 64, BLOCK=64)
            with pytest.raises(tw.ArgumentError, match=r"'x_ptr' is in the memory of cuda:0, and .* on the CPU"):
                add[(1,)](x, y, out, 64, BLOCK=64)
    assert host[0] == 2
    devices.choose(devices.CPU)
    try:
        with pytest.raises(tw.ArgumentError, match=r"'x_ptr' is in the memory of cuda:0, and .* on the CPU"):
            add[(1,)](x, y, out, 64, BLOCK=64)
    finally:
        devices.choose(devices.BY_ARGUMENTS)
