"""The package `triton` for programs that `tilewright run` runs: the names are Triton's, the objects are Tilewright's.

The version is that of the Triton whose documents describe block pointers, which later ones removed; what later ones
added is there too. What is compiled is kept where users of Triton look for it and delete it: in `~/.triton`. Neither
takes the other's entries: their keys differ.
"""

from tilewright import (
    AsyncCompileMode,
    CompilationError,
    Config,
    FutureKernel,
    InterpreterError,
    JITFunction,
    KernelInterface,
    MockTensor,
    OutOfResources,
    TensorWrapper,
    aggregate,
    autotune,
    cdiv,
    compile,
    constexpr_function,
    heuristics,
    jit,
    next_power_of_2,
    reinterpret,
    set_allocator,
)
from tilewright import TilewrightError as TritonError
from tilewright.compat.compile_errors import as_triton
from tilewright.compat.torch_devices import answer_when_imported
from tilewright.language.callable import must_use_result
from tilewright.runtime.tracebacks import show_uncaught
from tilewright.support.diagnostics import present_errors

from triton import _C, backends, compiler, errors, knobs, language, runtime, testing, tools

__version__ = "3.5.1"

knobs.cache.state_folder = ".triton"
present_errors(by=as_triton)
show_uncaught()

__all__ = [
    "AsyncCompileMode",
    "CompilationError",
    "Config",
    "FutureKernel",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "TritonError",
    "aggregate",
    "autotune",
    "cdiv",
    "compile",
    "constexpr_function",
    "heuristics",
    "jit",
    "language",
    "must_use_result",
    "next_power_of_2",
    "reinterpret",
    "runtime",
    "set_allocator",
    "testing",
    "tools",
]
answer_when_imported()
