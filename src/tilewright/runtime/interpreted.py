"""Kernels that run in Python instead of being compiled: `@jit(interpret=True)` or TRITON_INTERPRET=1.

Every operation computes at once with NumPy, so `print` and a debugger work inside the kernel.

A function called by such a kernel must determine whether its result is used:

    square.area()         marked `must_use_result`: CompilationError, when the kernel is traced or interpreted

Front ends that read a function see its statements. Here only the bytecode of the caller shows it: an expression
statement pops the result of the call. Functions that do not belong to a kernel (`tl.advance`) are called by Python and
not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from tilewright.backends.base import options_facts
from tilewright.backends.registry import make_backend
from tilewright.language.callable import JITCallable
from tilewright.runtime import lazy_imports
from tilewright.runtime.arrays import check_memory
from tilewright.runtime.build import cpu_target
from tilewright.runtime.captured import check_used, stand_for
from tilewright.runtime.devices import check_on_cpu
from tilewright.runtime.kernel import grid_extents
from tilewright.runtime.parameters import KernelInterface, bind, kernel_params
from tilewright.runtime.specialize import named_arrays, specialize
from tilewright.semantics.active import call_function
from tilewright.support import knobs


class InterpretedFunction(JITCallable, KernelInterface):
    """A kernel that the eager interpreter runs."""

    def __init__(self, fn: FunctionType, *, debug: bool = False) -> None:
        super().__init__(fn)
        self.debug = debug
        stand_for(self, fn)
        self.params = kernel_params(self)
        self.arg_names = [param.name for param in self.params]
        self.pre_run_hooks: list[Callable[..., Any]] = []

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        """Run every program of `grid`, one after the other; with `warmup` do nothing."""
        if warmup:
            return
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        arguments, checks_overflow = self._bound(args, kwargs)
        extents = grid_extents(grid, arguments)
        values = {p.name: specialize(arguments[p.name], p) for p in self.params}
        arrays = tuple(named_arrays(values, values.values()))
        check_on_cpu(arrays)
        check_memory(arrays)
        lazy_imports.interpret(self.fn, extents, values, self.params, checks_overflow=checks_overflow)

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Does nothing: there is nothing to compile."""

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook` with the arguments of every launch, before it."""
        self.pre_run_hooks.append(hook)

    @property
    def cache_key(self) -> str:
        return f"interpreted {self.fn.__module__}.{self.fn.__qualname__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function from another interpreted kernel."""
        check_used(self)
        return call_function(self, args, kwargs)

    def __repr__(self) -> str:
        return f"InterpretedFunction({self.fn.__module__}:{self.fn.__qualname__})"

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """The arguments by name, and whether integers that overflow are a failed assertion."""
        values, given = bind(self.fn.__name__, self.params, args, kwargs)
        options = options_facts(make_backend(cpu_target()).parse_options({"debug": self.debug, **given}))
        checks_overflow = (options["debug"] or knobs.runtime.debug) and options.get("sanitize_overflow", True)
        return dict(zip(self.arg_names, values, strict=True)), checks_overflow
