"""The package `triton` for programs that `tilewright run` runs: the names are Triton's, the objects are Tilewright's.

The version is that of the Triton whose documents describe block pointers, which later ones removed; what later ones
added is there too.
"""

from tilewright import (
    CompilationError,
    Config,
    InterpreterError,
    JITFunction,
    OutOfResources,
    autotune,
    cdiv,
    constexpr_function,
    heuristics,
    jit,
    next_power_of_2,
)
from tilewright import TilewrightError as TritonError
from tilewright.compat.allocation import set_allocator
from tilewright.compat.marks import must_use_result
from tilewright.compat.tensors import TensorWrapper, reinterpret
from tilewright.runtime.compile import compile

from triton import backends, compiler, errors, knobs, language, runtime, testing, tools

__version__ = "3.5.1"
