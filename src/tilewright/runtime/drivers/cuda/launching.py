"""Loading and launching kernels on a GPU: from Python, and the data for the native launcher.

    launch(gpu, kernel, (16, 1, 1), [view, 1000], None)
        → cuLaunchKernelEx(CUlaunchConfig(…), function, [&address, &number, &scratch, &scratch], null)

A kernel takes its run-time arguments, each in the size of its type, and two pointers: to scratch memory for the whole
grid, and to scratch memory for a profiler.

The driver makes tensor maps, the 128 bytes that describe a tensor to a GPU's copy engine:

encode(gpu, map_fields("desc", host_map, facts))        # passed to the kernel by value

Kernels are loaded as cubin, or as PTX that the driver assembles. More than 48 KiB of dynamic shared memory, and
clusters of more than eight programs, are enabled once, when the kernel is loaded.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import byref, c_int, c_uint32, c_uint64, c_void_p
from itertools import accumulate, islice
from math import prod
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

from tilewright.runtime.allocation import Buffer, NullAllocator, allocator
from tilewright.runtime.arrays import CUDA_MEMORY, ArrayView
from tilewright.runtime.devices import Figures
from tilewright.runtime.drivers.cpu.launcher import Specialization, own_stream_function
from tilewright.runtime.drivers.cpu.native.structs import DEVICE
from tilewright.runtime.drivers.cpu.records import MapSlot, packed
from tilewright.runtime.drivers.cuda import streams, structs
from tilewright.runtime.drivers.cuda.gpu import Block, Gpu
from tilewright.runtime.drivers.cuda.library import CudaDriver
from tilewright.runtime.errors import ArgumentError, CudaError, require
from tilewright.runtime.tensor_maps import HostMap, Images, MapFields, map_fields
from tilewright.support.named_tuple import NamedTuple

BYTES_PER_REGISTER = 4
_LOG_BYTES = 16384
_TENSOR_MEMORY_COLUMNS = 512


def load(gpu: Gpu, kernel: Any) -> Figures:
    """Load a `CompiledKernel` to a GPU.

    Raises:
        OutOfResources: it needs more shared memory, tensor memory or threads than the GPU has.
        CudaError: the driver does not take the code.
    """
    metadata = kernel.metadata
    require(metadata.shared, gpu.attribute(structs.SHARED_LIMIT), "shared memory")
    require(metadata.tmem_size, _TENSOR_MEMORY_COLUMNS, "tensor memory")
    with gpu.current() as driver:
        module = _loaded_module(driver, kernel)
        function = driver.get("cuModuleGetFunction", c_void_p, module, metadata.name.encode())
        registers, local, threads, static = (
            driver.get("cuFuncGetAttribute", c_int, number, function)
            for number in (
                structs.REGISTERS,
                structs.LOCAL_BYTES,
                structs.FUNCTION_MAX_THREADS,
                structs.STATIC_SHARED,
            )
        )
        require(structs.WARP * metadata.num_warps, threads, "threads")
        if metadata.shared > structs.UNLIMITED_SHARED:
            require(metadata.shared + static, gpu.attribute(structs.SHARED_LIMIT), "shared memory")
            driver.call("cuFuncSetCacheConfig", function, structs.PREFER_SHARED)
            driver.call("cuFuncSetAttribute", function, structs.DYNAMIC_SHARED, metadata.shared)
        if metadata.num_ctas > structs.PORTABLE_CLUSTER:
            driver.call("cuFuncSetAttribute", function, structs.LARGE_CLUSTERS, 1)
    return Figures(module, function, registers, local // BYTES_PER_REGISTER, threads)


def _loaded_module(driver: CudaDriver, kernel: Any) -> int:
    """The handle of the loaded code; an error has what the driver's assembler said."""
    log = ctypes.create_string_buffer(_LOG_BYTES)
    options = (c_int * 2)(structs.JIT_ERROR_LOG, structs.JIT_ERROR_LOG_BYTES)
    values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
    module = c_void_p()
    code = driver.function("cuModuleLoadDataEx")(byref(module), kernel.kernel + b"\0", 2, options, values)
    if code:
        error = driver.error("cuModuleLoadDataEx", code)
        said = log.value.decode(errors="replace").strip()
        target = f"loading {kernel.name}, compiled for {kernel.metadata.target.backend}:{kernel.metadata.target.arch}"
        raise CudaError(error.function, code, error.name, "; ".join(filter(None, (error.text, target, said))))
    return module.value or 0


_HALVES: Mapping[str, Callable[[float], bytes]] = {
    "fp16": lambda value: struct.pack("<e", value),
    "bf16": lambda value: struct.pack("<H", _bfloat_bits(value)),
}
"""Types that the CPU gets as fp32, and a GPU in their own size."""


class Kernel(Protocol):
    """The part of a `CompiledKernel` that launching needs."""

    name: str
    names: tuple[str, ...]
    metadata: Any
    types: tuple[str, ...]

    def loaded_on(self, device: Any) -> Figures: ...
    def slots(self) -> tuple[Any, ...]: ...


class Shape(NamedTuple):
    """The launch configuration of a kernel, whatever its arguments.

    Attributes:
        attributes: what CUlaunchConfig points to.
        attribute_count: their number.
    """

    threads: int
    clusters: int
    shared: int
    attributes: Any
    attribute_count: int

    @classmethod
    def of(cls, metadata: Any) -> Shape:
        """The shape of a kernel with these facts."""
        wanted = list(_attributes(metadata))
        memory = (structs.LaunchAttribute * max(1, len(wanted)))()
        for attribute, (number, *values) in zip(memory, wanted, strict=False):
            attribute.id = number
            attribute.value[: len(values)] = values
        return cls(structs.WARP * metadata.num_warps, metadata.num_ctas, metadata.shared, memory, len(wanted))

    def config(self, grid: Sequence[int], stream: int) -> structs.LaunchConfig:
        """The argument of a launch."""
        x, y, z = grid
        return structs.LaunchConfig(
            grid=(x * self.clusters, y, z),
            block=(self.threads, 1, 1),
            shared=self.shared,
            stream=stream,
            attributes=ctypes.addressof(self.attributes),
            attribute_count=self.attribute_count,
        )


def _attributes(metadata: Any) -> list[tuple[int, ...]]:
    """Numbers of launch attributes with their values."""
    facts = metadata._asdict()
    found: list[tuple[int, ...]] = []
    if facts.get("launch_pdl"):
        found.append((structs.ATTRIBUTE_PDL, 1))
    if facts.get("launch_cooperative_grid"):
        found.append((structs.ATTRIBUTE_COOPERATIVE, 1))
    if metadata.num_ctas > 1:
        found.append((structs.ATTRIBUTE_CLUSTER, metadata.num_ctas, 1, 1))
        found.append((structs.ATTRIBUTE_CLUSTER_POLICY, structs.SPREAD))
    return found


def launch(
    gpu: Gpu, kernel: Kernel, grid: tuple[int, int, int], values: Sequence[int | float | ArrayView], stream: int | None
) -> None:
    """Launch a kernel; returns when the launch is on its way.

    Args:
        kernel: compiled for it.
        grid: three extents, none of them 0.
        values: one per run-time argument.
        stream: the handle of a stream; None: the current one.

    Raises:
        OutOfResources: the kernel needs more than the GPU has.
        CudaError: the driver refuses, or an earlier launch failed.
    """
    function = kernel.loaded_on(gpu).function
    shape = Shape.of(kernel.metadata)
    handle = streams.current(gpu.ordinal) if stream is None else stream
    scratch = _scratch(gpu, kernel.metadata, prod(grid), handle)
    addresses = [0 if buffer is None else buffer.data_ptr() for buffer in scratch]
    if scratch[0] is not None:
        _Record.of(kernel, gpu, stream).use(scratch[0], handle, _programs(scratch[0], kernel.metadata, grid))
    config = shape.config(grid, handle)
    with gpu.current() as driver:
        slots = [*_slots(gpu, kernel, values), *(struct.pack("<Q", address) for address in addresses)]
        memory = ctypes.create_string_buffer(b"".join(slots))
        ends = accumulate(map(len, slots), initial=ctypes.addressof(memory))
        places = (c_void_p * len(slots))(*islice(ends, len(slots)))
        for value in values:
            array = value.base if isinstance(value, HostMap) else value
            if isinstance(array, ArrayView):
                _wait_for_owner(gpu, array, handle)
        driver.call("cuLaunchKernelEx", ctypes.addressof(config), function, places, None)


def _slots(gpu: Gpu, kernel: Kernel, values: Sequence[Any]) -> Iterator[bytes]:
    """The arguments: eight bytes each, 128 for a tensor map."""
    maps = iter(kernel.metadata.tensordesc_meta)
    for name, value, kind in zip(kernel.names, values, kernel.types, strict=True):
        if isinstance(value, HostMap):
            yield encode(gpu, map_fields(name.rpartition(".")[0], value, next(maps)))
        else:
            yield _slot(value, kind)


def _slot(value: int | float | ArrayView, kind: str) -> bytes:
    """An argument, in eight bytes."""
    if isinstance(value, ArrayView):
        return struct.pack("<Q", value.address)
    half = _HALVES.get(kind)
    return packed(value, kind) if half is None else half(value).ljust(8, b"\0")


def _bfloat_bits(value: float) -> int:
    """The nearest bfloat16, ties to even, of a number that is first rounded to float."""
    bits = int(struct.unpack("<I", packed(value, "fp32")[:4])[0])
    if value != value:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _scratch(gpu: Gpu, metadata: Any, programs: int, stream: int) -> list[Buffer | None]:
    """The memory behind the two last arguments; none if the kernel needs none. It is ours if the caller passes none."""
    wanted = {
        "global": (metadata.global_scratch_size, metadata.global_scratch_align),
        "profile": (metadata.profile_scratch_size, metadata.profile_scratch_align),
    }
    give = allocator.get()
    found: list[Buffer | None] = []
    for purpose, (size, align) in wanted.items():
        whole = size * programs * metadata.num_ctas
        if not whole:
            found.append(None)
        elif isinstance(give, NullAllocator):  # a kernel that begins before the one ahead has ended needs its own
            found.append(Block(gpu, whole) if _may_overlap(metadata) else gpu.scratch(purpose, whole, stream))
        else:
            found.append(_on_gpu(give(whole, align, stream)))
    return found


def _on_gpu(buffer: Buffer) -> Buffer:
    """The memory that an allocator gave; tensors of torch say where they are.

    Raises:
        ArgumentError: it is memory of the CPU, which a kernel would take for the GPU's.
    """
    if getattr(buffer, "is_cuda", True):
        return buffer
    raise ArgumentError(
        f"the function given to set_allocator() made a {type(buffer).__name__} in CPU memory for a kernel on a GPU: "
        'make it with device="cuda"'
    )


def _programs(buffer: Buffer, metadata: Any, grid: tuple[int, int, int]) -> int:
    """The number of programs for which scratch memory suffices."""
    if isinstance(buffer, Block):
        return buffer.size // int(metadata.global_scratch_size * metadata.num_ctas)
    return prod(grid)


def _may_overlap(metadata: Any) -> bool:
    """Whether a launch may begin before the one ahead of it in the stream has ended."""
    return bool(metadata._asdict().get("launch_pdl"))


class _Record:
    """The DEVICE of a kernel for launches on one stream, or on the current one.

    Attributes:
        memory: the DEVICE.
        shape: what it says of the kernel, once it does.
        buffer: the scratch memory that it refers to.
    """

    _known: ClassVar[WeakKeyDictionary[Any, dict[tuple[Gpu, int | None], _Record]]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(DEVICE.size)
        self.shape: Shape | None = None
        self.buffer: Buffer | None = None

    @classmethod
    def of(cls, kernel: Kernel, gpu: Gpu, stream: int | None) -> _Record:
        """The one of a kernel."""
        return cls._known.setdefault(kernel, {}).setdefault((gpu, stream), cls())

    @property
    def address(self) -> int:
        return ctypes.addressof(self.memory)

    def fill(self, gpu: Gpu, kernel: Kernel, stream: int, get_stream: int) -> None:
        """Write all that does not change from launch to launch."""
        assert self.shape is not None, "the shape is known"
        facts = {
            "launch": gpu.driver.address("cuLaunchKernelEx"),
            "get_context": gpu.driver.address("cuCtxGetCurrent"),
            "set_context": gpu.driver.address("cuCtxSetCurrent"),
            "get_stream": get_stream,
            "stream": stream,
            "ordinal": gpu.ordinal,
            "context": gpu.context,
            "function": kernel.loaded_on(gpu).function,
            "encode": gpu.driver.address("cuTensorMapEncodeTiled") if kernel.metadata.tensordesc_meta else 0,
            "clusters": self.shape.clusters,
            "threads": self.shape.threads,
            "shared": self.shape.shared,
            "attributes": ctypes.addressof(self.shape.attributes),
            "attribute_count": self.shape.attribute_count,
        }
        for name, value in facts.items():
            DEVICE.write(self.address, name, value)

    def use(self, buffer: Buffer, stream: int, programs: int) -> None:
        """Make native launches of up to `programs` on a stream share this scratch memory, as they run in order."""
        DEVICE.write(self.address, "scratch_programs", 0)
        DEVICE.write(self.address, "scratch", buffer.data_ptr())
        DEVICE.write(self.address, "scratch_stream", stream)
        DEVICE.write(self.address, "scratch_programs", programs)
        self.buffer = buffer


def _wait_for_owner(gpu: Gpu, view: ArrayView, stream: int) -> None:
    """Order the launch behind the work on the stream that an array's `__cuda_array_interface__` names."""
    interface = getattr(view.owner, "__cuda_array_interface__", None) if view.memory == CUDA_MEMORY else None
    theirs = (interface or {}).get("stream")
    if theirs in (None, stream) or {theirs, stream} <= _DEFAULT_STREAMS:
        return
    event = gpu.driver.get("cuEventCreate", c_void_p, _NO_TIMING)
    gpu.driver.call("cuEventRecord", event, theirs)
    gpu.driver.call("cuStreamWaitEvent", stream, event, 0)
    gpu.driver.call("cuEventDestroy_v2", event)


_DEFAULT_STREAMS, _NO_TIMING = {0, 1}, 2
GLUON_MAP = ".0"
"""The end of the name of a tensor map in a descriptor of Gluon: its first part, where others have their array."""


def specialization(
    gpu: Gpu, kernel: Kernel, values: Sequence[int | float | ArrayView], stream: int | None
) -> Specialization | None:
    """The record by which the native launcher launches a kernel as `launch` did; None if only Python can.

    Args: as of `launch`.
    """
    metadata = kernel.metadata
    is_elsewhere = any(isinstance(value, ArrayView) and not value.memory.startswith(CUDA_MEMORY) for value in values)
    needs_memory = metadata.profile_scratch_size or (metadata.global_scratch_size and _may_overlap(metadata))
    get_stream = 0 if stream is not None else _stream_function()
    named = zip(kernel.names, values, strict=True)
    is_gluon = any(isinstance(value, HostMap) and name.endswith(GLUON_MAP) for name, value in named)
    if is_gluon or is_elsewhere or needs_memory or get_stream is None or not _HALVES.keys().isdisjoint(kernel.types):
        return None
    record = _Record.of(kernel, gpu, stream)
    if record.shape is None:
        record.shape = Shape.of(metadata)
        record.fill(gpu, kernel, stream or 0, get_stream)
    maps = tuple(_map_slots(kernel, values))
    return Specialization(0, kernel, kernel.slots(), device=record.address, maps=maps, keeps=(record,))


def _map_slots(kernel: Kernel, values: Sequence[Any]) -> Iterator[MapSlot]:
    """The recipes for the tensor maps among the arguments, which are those of this launch but for the tensors."""
    maps = iter(kernel.metadata.tensordesc_meta)
    for number, (slot, value) in enumerate(zip(kernel.slots(), values, strict=True)):
        if isinstance(value, HostMap):
            facts = next(maps)
            fields = map_fields("", value, facts)
            yield MapSlot(
                number,
                (slot.parameter, *slot.elements[:-1]),
                facts["elem_size"],
                ELEMENTS[fields.element],
                fields.swizzle,
                int(fields.pads_with_nan),
                facts["fp4_padded"],
                fields.box,
            )


def _stream_function() -> int | None:
    """A C function that gives the current stream."""
    return own_stream_function() if streams.torch_with_gpus() is None else streams.torch_stream_function()


MAP_BYTES, MAP_ALIGNMENT = 128, 64
ELEMENTS = {**{number: number for number in range(16)}, 8: 10, 9: 8, 10: 9}
"""PTX's number of an element type → CUtensorMapDataType."""
NO_INTERLEAVING, PROMOTE_128_BYTES = 0, 2


def encode(gpu: Gpu, fields: MapFields) -> bytes:
    """The tensor map.

    Raises:
        CudaError: the driver refuses it.
    """
    rank = len(fields.shape)
    memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    place = -(-ctypes.addressof(memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    tensor = (
        ELEMENTS[fields.element],
        rank,
        fields.address,
        (c_uint64 * rank)(*fields.shape),
        (c_uint64 * rank)(*fields.strides),
    )
    rest = NO_INTERLEAVING, fields.swizzle, PROMOTE_128_BYTES, int(fields.pads_with_nan)
    if fields.images is None:
        name, box = "cuTensorMapEncodeTiled", ((c_uint32 * rank)(*fields.box), (c_uint32 * rank)(*[1] * rank))
    else:
        name, box = "cuTensorMapEncodeIm2col", _box_of_images(fields.images, fields.box)
    gpu.driver.call(name, place, *tensor, *box, *rest)
    return ctypes.string_at(place, MAP_BYTES)


def _box_of_images(images: Images, box: tuple[int, ...]) -> tuple[Any, ...]:
    """The corners of the box of pixels, channels and pixels of a copy, and the steps between pixels."""
    corners = ((ctypes.c_int * len(corner))(*corner) for corner in (images.lower, images.upper))
    return *corners, *box, (c_uint32 * len(images.steps))(*images.steps)
