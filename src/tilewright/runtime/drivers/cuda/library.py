"""NVIDIA's driver, libcuda.so.1: found, opened, and called with errors that have CUDA's name and text.

    driver = cuda_driver()
    count = driver.get("cuDeviceGetCount", c_int)           # through a pointer to an int
    driver.call("cuCtxSetCurrent", context)

Importing this opens nothing. Functions have the names of the symbols, with the `_v2` that cuda.h adds.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from tilewright.runtime.drivers.cpu.python_memory import function_address
from tilewright.runtime.errors import CudaError, MissingDriverError
from tilewright.support import knobs
from tilewright.support.locks import fork_safe_lock

LIBRARY = "libcuda.so.1"
USUAL_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib")
"""Folders of the library on systems whose loader does not look there."""

_pointer, _address = c_void_p, ctypes.c_uint64

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuCtxGetCurrent": (_pointer,),
    "cuCtxGetLimit": (_pointer, c_int),
    "cuCtxSetCurrent": (_pointer,),
    "cuCtxSetLimit": (c_int, c_size_t),
    "cuCtxSynchronize": (),
    "cuDeviceGet": (_pointer, c_int),
    "cuDeviceGetAttribute": (_pointer, c_int, c_int),
    "cuDeviceGetCount": (_pointer,),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_pointer, c_int),
    "cuDeviceTotalMem_v2": (_pointer, c_int),
    "cuDriverGetVersion": (_pointer,),
    "cuEventCreate": (_pointer, c_uint),
    "cuEventDestroy_v2": (_pointer,),
    "cuEventElapsedTime": (ctypes.POINTER(c_float), _pointer, _pointer),
    "cuEventRecord": (_pointer, _pointer),
    "cuEventSynchronize": (_pointer,),
    "cuFuncGetAttribute": (_pointer, c_int, _pointer),
    "cuFuncSetAttribute": (_pointer, c_int, c_int),
    "cuFuncSetCacheConfig": (_pointer, c_int),
    "cuGetErrorName": (c_int, _pointer),
    "cuGetErrorString": (c_int, _pointer),
    "cuInit": (c_uint,),
    "cuLaunchKernelEx": (_pointer, _pointer, _pointer, _pointer),
    "cuMemAlloc_v2": (_pointer, c_size_t),
    "cuMemFree_v2": (_address,),
    "cuMemcpyDtoDAsync_v2": (_address, _address, c_size_t, _pointer),
    "cuMemcpyDtoHAsync_v2": (_pointer, _address, c_size_t, _pointer),
    "cuMemcpyHtoDAsync_v2": (_address, _pointer, c_size_t, _pointer),
    "cuMemsetD8Async": (_address, ctypes.c_ubyte, c_size_t, _pointer),
    "cuModuleGetFunction": (_pointer, _pointer, c_char_p),
    "cuModuleLoadDataEx": (_pointer, c_char_p, c_uint, _pointer, _pointer),
    "cuModuleUnload": (_pointer,),
    "cuOccupancyMaxActiveClusters": (_pointer, _pointer, _pointer),
    "cuPointerGetAttribute": (_pointer, c_int, _address),
    "cuStreamCreate": (_pointer, c_uint),
    "cuStreamDestroy_v2": (_pointer,),
    "cuStreamIsCapturing": (_pointer, _pointer),
    "cuStreamSynchronize": (_pointer,),
    "cuStreamWaitEvent": (_pointer, _pointer, c_uint),
    "cuTensorMapEncodeIm2col": (
        *(_pointer, c_int, c_uint, _address),
        *(_pointer,) * 4,
        *(c_uint, c_uint, _pointer),
        *(c_int,) * 4,
    ),
    "cuTensorMapEncodeTiled": (*(_pointer, c_int, c_uint, _address), *(_pointer,) * 4, *(c_int,) * 4),
}
"""Parameters of what is called, all of which gives a CUresult."""


class CudaDriver:
    """The opened library.

    Attributes:
        path: the path of its file, or the name by which the loader found it.
    """

    def __init__(self, library: ctypes.CDLL, place: str) -> None:
        self.path = place
        self._library = library
        self._functions: dict[str, Any] = {}
        self._lock = fork_safe_lock()
        self._process = os.getpid()

    def function(self, name: str) -> Any:
        """A function of the library, which gives a CUresult.

        Raises:
            CudaError: the driver is too old to have it.
        """
        found = self._functions.get(name)
        if found is None:
            with self._lock:
                try:
                    found = self._library[name]
                except AttributeError:
                    raise CudaError(name, 801, "CUDA_ERROR_NOT_SUPPORTED", "the driver is too old for it") from None
                found.argtypes, found.restype = SIGNATURES[name], c_int
                self._functions[name] = found
        return found

    def is_of_this_process(self) -> bool:
        """Whether this process opened it; the child of a fork cannot use what its parent did."""
        return self._process == os.getpid()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            CudaError: it gives an error.
        """
        code = self.function(name)(*arguments)
        if code:
            raise self.error(name, code)

    def get(self, name: str, kind: Any, *arguments: Any) -> int:
        """The value that a function writes through its first parameter, a pointer to a `kind` of ctypes.

        Raises:
            CudaError: it gives an error.
        """
        result = kind()
        self.call(name, byref(result), *arguments)
        return result.value or 0

    def address(self, name: str) -> int:
        """The address of a function, for native code."""
        self.function(name)
        return function_address(self._library, name)

    def error(self, name: str, code: int) -> CudaError:
        """The error with a CUresult that a function gave."""
        words = []
        for describe in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            failed = self.function(describe)(code, byref(text))
            words.append("unknown" if failed or text.value is None else text.value.decode(errors="replace"))
        return CudaError(name, code, *words)


_drivers: dict[str | None, CudaDriver] = {}
"""The opened drivers, by the value of TRITON_LIBCUDA_PATH."""


def open_driver() -> CudaDriver | None:
    """The driver, if this process has used it."""
    return _drivers.get(knobs.nvidia.libcuda_path)


def is_installed() -> bool:
    """Whether the library can be loaded; loading it does not initialise it, so that processes may still fork."""
    try:
        return open_driver() is not None or bool(_loaded(knobs.nvidia.libcuda_path))
    except MissingDriverError:
        return False


def _loaded(folder: str | None) -> tuple[ctypes.CDLL, str]:
    """The library and where it was found."""
    tried = list(_places(folder))
    for place in tried:
        with suppress(OSError):
            return ctypes.CDLL(place), place
    raise MissingDriverError(tried, "TRITON_LIBCUDA_PATH")


def _opened(folder: str | None) -> CudaDriver:
    library, place = _loaded(folder)
    driver = CudaDriver(library, place)
    driver.call("cuInit", 0)
    return driver


def cuda_driver() -> CudaDriver:
    """The driver, opened and initialised on first use.

    Raises:
        MissingDriverError: it is not installed.
        CudaError: it finds no GPU, or does not work.
    """
    driver = open_driver()
    if driver is None:
        folder = knobs.nvidia.libcuda_path
        driver = _drivers.setdefault(folder, _opened(folder))
    return driver


def _places(folder: str | None) -> Iterator[str]:
    if folder:
        yield folder if Path(folder).name.startswith("libcuda.so") else f"{folder}/{LIBRARY}"
        return
    yield LIBRARY
    yield from (f"{usual}/{LIBRARY}" for usual in USUAL_FOLDERS)
