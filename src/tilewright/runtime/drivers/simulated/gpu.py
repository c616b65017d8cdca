"""Simulated GPUs: kernels are compiled to PTX, and the PTX is interpreted.

with simulate("cuda:90"):
    add[grid](x, y, out, n, BLOCK=128)        # NumPy arrays, and torch tensors of the CPU

A launch copies the arrays to the device's memory, runs to its end, and copies stored elements back. Errors that
hardware does not detect are reported: see `backends/ptxsim`.

Arrays that overlap share a piece of device memory. A piece has the same address modulo 256 as on the host, so that
addresses have the divisibility for which the kernel was compiled. Copies also answer to the addresses of the host, so
that a kernel may find an array by an address that it loads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from tilewright.backends.base import GPUTarget
from tilewright.backends.nvidia.targets import find
from tilewright.backends.ptxsim import DeviceMemory, Launch, SimulationError, SourcePlace, Uninitialized, load
from tilewright.backends.ptxsim.memory import NO_MEMORY
from tilewright.backends.ptxsim.tensor_maps import ELEMENTS, SWIZZLES, TensorMap
from tilewright.runtime.arrays import CPU_MEMORY, ArrayView, view_of
from tilewright.runtime.devices import Device, Figures, using
from tilewright.runtime.errors import ArgumentError, require
from tilewright.runtime.extents import Extent, extent_of, storage_of
from tilewright.runtime.tensor_maps import HostMap, MapFields, map_fields
from tilewright.support.diagnostics import DeviceAssertError
from tilewright.support.exact_rounding import narrow_nearest
from tilewright.support.source import Span

ALIGNMENT = 256
Bounds: TypeAlias = Literal["array", "storage"]
"""The memory that kernels may access."""


@dataclass
class Region:
    """A piece of the host's memory and its copy.

    Attributes:
        name: the name of the arrays there, for messages.
        low, high: addresses on the host.
        address: the address of the copy.
        writable: may a kernel store there?
        owners: what keeps the host's memory alive.
    """

    name: str
    low: int
    high: int
    writable: bool
    owners: list[Any]
    address: int = 0

    def host_bytes(self) -> Any:
        """The memory on the host."""
        return np.asarray(_Bytes(self)) if self.high > self.low else np.empty(0, np.uint8)


class _Bytes:
    """A region in the form that NumPy makes arrays of."""

    def __init__(self, region: Region) -> None:
        self.owner = region
        self.__array_interface__ = {
            "version": 3,
            "shape": (region.high - region.low,),
            "typestr": "|u1",
            "data": (region.low, not region.writable),
        }


class Regions:
    """The memory of a launch's arrays on a device.

    Raises:
        ArgumentError: an array does not say how large it is.
    """

    def __init__(self, memory: DeviceMemory, arrays: Sequence[tuple[str, ArrayView]], bounds: Bounds) -> None:
        self._memory = memory
        self.regions: list[Region] = []
        extents = ((_extent(*named, bounds), named[1]) for named in arrays)
        for extent, view in sorted(extents, key=lambda pair: pair[0].low):
            last = self.regions[-1] if self.regions else None
            if last is not None and extent.low < last.high:
                last.high = max(last.high, extent.high)
                last.writable |= view.writable
                last.owners.append(view.owner)
                last.name = f"{last.name}, {extent.name}"
            else:
                self.regions.append(Region(extent.name, extent.low, extent.high, view.writable, [view.owner]))
        for region in self.regions:
            content, phase = region.host_bytes(), region.low % ALIGNMENT
            start = memory.allocate(content.size, name=region.name, align=ALIGNMENT, phase=phase)
            memory.fill(start, content, writable=region.writable)
            memory.also_at(start, region.low, content.size)
            region.address = start

    def address_of(self, view: ArrayView) -> int:
        """The device's address of an array's first element."""
        for region in self.regions:
            if region.low <= view.address < region.high or region.low == view.address:
                return region.address + view.address - region.low
        return 0

    def copy_back(self) -> None:
        """Bring what kernels stored to the host; bytes that they did not store are not touched."""
        for region in self.regions:
            size = region.high - region.low
            stored = self._memory.was_written(region.address, size)
            if region.writable and stored.any():
                region.host_bytes()[stored] = self._memory.bytes_at(region.address, size)[stored]


def _extent(name: str, view: ArrayView, bounds: Bounds) -> Extent:
    found = (storage_of if bounds == "storage" else extent_of)(name, view)
    if found is None:
        kind = type(view.owner).__name__
        raise ArgumentError(f"argument {name!r}: a {kind} does not say how large it is, so that it cannot be copied")
    return found


def _explain(error: SimulationError, arrays: Sequence[tuple[str, ArrayView]]) -> None:
    """Say what other memory could have been copied, if an access is outside of what was."""
    if NO_MEMORY in error.text:
        error.add_note(
            "help: arrays that no argument is, which a kernel finds by their addresses, are simulate(…, reachable=[…])"
        )
    parts = [name for name, view in arrays if _extent(name, view, "array")[1:4] != _extent(name, view, "storage")[1:4]]
    if error.kind == "out of bounds" and parts:
        names = ", ".join(f"`{name}`" for name in parts)
        error.add_note(f'help: parts of larger allocations are {names}; simulate(…, bounds="storage") has all of these')


WARP = 32
MAX_THREADS = 1024
_REACHABLE: ContextVar[tuple[tuple[str, ArrayView], ...]] = ContextVar("reachable arrays", default=())
"""The arrays that launches copy besides their arguments, with names for messages."""


class SimulatedGpu(Device):
    """An NVIDIA GPU of some compute capability that exists in this process only.

    Attributes:
        checks: watch for races.
        uninitialized: how to treat reads of uninitialised shared memory.
        bounds: what kernels may access.
    """

    remedy = "pass a copy of it in CPU memory"

    def __init__(
        self,
        capability: int,
        *,
        checks: bool = True,
        uninitialized: Uninitialized = "report",
        bounds: Bounds = "array",
    ) -> None:
        self.target = GPUTarget("cuda", capability, WARP)
        self.name = f"the simulated cuda:{capability}"
        self.checks, self.uninitialized, self.bounds = checks, uninitialized, bounds

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def can_use(self, view: ArrayView) -> bool:
        """Memory of the CPU, which launches copy."""
        return view.memory == CPU_MEMORY

    def load(self, kernel: Any) -> Figures:
        """Decode a kernel's PTX.

        Raises:
            OutOfResources: it needs more shared memory or threads than the GPU has.
            SimulationError: it has instructions that the simulator does not know.
        """
        require(kernel.metadata.shared, find(int(self.target.arch)).shared_limit, "shared memory")
        require(WARP * kernel.metadata.num_warps, MAX_THREADS, "threads")
        load(kernel.asm["ptx"]).kernel(kernel.name)
        return Figures(0, 0, 0, 0, MAX_THREADS)

    def launch(
        self, kernel: Any, grid: tuple[int, int, int], values: Sequence[int | float | ArrayView], stream: int | None
    ) -> None:
        """Copy the arrays in, run the kernel to its end, and copy back what it stored.

        Raises:
            SimulationError: the kernel did something wrong; what it stored until then is copied back.
            DeviceAssertError: an assertion of the kernel does not hold.
            OutOfResources: the kernel needs more than the GPU has.
        """
        kernel.loaded_on(self)
        memory = DeviceMemory()
        arrays = [*_arrays(kernel.names, values), *_REACHABLE.get()]
        regions = Regions(memory, arrays, self.bounds)
        arguments = list(_arguments(kernel, values, regions))
        facts, clusters = kernel.metadata, kernel.metadata.num_ctas
        arguments += _scratch(memory, facts, prod(grid) * clusters)
        launch = Launch(
            load(kernel.asm["ptx"]),
            kernel.name,
            grid=(grid[0] * clusters, grid[1], grid[2]),
            threads=WARP * facts.num_warps,
            shared=facts.shared,
            cluster=(clusters, 1, 1),
            checks=self.checks,
            uninitialized=self.uninitialized,
            output=_write,
        )
        try:
            launch.run(memory, arguments)
        except SimulationError as error:
            _explain(error, arrays)
            if error.kind != "assertion":
                raise
            x, y, z = error.cta or (0, 0, 0)
            raise DeviceAssertError(error.text, (x // clusters, y, z), (), _span(error.source)) from error
        finally:
            regions.copy_back()


def _arrays(names: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, ArrayView]]:
    """The arrays that a launch passes, those of tensor maps among them."""
    for name, value in zip(names, values, strict=True):
        if isinstance(value, ArrayView):
            yield name, value
        elif isinstance(value, HostMap):
            yield name.rpartition(".")[0], value.base


def _span(place: SourcePlace | None) -> Span | None:
    return None if place is None else Span(place.file, place.line, place.column, called_from=_span(place.caller))


def _write(text: str) -> None:
    sys.stdout.write(text)


def _arguments(kernel: Any, values: Sequence[Any], regions: Regions) -> Iterator[Any]:
    maps = iter(kernel.metadata.tensordesc_meta)
    for name, value, kind in zip(kernel.names, values, kernel.types, strict=True):
        if isinstance(value, HostMap):
            yield _map(map_fields(name.rpartition(".")[0], value, next(maps)), regions.address_of(value.base))
        else:
            yield _argument(value, kind, regions)


def _map(fields: MapFields, address: int) -> bytes:
    """A tensor map as the simulator has it."""
    found = TensorMap(
        address=address,
        element=ELEMENTS[fields.element],
        shape=fields.shape,
        strides=fields.strides,
        box=fields.box,
        swizzle=SWIZZLES[fields.swizzle],
        fill_nan=fields.pads_with_nan,
        lower=fields.images.lower if fields.images else (),
        upper=fields.images.upper if fields.images else (),
        element_strides=fields.images.steps if fields.images else (),
    )
    return found.encode()


def _argument(value: int | float | ArrayView, kind: str, regions: Regions) -> Any:
    """A value as the simulator takes it: a number, or bytes."""
    if isinstance(value, ArrayView):
        return regions.address_of(value)
    if kind == "bf16":
        return narrow_nearest(np.array([value], np.float32), "bf16").tobytes()
    return float(value) if kind in ("fp16", "fp32", "fp64") else value


def _scratch(memory: DeviceMemory, facts: Any, programs: int) -> list[int]:
    """The addresses behind the two last arguments: scratch memory of the whole grid, and of a profiler."""
    found = []
    for size, align in (
        (facts.global_scratch_size, facts.global_scratch_align),
        (facts.profile_scratch_size, facts.profile_scratch_align),
    ):
        found.append(memory.allocate(size * programs, name="scratch memory", align=max(align, 256)) if size else 0)
    return found


@cache
def simulated_gpu(
    capability: int, *, checks: bool = True, uninitialized: Uninitialized = "report", bounds: Bounds = "array"
) -> SimulatedGpu:
    """The simulated GPU of a compute capability."""
    return SimulatedGpu(capability, checks=checks, uninitialized=uninitialized, bounds=bounds)


@contextmanager
def simulate(
    target: str | int = "cuda:90",
    *,
    checks: bool = True,
    uninitialized: Uninitialized = "report",
    bounds: Bounds = "array",
    reachable: Sequence[Any] = (),
) -> Iterator[SimulatedGpu]:
    """Until the end of the `with`, kernels run on a simulated GPU, over arrays in the memory of the CPU.

    Args:
        target: `cuda:` and a compute capability, such as `cuda:80`, `cuda:90`, `cuda:100` or `cuda:120`.
        checks: watch for races.
        uninitialized: `report` makes a read of shared memory that nothing has stored an error; with `nan` it gives a
            NaN, all bits set, which are -1 as an integer.
        bounds: `array` makes an access outside of all arrays an error, as one through `x[:100]` to `x[100]` is; with
            `storage` kernels may access all that was allocated together with an array, as on hardware.
        reachable: arrays that kernels find by addresses in memory, as those of a table of pointers; launches copy them
            besides their arguments.

    Raises:
        ValueError: there is no such target, no such treatment of those reads, or no such bounds.
        ArgumentError: something reachable is no array in the memory of the CPU.

    Example:
        >>> @tw.jit
        ... def negate(x_ptr):
        ...     i = tl.arange(0, 4)
        ...     tl.store(x_ptr + i, -tl.load(x_ptr + i))
        >>> x = np.arange(4.0)
        >>> with tw.simulate("cuda:90"):
        ...     kernel = negate[(1,)](x)
        >>> x, "ptx" in kernel.asm
        (array([-0., -1., -2., -3.]), True)
    """
    kind, _, number = str(target).rpartition(":")
    if kind not in ("", "cuda") or not number.isdecimal():
        raise ValueError(f"a simulated target is `cuda:` and a compute capability, such as 'cuda:90'; got {target!r}")
    if uninitialized not in get_args(Uninitialized):
        raise ValueError(f"`uninitialized` is 'report' or 'nan', not {uninitialized!r}")
    if bounds not in get_args(Bounds):
        raise ValueError(f"`bounds` is 'array' or 'storage', not {bounds!r}")
    capability = find(int(number)).capability
    device = simulated_gpu(capability, checks=checks, uninitialized=uninitialized, bounds=bounds)
    token = _REACHABLE.set(tuple(_reachable(reachable)))
    try:
        with using(device):
            yield device
    finally:
        _REACHABLE.reset(token)


def _reachable(values: Sequence[Any]) -> Iterator[tuple[str, ArrayView]]:
    for number, value in enumerate(values):
        name, view = f"reachable[{number}]", view_of(value)
        if view is None or view.memory != CPU_MEMORY:
            raise ArgumentError(f"{name}: a {type(value).__name__} is no array in the memory of the CPU")
        yield name, view
