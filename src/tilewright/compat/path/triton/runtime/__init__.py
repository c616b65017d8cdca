"""`triton.runtime`."""

from tilewright import (
    Autotuner,
    Config,
    Heuristics,
    InterpreterError,
    JITFunction,
    OutOfResources,
    autotune,
    heuristics,
)
from tilewright.runtime.cache.redis import RedisRemoteCacheBackend
from tilewright.runtime.cache.remote import RemoteCacheBackend
from tilewright.compat.tensors import TensorWrapper, reinterpret

from triton.runtime import _allocation, autotuner, build, cache, errors, interpreter, jit
from triton.runtime.driver import driver
