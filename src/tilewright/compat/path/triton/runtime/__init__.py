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
from tilewright.compat.tensors import TensorWrapper, reinterpret

from triton.runtime import _allocation, autotuner, errors, interpreter, jit
from triton.runtime.driver import driver
