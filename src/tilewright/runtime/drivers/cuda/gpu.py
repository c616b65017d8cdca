"""A GPU: its name, its attributes, and its primary context, which torch uses too.

gpu = Gpu(cuda_driver(), 0)
gpu.attribute(structs.MULTIPROCESSORS)
with gpu.current() as driver:
    driver.call("cuCtxSynchronize")
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from tilewright.runtime.arrays import CUDA_MEMORY
from tilewright.runtime.drivers.cuda import structs
from tilewright.runtime.drivers.cuda.library import CudaDriver
from tilewright.runtime.errors import CudaError
from tilewright.support.cached_property import cached_property

CLOCK_FACTS = {
    "sm_clock_rate": structs.CLOCK_RATE,
    "mem_clock_rate": structs.MEMORY_CLOCK,
    "mem_bus_width": structs.BUS_WIDTH,
}


class Gpu:
    """A GPU of this machine.

    Attributes:
        driver: NVIDIA's.
        ordinal: its number.
        name: `cuda:` and its number.
        handle: the driver's for it.
        capability: major and minor.
    """

    def __init__(self, driver: CudaDriver, ordinal: int) -> None:
        self.driver, self.ordinal = driver, ordinal
        self.name = f"{CUDA_MEMORY}:{ordinal}"
        self.handle = driver.get("cuDeviceGet", c_int, ordinal)
        self.capability = self.attribute(structs.MAJOR), self.attribute(structs.MINOR)
        self._scratch: dict[tuple[str, int], Block] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ordinal})"

    @cached_property
    def model(self) -> str:
        """NVIDIA's name of the GPU."""
        name = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", name, len(name), self.handle)
        return name.value.decode(errors="replace")

    @cached_property
    def total_memory(self) -> int:
        """Bytes of memory."""
        return self.driver.get("cuDeviceTotalMem_v2", c_size_t, self.handle)

    @cached_property
    def context(self) -> int:
        """Its primary context, held from the first use to the end of the process."""
        return self.driver.get("cuDevicePrimaryCtxRetain", c_void_p, self.handle)

    def scratch(self, purpose: str, size: int, stream: int) -> Block:
        """Memory for one purpose of kernels on a stream: what ran there before is done with it when they begin."""
        found = self._scratch.get((purpose, stream))
        if found is None or found.size < size:
            found = self._scratch[purpose, stream] = Block(self, size)
        return found

    def is_in_use(self) -> bool:
        """Whether this process has its context."""
        return "context" in vars(self)

    def attribute(self, number: int) -> int:
        """A fact that `CUdevice_attribute` numbers."""
        return self.driver.get("cuDeviceGetAttribute", c_int, number, self.handle)

    def properties(self) -> dict[str, int]:
        """Figures under Triton's names."""
        found = {
            "max_shared_mem": self.attribute(structs.SHARED_LIMIT),
            "max_num_regs": self.attribute(structs.MAX_REGISTERS),
            "multiprocessor_count": self.attribute(structs.MULTIPROCESSORS),
            "warpSize": self.attribute(structs.WARP_SIZE),
        }
        return found | {name: self.attribute(number) for name, number in CLOCK_FACTS.items()}

    @contextmanager
    def current(self) -> Iterator[CudaDriver]:
        """Until the end of the `with`, this thread's calls of the driver are for this device."""
        before = self.driver.get("cuCtxGetCurrent", c_void_p)
        if before != self.context:
            self.driver.call("cuCtxSetCurrent", self.context)
        try:
            yield self.driver
        finally:
            if before not in (0, self.context):
                self.driver.call("cuCtxSetCurrent", before)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the driver for this device.

        Raises:
            CudaError: it gives an error.
        """
        with self.current() as driver:
            driver.call(function, *arguments)

    def get(self, function: str, kind: Any, *arguments: Any) -> int:
        """The value that such a function writes through its first parameter; see `CudaDriver.get`."""
        with self.current() as driver:
            return driver.get(function, kind, *arguments)

    def release(self, function: str, handle: int) -> None:
        """Give something back, where that can be done: not in the child of a fork, nor when Python ends.

        Args:
            function: the function of the driver, which takes the handle.
            handle: what it gave; 0 is nothing.
        """
        if handle and not sys.is_finalizing() and self.driver.is_of_this_process():
            with suppress(CudaError), self.current() as driver:
                driver.function(function)(handle)

    def synchronize(self) -> None:
        """Wait for all work of the device.

        Raises:
            CudaError: some of it failed.
        """
        self.call("cuCtxSynchronize")


class Block:
    """Memory of a GPU, at a multiple of 256, freed when it has no references and its work is done.

    Attributes:
        address: 0 for no bytes.
        size: in bytes.
    """

    __slots__ = ("_gpu", "address", "size")

    def __init__(self, gpu: Gpu, size: int) -> None:
        self.address, self.size, self._gpu = 0, size, gpu
        if size:
            self.address = gpu.get("cuMemAlloc_v2", c_uint64, size)

    def data_ptr(self) -> int:
        """The address."""
        return self.address

    def __del__(self) -> None:
        self._gpu.release("cuMemFree_v2", self.address)


def set_printf_memory(gpu: Gpu, size: int) -> None:
    """Sets the number of bytes that kernels may print before a synchronisation.

    Raises:
        ValueError: it is negative.
        CudaError: kernels have printed already, and it is another size.
    """
    if size < 0:
        raise ValueError(f"{size} is less than no bytes")
    with gpu.current() as driver:
        if driver.get("cuCtxGetLimit", c_size_t, structs.PRINTF_FIFO) != size:
            driver.call("cuCtxSetLimit", structs.PRINTF_FIFO, size)


def maximal_clusters(gpu: Gpu, function: int, shared: int, programs: int) -> int:
    """The number of clusters of programs that run at a time.

    Args:
        function: the handle of a loaded kernel, whose programs have 128 threads.
        shared: bytes of dynamic shared memory of each program.
        programs: the number of programs in a cluster.
    """
    attribute = structs.LaunchAttribute(id=structs.ATTRIBUTE_CLUSTER)
    attribute.value[:3] = programs, 1, 1
    config = structs.LaunchConfig(
        grid=(programs, 1, 1),
        block=(4 * structs.WARP, 1, 1),
        shared=shared,
        attributes=ctypes.addressof(attribute),
        attribute_count=1,
    )
    with gpu.current() as driver:
        driver.call("cuFuncSetAttribute", function, structs.DYNAMIC_SHARED, shared)
        driver.call("cuFuncSetAttribute", function, structs.LARGE_CLUSTERS, 1)
        return driver.get("cuOccupancyMaxActiveClusters", c_int, function, ctypes.addressof(config))
