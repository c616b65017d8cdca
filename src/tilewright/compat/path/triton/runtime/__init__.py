"""`triton.runtime`."""

from tilewright import (
    Autotuner,
    Config,
    Heuristics,
    InterpreterError,
    JITFunction,
    KernelInterface,
    MockTensor,
    OutOfResources,
    TensorWrapper,
    autotune,
    heuristics,
    reinterpret,
)
from tilewright.runtime.cache.redis import RedisRemoteCacheBackend
from tilewright.runtime.cache.remote import RemoteCacheBackend

from triton.runtime import _allocation, _async_compile, autotuner, build, cache, errors, interpreter, jit
from triton.runtime.driver import driver

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "RedisRemoteCacheBackend",
    "RemoteCacheBackend",
    "TensorWrapper",
    "autotune",
    "driver",
    "heuristics",
    "reinterpret",
]
