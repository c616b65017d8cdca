"""A libcuda.so.1 that remembers how it was called, and fails when told to: GPUs for tests.

    fake = FakeDriver(tmp_path)                     # and TRITON_LIBCUDA_PATH = tmp_path
    fake.fail("cuLaunchKernelEx", 700)
    fake.calls()                                    # [("cuInit", 0), …]
    fake.launches()[-1].grid, .block, .shared, .stream, .function, .attributes, .parameters

Its functions are LLVM IR, compiled through llvmlite and written as a shared library by `shared_object.py`. Memory of
its GPUs is memory of the process, so copies are real; kernels are not run.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from ctypes import c_int32, c_int64, c_uint64
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from shared_object import object_code, write_library

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import Function, Module
from tilewright.runtime.drivers.cuda.library import SIGNATURES

CALLS, WORDS, LAUNCHES, LAUNCH_BYTES, HEAP = 4096, 16, 64, 4096, 64 << 20
MAX_PARAMETERS, PARAMETER_BYTES, MAX_ATTRIBUTES, CONFIG_BYTES, ATTRIBUTE_BYTES = 24, 128, 4, 56, 72
NAMES = sorted(SIGNATURES)
ERRORS = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    3: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    209: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
}
ATTRIBUTES = {1: 1024, 10: 32, 12: 65536, 13: 1980000, 16: 132, 36: 3201000, 37: 6144, 75: 9, 76: 0, 95: 1, 97: 232448}
"""The attributes of its GPUs, by the numbers of CUdevice_attribute: an H100's."""
KERNEL_FACTS = {0: 1024, 1: 0, 3: 64, 4: 40}
"""The attributes of every kernel, by the numbers of CUfunction_attribute."""
SCRATCH, SCRATCH_BYTES = 0x123450000, 256 << 20
"""The address of large allocations, which nobody reads; and the largest size."""
CONTEXT, MODULE, KERNEL, STREAM, EVENT = 0xC0000, 0x40000, 0x50000, 0x60000, 0x70000
"""Handles; a counter is added."""


class State(ctypes.Structure):
    """The state of the library, at the address that `fake_state` gives."""

    _fields_ = (
        ("count", c_int64),
        ("launch_count", c_int64),
        ("heap_used", c_int64),
        ("handles", c_int64),
        ("context", c_uint64),
        ("device_count", c_int64),
        ("parameter_count", c_int64),
        ("quiet", c_int64),
        ("failures", c_int32 * len(NAMES)),
        ("device_facts", c_int32 * 256),
        ("kernel_facts", c_int32 * 16),
        ("parameter_bytes", c_int64 * MAX_PARAMETERS),
        ("log", c_uint64 * WORDS * CALLS),
        ("launches", ctypes.c_char * LAUNCH_BYTES * LAUNCHES),
        ("heap", ctypes.c_char * HEAP),
    )


def place(field: str) -> int:
    return int(getattr(State, field).offset)


class Launch(NamedTuple):
    """A call of cuLaunchKernelEx; `attributes` by number, three words of each; `parameters` as bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    function: int
    attributes: dict[int, tuple[int, int, int]]
    parameters: tuple[bytes, ...]


class FakeDriver:
    """The library, and what tests see and change of it.

    Attributes:
        folder: where it is.
        state: its memory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "libcuda.so.1"
        write_library(code(), path)
        self._library = ctypes.CDLL(str(path))
        self._library.fake_state.restype = ctypes.c_void_p
        self.state = State.from_address(self._library.fake_state())
        self.reset()

    def reset(self) -> None:
        """Forget calls and failures; two H100s without a current context."""
        self.forget()
        self.state.failures = (c_int32 * len(NAMES))()
        self.state.device_count, self.state.context, self.state.parameter_count = 2, 0, 0
        for number, value in ATTRIBUTES.items():
            self.state.device_facts[number] = value
        for number, value in KERNEL_FACTS.items():
            self.state.kernel_facts[number] = value

    def fail(self, name: str, code: int) -> None:
        """Have a function give an error from now on; with 0, no longer."""
        self.state.failures[NAMES.index(name)] = code

    def calls(self, *names: str) -> list[tuple[Any, ...]]:
        """The calls so far, of these functions or all of them, with arguments as numbers."""
        found = []
        for row in self.state.log[: self.state.count]:
            name = NAMES[row[0]]
            if not names or name in names:
                found.append((name, *row[1 : 1 + len(SIGNATURES[name])]))
        return found

    def forget(self) -> None:
        """Forget the calls so far."""
        self.state.count = self.state.launch_count = 0

    def expect(self, *sizes: int) -> None:
        """Tell the driver the parameters' bytes in the next launches: nothing of this is part of a call."""
        self.state.parameter_count = len(sizes)
        for index, size in enumerate(sizes):
            self.state.parameter_bytes[index] = size

    def launches(self) -> list[Launch]:
        """The launches so far."""
        sizes = self.state.parameter_bytes[: self.state.parameter_count]
        return [_launch(bytes(raw), sizes) for raw in self.state.launches[: self.state.launch_count]]


def _launch(raw: bytes, sizes: list[int]) -> Launch:
    words = struct.unpack_from("<7I4xQQI", raw)
    function = struct.unpack_from("<Q", raw, CONFIG_BYTES)[0]
    start = CONFIG_BYTES + 8
    attributes = {}
    for index in range(words[9]):
        number, _, x, y, z = struct.unpack_from("<5I", raw, start + index * ATTRIBUTE_BYTES)
        attributes[number] = (x, y, z)
    start += MAX_ATTRIBUTES * ATTRIBUTE_BYTES
    parameters = []
    for index, size in enumerate(sizes):
        parameters.append(raw[start + index * PARAMETER_BYTES :][:size])
    return Launch(words[:3], words[3:6], words[6], words[7], function, attributes, tuple(parameters))


@cache
def code() -> bytes:
    """The object file of the library."""
    module = Module()
    module.declarations.append(f"@state = internal global [{ctypes.sizeof(State)} x i8] zeroinitializer, align 64")
    for name, value in _texts().items():
        data = value.encode() + b"\0"
        spelled = "".join(f"\\{byte:02X}" for byte in data)
        module.declarations.append(f'@{name} = internal constant [{len(data)} x i8] c"{spelled}"')
    f = module.function("fake_state", "ptr", {}, exported=True)
    f.give(_state(f))
    for name in NAMES:
        _function(module, name)
    return object_code(module.text())


def _texts() -> Mapping[str, str]:
    found = {f"error_{code}_{index}": text for code, texts in ERRORS.items() for index, text in enumerate(texts)}
    return {**found, "model": "Fake GPU", "complaint": "ptxas error: the fake does not like it"}


def _state(f: Function) -> Lanes:
    return f.emit("ptr", "getelementptr i8, ptr @state, i64 0")


KINDS = {ctypes.c_int: "i32", ctypes.c_uint: "i32", ctypes.c_size_t: "i64", c_uint64: "i64", ctypes.c_ubyte: "i8"}


def _function(module: Module, name: str) -> None:
    """Notes the call; gives the error that was asked for; does its work; gives 0."""
    parameters = {f"a{index}": KINDS.get(kind, "ptr") for index, kind in enumerate(SIGNATURES[name])}
    f = module.function(name, "i32", parameters, exported=True)
    state = _state(f)
    arguments = [f[key] for key in parameters]
    with f.when(f.load("i64", state, place("quiet")).equals(0)):
        _note(f, state, name, arguments)
    failure = f.load("i32", state, place("failures") + 4 * NAMES.index(name))
    with f.when(failure.differs(0)):
        if name == "cuModuleLoadDataEx":
            _complain(f)
        f.give(failure)
    WORK.get(name, lambda f, state: None)(f, state)
    f.give(0)


def _note(f: Function, state: Lanes, name: str, arguments: list[Lanes]) -> None:
    count = f.load("i64", state, place("count"))
    row = f.at(state, (count & (CALLS - 1)) * (8 * WORDS) + place("log"))
    for index, value in enumerate([f.constant("i64", NAMES.index(name)), *arguments]):
        wide = value.to("i64") if value.kind.type in ("i64", "ptr") else value.widened("i64")
        f.store(wide, row, 8 * index)
    f.store(count + 1, state, place("count"))


def _complain(f: Function) -> None:
    """Into the buffer of the first option."""
    _copy(f, f.load("ptr", f["a4"]), f.emit("ptr", "getelementptr i8, ptr @complaint, i64 0"), 40)


def _copy(f: Function, target: Lanes, source: Lanes, count: Lanes | int) -> None:
    with f.counted(f.constant("i64", count)) as index:
        f.store(f.load("i8", f.at(source, index)), f.at(target, index))


def _give_fact(field: str, number: str) -> Any:
    def work(f: Function, state: Lanes) -> None:
        f.store(f.load("i32", state, f[number].to("i64") * 4 + place(field)), f["a0"])

    return work


def _handle(base: int) -> Any:
    """A new handle through the first parameter."""

    def work(f: Function, state: Lanes) -> None:
        number = f.load("i64", state, place("handles"))
        f.store(number + 1, state, place("handles"))
        f.store(number + base, f["a0"])

    return work


def _number(value: int, kind: str = "i32") -> Any:
    def work(f: Function, state: Lanes) -> None:
        f.store(f.constant(kind, value), f["a0"])

    return work


def _device(f: Function, state: Lanes) -> None:
    with f.when(f["a1"].to("i64") >= f.load("i64", state, place("device_count"))):
        f.give(101)
    f.store(f["a1"], f["a0"])


def _describe(index: int) -> Any:
    def work(f: Function, state: Lanes) -> None:
        for number in ERRORS:
            with f.when(f["a0"].equals(number)):
                f.store(f.emit("ptr", f"getelementptr i8, ptr @error_{number}_{index}, i64 0"), f["a1"])
                f.give(0)
        f.give(1)

    return work


def _allocate(f: Function, state: Lanes) -> None:
    with f.when((f["a1"] >= HEAP) & (f["a1"] <= SCRATCH_BYTES)):
        f.store(f.constant("i64", SCRATCH), f["a0"])
        f.give(0)
    used = f.load("i64", state, place("heap_used"))
    after = (used + f["a1"] + 255) & -256
    with f.when(after > HEAP - 256):
        f.give(2)
    f.store(after, state, place("heap_used"))
    first = (f.at(state, place("heap")).to("i64") + 255) & -256
    f.store(first + used, f["a0"])


def _memcpy(f: Function, state: Lanes) -> None:
    _copy(f, f["a0"].to("ptr"), f["a1"].to("ptr"), f["a2"])


def _memset(f: Function, state: Lanes) -> None:
    with f.when(f["a0"].equals(SCRATCH)):
        f.give(0)
    with f.counted(f["a2"]) as index:
        f.store(f["a1"], f.at(f["a0"].to("ptr"), index))


def _owner(f: Function, state: Lanes) -> None:
    distance = f["a2"] - f.at(state, place("heap")).to("i64")
    with f.when((distance < 0) | (distance >= HEAP)):
        f.give(1)
    f.store(f.constant("i32", 0), f["a0"])


def _launch_kernel(f: Function, state: Lanes) -> None:
    count = f.load("i64", state, place("launch_count"))
    raw = f.at(state, (count & (LAUNCHES - 1)) * LAUNCH_BYTES + place("launches"))
    with f.when(f.load("i64", state, place("quiet")).differs(0)):
        f.give(0)
    f.store(count + 1, state, place("launch_count"))
    _copy(f, raw, f["a0"], CONFIG_BYTES)
    f.store(f["a1"], raw, CONFIG_BYTES)
    attributes = f.load("ptr", f["a0"], 40)
    bytes_of_all = f.load("i32", f["a0"], 48).to("i64") * ATTRIBUTE_BYTES
    _copy(f, f.at(raw, CONFIG_BYTES + 8), attributes, bytes_of_all)
    values = f.at(raw, CONFIG_BYTES + 8 + MAX_ATTRIBUTES * ATTRIBUTE_BYTES)
    with f.counted(f.load("i64", state, place("parameter_count"))) as index:
        size = f.load("i64", state, index * 8 + place("parameter_bytes"))
        _copy(f, f.at(values, index * PARAMETER_BYTES), f.load("ptr", f["a2"], index * 8), size)


def _encode(f: Function, state: Lanes) -> None:
    """The arguments one after the other, where a GPU would have its own form; misaligned ones are refused."""
    with f.when(((f["a0"].to("i64") & 63) | (f["a3"] & 15)).differs(0)):
        f.give(1)
    with f.counted(f.constant("i64", 16)) as index:
        f.store(f.constant("i64", 0), f["a0"], index * 8)
    for index, name in enumerate(("a1", "a2", "a8", "a9", "a10", "a11")):
        f.store(f[name], f["a0"], 4 * index)
    f.store(f["a3"], f["a0"], 24)
    rank = f["a2"].to("i64")
    with f.counted(rank) as axis:
        f.store(f.load("i64", f["a4"], axis * 8).to("i32"), f["a0"], axis * 4 + 32)
        f.store(f.load("i32", f["a6"], axis * 4), f["a0"], axis * 4 + 52)
        f.store(f.load("i32", f["a7"], axis * 4), f["a0"], axis * 4 + 72)
    with f.counted(rank - 1) as axis:
        f.store(f.load("i64", f["a5"], axis * 8).to("i32"), f["a0"], axis * 4 + 92)


WORK: Mapping[str, Any] = {
    "cuCtxGetCurrent": lambda f, state: f.store(f.load("i64", state, place("context")), f["a0"]),
    "cuCtxGetLimit": _number(1 << 20, "i64"),
    "cuCtxSetCurrent": lambda f, state: f.store(f["a0"], state, place("context")),
    "cuDeviceGet": _device,
    "cuDeviceGetAttribute": _give_fact("device_facts", "a1"),
    "cuDeviceGetCount": lambda f, state: f.store(f.load("i32", state, place("device_count")), f["a0"]),
    "cuDeviceGetName": lambda f, state: _copy(f, f["a0"], f.emit("ptr", "getelementptr i8, ptr @model, i64 0"), 9),
    "cuDevicePrimaryCtxRetain": lambda f, state: f.store(f["a1"].to("i64") + CONTEXT, f["a0"]),
    "cuDeviceTotalMem_v2": _number(HEAP, "i64"),
    "cuDriverGetVersion": _number(13000),
    "cuEventCreate": _handle(EVENT),
    "cuEventElapsedTime": lambda f, state: f.store(f.constant("float", "0x3FF8000000000000"), f["a0"]),
    "cuFuncGetAttribute": _give_fact("kernel_facts", "a1"),
    "cuGetErrorName": _describe(0),
    "cuGetErrorString": _describe(1),
    "cuLaunchKernelEx": _launch_kernel,
    "cuMemAlloc_v2": _allocate,
    "cuMemcpyDtoDAsync_v2": _memcpy,
    "cuMemcpyDtoHAsync_v2": _memcpy,
    "cuMemcpyHtoDAsync_v2": _memcpy,
    "cuMemsetD8Async": _memset,
    "cuModuleGetFunction": _handle(KERNEL),
    "cuModuleLoadDataEx": _handle(MODULE),
    "cuOccupancyMaxActiveClusters": _number(4),
    "cuPointerGetAttribute": _owner,
    "cuStreamCreate": _handle(STREAM),
    "cuStreamIsCapturing": _number(0),
    "cuTensorMapEncodeTiled": _encode,
}
