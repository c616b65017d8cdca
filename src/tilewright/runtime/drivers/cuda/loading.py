"""Loading a kernel's code to a GPU, with the checks that tell in time what it has too little of.

The code is a cubin, or PTX that the driver assembles. More than 48 KiB of dynamic shared memory, and clusters of more
than eight programs, are asked for here, once.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_void_p
from typing import Any

from tilewright.runtime.devices import Figures
from tilewright.runtime.drivers.cuda import structs
from tilewright.runtime.drivers.cuda.gpu import Gpu
from tilewright.runtime.drivers.cuda.library import CudaDriver
from tilewright.runtime.errors import CudaError, OutOfResources

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
    _check(metadata.shared, gpu.attribute(structs.SHARED_LIMIT), "shared memory")
    _check(metadata.tmem_size, _TENSOR_MEMORY_COLUMNS, "tensor memory")
    with gpu.current() as driver:
        module = _module(driver, kernel)
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
        _check(structs.WARP * metadata.num_warps, threads, "threads")
        if metadata.shared > structs.UNLIMITED_SHARED:
            _check(metadata.shared + static, gpu.attribute(structs.SHARED_LIMIT), "shared memory")
            driver.call("cuFuncSetCacheConfig", function, structs.PREFER_SHARED)
            driver.call("cuFuncSetAttribute", function, structs.DYNAMIC_SHARED, metadata.shared)
        if metadata.num_ctas > structs.PORTABLE_CLUSTER:
            driver.call("cuFuncSetAttribute", function, structs.LARGE_CLUSTERS, 1)
    return Figures(module, function, registers, local // BYTES_PER_REGISTER, threads)


def _check(required: int, limit: int, name: str) -> None:
    if required > limit:
        raise OutOfResources(required, limit, name)


def _module(driver: CudaDriver, kernel: Any) -> int:
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
