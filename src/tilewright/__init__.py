"""Tilewright compiles the Triton language to native CPU code and for NVIDIA GPUs.

import tilewright as tw
import tilewright.language as tl

@tw.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

double[(tw.cdiv(n, 128),)](x, out, n, BLOCK=128)
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # before anything is imported that such a Python cannot read
    _version = ".".join(map(str, sys.version_info[:2]))
    raise ImportError(f"Tilewright works with Python 3.11 to 3.14, and this is {_version}")

from tilewright.support.collector import resting

with resting():  # next to nothing that is imported is garbage, NumPy included
    from tilewright import knobs, language
    from tilewright.backends.base import GPUTarget
    from tilewright.runtime.array_shims import MockTensor, TensorWrapper, reinterpret
    from tilewright.runtime.async_compile import AsyncCompileMode, FutureKernel
    from tilewright.runtime.constexpr_function import constexpr_function, next_power_of_2
    from tilewright.runtime.errors import (
        ArgumentError,
        AutotunerError,
        InterpreterError,
        OutOfResources,
        ReadOnlyError,
    )
    from tilewright.runtime.jit import JITFunction, jit
    from tilewright.runtime.kernel import CompiledKernel
    from tilewright.runtime.parameters import KernelInterface
    from tilewright.runtime.sources import ASTSource, IRSource
    from tilewright.support.diagnostics import (
        CompilationError,
        CompileTimeAssertionFailure,
        DeadlockError,
        DeviceAssertError,
        InternalError,
        TilewrightError,
        Unsupported,
    )
    from tilewright.support.locks import importing

if TYPE_CHECKING:  # the names of _MODULES and _WHOLE_MODULES, for type checkers and editors
    from tilewright import cuda as cuda
    from tilewright import testing as testing
    from tilewright.backends.ptxsim.errors import SimulationError
    from tilewright.compat.tensor_descriptor import TensorDescriptor
    from tilewright.language.aggregates import aggregate, aggregate_replace
    from tilewright.language.standard import cdiv
    from tilewright.runtime.allocation import set_allocator
    from tilewright.runtime.block_maps import OUT, map_blocks
    from tilewright.runtime.compile import compile
    from tilewright.runtime.drivers.simulated.gpu import simulate
    from tilewright.runtime.findings import Finding, SanitizerError
    from tilewright.runtime.ray_executor import RayExecutor
    from tilewright.runtime.tuning.autotuner import Autotuner, autotune
    from tilewright.runtime.tuning.config import Config
    from tilewright.runtime.tuning.heuristics import Heuristics, heuristics
    from tilewright.runtime.tuning.together import Launch, tune
    from tilewright.runtime.unwritten import initialized, uninitialized
    from tilewright.vectorizing.function import vectorize

__version__ = "0.1.0"

_MODULES = {
    "OUT": "runtime.block_maps",
    "Autotuner": "runtime.tuning.autotuner",
    "Config": "runtime.tuning.config",
    "Finding": "runtime.findings",
    "Heuristics": "runtime.tuning.heuristics",
    "Launch": "runtime.tuning.together",
    "RayExecutor": "runtime.ray_executor",
    "SimulationError": "backends.ptxsim.errors",
    "SanitizerError": "runtime.findings",
    "TensorDescriptor": "compat.tensor_descriptor",
    "aggregate": "language.aggregates",
    "aggregate_replace": "language.aggregates",
    "autotune": "runtime.tuning.autotuner",
    "cdiv": "language.standard",
    "compile": "runtime.compile",
    "heuristics": "runtime.tuning.heuristics",
    "initialized": "runtime.unwritten",
    "map_blocks": "runtime.block_maps",
    "set_allocator": "runtime.allocation",
    "simulate": "runtime.drivers.simulated.gpu",
    "tune": "runtime.tuning.together",
    "uninitialized": "runtime.unwritten",
    "vectorize": "vectorizing.function",
}
"""The modules of names that many programs do without; they are imported when the names are asked for."""

_WHOLE_MODULES = ("cuda", "testing")
"""Modules that are attributes, imported likewise."""

_lazy: dict[str, Any] = {}
"""The names that were asked for, with their values."""

__all__ = [
    "OUT",
    "ASTSource",
    "ArgumentError",
    "AsyncCompileMode",
    "Autotuner",
    "AutotunerError",
    "CompilationError",
    "CompileTimeAssertionFailure",
    "CompiledKernel",
    "Config",
    "DeadlockError",
    "DeviceAssertError",
    "Finding",
    "FutureKernel",
    "GPUTarget",
    "Heuristics",
    "IRSource",
    "InternalError",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "Launch",
    "MockTensor",
    "OutOfResources",
    "RayExecutor",
    "ReadOnlyError",
    "SanitizerError",
    "SimulationError",
    "TensorDescriptor",
    "TensorWrapper",
    "TilewrightError",
    "Unsupported",
    "aggregate",
    "aggregate_replace",
    "autotune",
    "cdiv",
    "compile",
    "constexpr_function",
    "heuristics",
    "initialized",
    "jit",
    "knobs",
    "language",
    "map_blocks",
    "next_power_of_2",
    "reinterpret",
    "set_allocator",
    "simulate",
    "tune",
    "uninitialized",
    "vectorize",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _WHOLE_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importing:
        module = import_module(f"{__name__}.{_MODULES.get(name, name)}")
    if name in _WHOLE_MODULES:
        return module
    found = globals()[name] = _lazy[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_WHOLE_MODULES, *(name for name in globals() if name.startswith("__"))})
