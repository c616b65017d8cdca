"""NVIDIA's driver through ctypes, with NumPy arrays: nothing else is needed to run what `bundle.py` compiled.

device = Device()                                   # the first GPU; CudaError where there is none
kernel = device.load(entry, code)                   # a cubin or PTX
results = device.run(kernel, grid, arguments)       # arrays are copied there and back
seconds = device.seconds(kernel, grid, arguments, launches=20)
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

try:
    import cuda_structs as structs  # the copy that a bundle has of that file
except ModuleNotFoundError:
    from tilewright.runtime.drivers.cuda import structs

Array = np.ndarray[Any, Any]
FLAGS = {"cooperative": structs.ATTRIBUTE_COOPERATIVE, "dependent": structs.ATTRIBUTE_PDL}
"""Launch attributes by the field of a launch."""
ALIGNMENT, MAP_BYTES, MAP_ALIGNMENT, PROMOTE_128_BYTES = 256, 128, 64, 2
MAP_ELEMENTS = {8: 10, 9: 8, 10: 9}
"""PTX's number of an element type → CUtensorMapDataType, where they differ."""
NAME_BYTES = 256


class CudaError(Exception):
    """The driver gave an error, or is not there."""


class Kernel(NamedTuple):
    """A loaded kernel, and what a launch has to know of it."""

    function: c_void_p
    entry: Any


class Device:
    """A GPU, and its primary context.

    Attributes:
        capability: as 90.
        facts: what is known of it, for the page.
    """

    def __init__(self, number: int = 0) -> None:
        self._library = _opened()
        self._call("cuInit", c_uint32(0))
        count = c_int()
        self._call("cuDeviceGetCount", byref(count))
        if number >= count.value:
            raise CudaError(f"there is no GPU {number}: {count.value} found")
        self._device, context = c_int(), c_void_p()
        self._call("cuDeviceGet", byref(self._device), c_int(number))
        self._call("cuDevicePrimaryCtxRetain", byref(context), self._device)
        self._call("cuCtxSetCurrent", context)
        self.capability = 10 * self._attribute(structs.MAJOR) + self._attribute(structs.MINOR)
        self.facts = self._facts()

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(c_int(code), byref(text))
            raise CudaError(f"{name}: {(text.value or b'unknown').decode()} ({code})")

    def _attribute(self, which: int) -> int:
        found = c_int()
        self._call("cuDeviceGetAttribute", byref(found), c_int(which), self._device)
        return found.value

    def _facts(self) -> dict[str, Any]:
        name, version = ctypes.create_string_buffer(NAME_BYTES), c_int()
        self._call("cuDeviceGetName", name, c_int(NAME_BYTES), self._device)
        self._call("cuDriverGetVersion", byref(version))
        return {
            "device": name.value.decode(),
            "capability": self.capability,
            "driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
            "multiprocessors": self._attribute(structs.MULTIPROCESSORS),
        }

    def repeat(self, launch: Any, code: bytes, memory: Sequence[Array]) -> list[Array]:
        """Launch once what a bundle has with its memory; what that holds afterwards."""
        kernel, owned, places = self.load(launch, code), list[int](), list[int]()
        try:
            for (_, phase), piece in zip(launch.pieces, memory, strict=True):
                owned.append(self._allocated(piece.size + ALIGNMENT))
                places.append(owned[-1] + phase)
                self._copy("cuMemcpyHtoDAsync_v2", places[-1], piece.ctypes.data, piece.size)
            scratch = self._scratch(launch, launch.grid)
            owned += [scratch] if scratch else []
            values = [self._parameter(*parameter, places=places) for parameter in launch.parameters]
            values += [c_uint64(scratch), c_uint64(0)]
            self._launch(kernel, launch.grid, values)
            self._call("cuCtxSynchronize")
            return [self._back(place, piece) for place, piece in zip(places, memory, strict=True)]
        finally:
            for place in owned:
                self._call("cuMemFree_v2", c_uint64(place))

    def _parameter(self, kind: str, *facts: Any, places: Sequence[int]) -> Any:
        if kind == "number":
            return (ctypes.c_ubyte * 8)(*bytes.fromhex(facts[0]))  # no kernel reads beyond its number
        piece, offset, *rest = facts
        address = places[piece] + offset if piece >= 0 else 0
        return self._map(address, *rest) if kind == "map" else c_uint64(address)

    def _map(
        self, address: int, element: int, shape: Any, strides: Any, box: Any, swizzle: int, pads_with_nan: bool
    ) -> Any:
        """A tensor map, as the driver makes it."""
        rank, memory = len(shape), (ctypes.c_ubyte * (MAP_BYTES + MAP_ALIGNMENT))()
        found = (ctypes.c_ubyte * MAP_BYTES).from_buffer(memory, -ctypes.addressof(memory) % MAP_ALIGNMENT)
        extents = (c_uint64 * rank)(*shape), (c_uint64 * rank)(*strides), (c_uint32 * rank)(*box)
        steps = (c_uint32 * rank)(*[1] * rank)
        kind, count, place = c_int(MAP_ELEMENTS.get(element, element)), c_uint32(rank), c_uint64(address)
        modes = (c_int(0), c_int(swizzle), c_int(PROMOTE_128_BYTES), c_int(pads_with_nan))
        self._call("cuTensorMapEncodeTiled", byref(found), kind, count, place, *extents, steps, *modes)
        return found

    def load(self, entry: Any, code: bytes) -> Kernel:
        """A kernel of the bundle."""
        module, function = c_void_p(), c_void_p()
        self._call("cuModuleLoadDataEx", byref(module), code + b"\0", c_uint32(0), None, None)
        self._call("cuModuleGetFunction", byref(function), module, entry.symbol.encode())
        if entry.shared > structs.UNLIMITED_SHARED:
            self._call("cuFuncSetAttribute", function, c_int(structs.DYNAMIC_SHARED), c_int(entry.shared))
        return Kernel(function, entry)

    def run(self, kernel: Kernel, grid: Sequence[int], arguments: Sequence[Any]) -> list[Array]:
        """Launch once; what the arrays hold afterwards, in order."""
        with self._copied(kernel, grid, arguments) as (parameters, places):
            self._launch(kernel, grid, parameters)
            self._call("cuCtxSynchronize")
            return [self._back(place, array) for place, array in places]

    def seconds(self, kernel: Kernel, grid: Sequence[int], arguments: Sequence[Any], *, launches: int) -> float:
        """The time of one of several launches, by the GPU's clock; the first ones do not count."""
        start, end, found = c_void_p(), c_void_p(), c_float()
        for event in (start, end):
            self._call("cuEventCreate", byref(event), c_uint32(0))
        with self._copied(kernel, grid, arguments) as (parameters, _):
            for number in range(2 + launches):
                if number == 2:
                    self._call("cuEventRecord", start, None)
                self._launch(kernel, grid, parameters)
            self._call("cuEventRecord", end, None)
            self._call("cuEventSynchronize", end)
            self._call("cuEventElapsedTime", byref(found), start, end)
        for event in (start, end):
            self._call("cuEventDestroy_v2", event)
        return found.value / 1000 / launches

    @contextmanager
    def bound(self, kernel: Kernel, grid: Sequence[int], arguments: Sequence[Any]) -> Iterator[Callable[[], None]]:
        """Launches with arrays of others, which have a `data_ptr()`, on the default stream."""
        kinds = zip(kernel.entry.types.values(), arguments, strict=True)
        values = [
            c_uint64(value.data_ptr()) if hasattr(value, "data_ptr") else NUMBERS[kind](value) for kind, value in kinds
        ]
        scratch = self._scratch(kernel.entry, grid)
        values += [c_uint64(scratch), c_uint64(0)]
        try:
            yield lambda: self._launch(kernel, grid, values)
        finally:
            self._call("cuCtxSynchronize")
            if scratch:
                self._call("cuMemFree_v2", c_uint64(scratch))

    def _scratch(self, entry: Any, grid: Sequence[int]) -> int:
        """Scratch memory of a launch; 0 where it needs none."""
        size = entry.scratch * int(np.prod(grid)) * entry.ctas
        return self._allocated(size) if size else 0

    @contextmanager
    def _copied(self, kernel: Kernel, grid: Sequence[int], arguments: Sequence[Any]) -> Iterator[Any]:
        """The parameters of a launch, with arrays in the GPU's memory; and where those are."""
        places: list[tuple[int, Array]] = []
        owned: list[int] = []
        try:
            values: list[Any] = []
            for kind, value in zip(kernel.entry.types.values(), arguments, strict=True):
                if isinstance(value, np.ndarray):
                    owned.append(self._allocated(value.nbytes))
                    contiguous = np.ascontiguousarray(value)
                    self._copy("cuMemcpyHtoDAsync_v2", owned[-1], contiguous.ctypes.data, value.nbytes)
                    self._call("cuCtxSynchronize")
                    places.append((owned[-1], value))
                    values.append(c_uint64(owned[-1]))
                else:
                    values.append(NUMBERS[kind](value))
            scratch = self._scratch(kernel.entry, grid)
            owned += [scratch] if scratch else []
            values += [c_uint64(scratch), c_uint64(0)]
            yield values, places
        finally:
            for place in owned:
                self._call("cuMemFree_v2", c_uint64(place))

    def _allocated(self, size: int) -> int:
        place = c_uint64()
        self._call("cuMemAlloc_v2", byref(place), ctypes.c_size_t(size))
        return place.value

    def _copy(self, function: str, target: int, source: int, size: int) -> None:
        self._call(function, c_uint64(target), c_uint64(source), ctypes.c_size_t(size), None)

    def _back(self, place: int, like: Array) -> Array:
        found = np.empty(like.shape, like.dtype)
        self._copy("cuMemcpyDtoHAsync_v2", found.ctypes.data, place, found.nbytes)
        self._call("cuCtxSynchronize")
        return found

    def _launch(self, kernel: Kernel, grid: Sequence[int], parameters: Sequence[Any]) -> None:
        entry, (x, y, z) = kernel.entry, (*grid, 1, 1)[:3]
        config = structs.LaunchConfig((x * entry.ctas, y, z), (structs.WARP * entry.warps, 1, 1), entry.shared)
        wanted = [structs.LaunchAttribute(structs.ATTRIBUTE_CLUSTER, 0, (entry.ctas, 1, 1))] if entry.ctas > 1 else []
        for flag, number in FLAGS.items():
            wanted += [structs.LaunchAttribute(number, 0, (1,))] if getattr(entry, flag, False) else []
        attributes = (structs.LaunchAttribute * max(1, len(wanted)))(*wanted)
        config.attributes, config.attribute_count = ctypes.addressof(attributes), len(wanted)
        addresses = (c_void_p * len(parameters))(*(ctypes.addressof(value) for value in parameters))
        self._call("cuLaunchKernelEx", byref(config), kernel.function, addresses, None)


NUMBERS = {"i32": c_int32, "i64": c_int64, "fp32": c_float, "fp64": ctypes.c_double}
"""The ctypes of arguments that are passed by value, per type."""


def _opened() -> Any:
    folder = os.environ.get("TRITON_LIBCUDA_PATH")
    try:
        return ctypes.CDLL(f"{folder}/libcuda.so.1" if folder else "libcuda.so.1")
    except OSError as error:
        raise CudaError(f"there is no driver: {error}") from None


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{Device().capability}\n")
    except CudaError as error:
        sys.exit(f"no GPU: {error}")
