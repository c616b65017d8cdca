"""`@jit`: a Python function becomes a kernel that is compiled when it is launched.

    @jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): …

    kernel = add[(cdiv(n, 128),)](x, y, out, n, BLOCK=128)

A launch whose arguments look like those of an earlier one goes through the native launcher without any of this. Others
come to `JITFunction.launch`: specialise → look up → compile → launch.
"""

from __future__ import annotations

import inspect
import textwrap
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache, update_wrapper
from types import FunctionType
from typing import Any, NamedTuple, cast, overload

from tilewright.compiler.signature import TUPLE
from tilewright.language.callable import JITCallable
from tilewright.runtime import late
from tilewright.runtime.build import KernelRequest, make_kernel
from tilewright.runtime.dependencies import UsedGlobals, check_unchanged, dependencies
from tilewright.runtime.drivers.cpu.launcher import (
    NO_DEFAULT,
    Miss,
    NativeKernel,
    Parameter,
    accelerate,
    create_native_kernel,
)
from tilewright.runtime.interpreted import InterpretedFunction
from tilewright.runtime.kernel import CompiledKernel, grid_extents
from tilewright.runtime.parameters import KernelParam, bind, kernel_params
from tilewright.runtime.specialize import Specialized, argument_spec, constant_key, specialize
from tilewright.semantics.active import is_running
from tilewright.support import knobs

Grid = Any
Hook = Callable[..., Any]


class Call(NamedTuple):
    """A call's arguments, specialised.

    Attributes:
        values: one per parameter, as passed.
        arguments: one per parameter, as compiled for.
        options: the keywords that are no parameters.
    """

    values: list[Any]
    arguments: list[Specialized]
    options: dict[str, Any]

    @property
    def key(self) -> Hashable:
        """Equal for calls that the same compiled kernel serves."""
        signature = tuple((argument.type, argument.key) for argument in self.arguments)
        return signature, tuple(sorted((name, constant_key(value)) for name, value in self.options.items()))

    def run_time_values(self) -> list[Any]:
        """What the machine code gets."""
        return list(_leaves(self.arguments))


class JITFunction(JITCallable):
    """A kernel.

    Attributes:
        fn: the Python function.
        params: its parameters.
        debug, noinline, sanitize, version, launch_metadata: as given to `jit`.
        used_global_vals: outer values that compiled code depends on.
    """

    __slots__ = ("_native",)
    _native: NativeKernel
    """Where the native `__getitem__` looks; unset while launches have to come through Python."""

    def __init__(
        self,
        fn: FunctionType,
        *,
        version: Any = None,
        repr: Callable[[Any], str] | None = None,
        launch_metadata: Callable[..., dict[str, Any]] | None = None,
        do_not_specialize: Collection[str | int] = (),
        do_not_specialize_on_alignment: Collection[str | int] = (),
        debug: bool | None = None,
        sanitize: str | Sequence[str] | None = None,
        noinline: bool = False,
    ) -> None:
        super().__init__(fn)
        self.version, self.launch_metadata = version, launch_metadata
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        self.debug, self.noinline = debug, noinline
        self.sanitize = sanitize
        self.params: tuple[KernelParam, ...] = kernel_params(fn, do_not_specialize, do_not_specialize_on_alignment)
        self.arg_names = [param.name for param in self.params]
        self.pre_run_hooks: list[Hook] = []
        self._repr = repr
        self._kernels: dict[Hashable, CompiledKernel] = {}
        self._launcher: NativeKernel | None = None
        self._hash: str | None = None
        self._used_globals: UsedGlobals = {}
        self._hashing = False
        self._lock = threading.RLock()
        update_wrapper(self, fn)

    def __getitem__(self, grid: Grid) -> Callable[..., CompiledKernel]:
        """A function that launches the kernel on `grid`: one to three extents, or a function of the arguments.

        Once the kernel was compiled, a native function stands in for this one where nothing has to be watched.
        """
        _accelerate()
        if self.pre_run_hooks:
            return lambda *args, **kwargs: self._launch(grid, args, kwargs, None)
        launches = self._launches()
        if self._used_globals:
            check_unchanged(self.fn.__name__, self._used_globals)
        elif self._kernels:
            self._native = launches
        return cast("Callable[..., CompiledKernel]", launches[grid])

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> CompiledKernel:
        """Launch the kernel, or with `warmup` only compile it.

        Args:
            args: the arguments.
            grid: as in `kernel[grid]`.
            warmup: do not launch.
            kwargs: further arguments, and options.

        Returns: the compiled kernel.
        """
        if warmup:
            return self._kernel_for(self._specialized(args, kwargs))
        return self[grid](*args, **kwargs)

    def warmup(self, *args: Any, grid: Grid, **kwargs: Any) -> CompiledKernel:
        """Compile the kernel for these arguments without launching it."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def add_pre_run_hook(self, hook: Hook) -> None:
        """Call `hook` with the arguments of every launch, before it."""
        self.pre_run_hooks.append(hook)
        if hasattr(self, "_native"):
            del self._native

    @property
    def cache_key(self) -> str:
        """A digest of the function and of everything that it uses."""
        if self._hash is None:
            with self._lock:
                if self._hashing:  # it calls itself, perhaps through others
                    return f"recursive {self.fn.__module__}.{self.fn.__qualname__}"
                self._hashing = True
                try:
                    found = dependencies(self.fn)
                finally:
                    self._hashing = False
                self._used_globals, self._hash = found.globals, found.digest
        return self._hash

    @property
    def used_global_vals(self) -> UsedGlobals:
        """The outer values that compiled code depends on, by name and namespace."""
        return self._used_globals

    @property
    def src(self) -> str:
        """The text of the function, from `def` on."""
        text = textwrap.dedent(inspect.getsource(self.fn))
        lines = text.splitlines(keepends=True)
        start = next((i for i, line in enumerate(lines) if line.startswith("def ")), 0)
        return "".join(lines[start:])

    def repr(self, call: Call | None = None) -> str:
        """The symbol of the kernel in compiled code."""
        if self._repr is None:
            return self.fn.__name__
        arguments = call.arguments if call else []
        return self._repr(Specialization.of(self.params, arguments))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function from a kernel that runs in Python."""
        if not is_running():
            raise RuntimeError("Cannot call @jit'd outside of the scope of a kernel: launch it with kernel[grid](...)")
        return late.call_eagerly(self.fn, args, kwargs)

    def __repr__(self) -> str:
        return f"JITFunction({self.fn.__module__}:{self.fn.__qualname__})"

    def __reduce__(self) -> str:
        return self.fn.__qualname__  # by reference, as functions are

    def _launch(self, grid: Grid, args: Sequence[Any], kwargs: Mapping[str, Any], miss: Miss | None) -> CompiledKernel:
        """A launch that the native launcher does not know; `miss` is its name for arguments like these."""
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        call = self._specialized(args, kwargs)
        extents = grid_extents(grid, dict(zip(self.arg_names, call.values, strict=True)))
        kernel = self._kernel_for(call)
        kernel.launch(extents, call.run_time_values())
        if miss is not None and not (kernel.reports or kernel.checks):
            self._launches().install(miss, kernel.native_specialization())
        return kernel

    def _launches(self) -> NativeKernel:
        """The launches that need no Python any more."""
        if self._launcher is None:
            self._launcher = create_native_kernel(list(map(_native_parameter, self.params)), self._launch)
        return self._launcher

    def _specialized(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        values, options = bind(self.fn.__name__, self.params, args, kwargs)
        if self.debug is not None:
            options.setdefault("debug", self.debug)
        if self.sanitize is not None:
            options.setdefault("sanitize", self.sanitize)
        return Call(values, list(map(specialize, values, self.params)), options)

    def _kernel_for(self, call: Call) -> CompiledKernel:
        key = call.key
        kernel = self._kernels.get(key)
        if kernel is None:
            with self._lock:  # of several threads one compiles
                kernel = self._kernels.get(key)
                if kernel is None:
                    kernel = self._kernels[key] = self._make(call)
        elif self._used_globals:
            check_unchanged(self.fn.__name__, self._used_globals)
        return kernel

    def _make(self, call: Call) -> CompiledKernel:
        if self._used_globals:
            check_unchanged(self.fn.__name__, self._used_globals)
        specs = [argument_spec(name, argument) for name, argument in zip(self.arg_names, call.arguments, strict=True)]
        return make_kernel(KernelRequest(self, self.repr(call), lambda: self.src, specs, call.options))


class Specialization(NamedTuple):
    """What `jit(repr=…)` gets: the constants and the types of a call, by parameter name."""

    constants: dict[str, Any]
    signature: dict[str, str]

    @classmethod
    def of(cls, params: Sequence[KernelParam], arguments: Sequence[Specialized]) -> Specialization:
        pairs = list(zip(params, arguments, strict=False))
        constants = {param.name: argument.value for param, argument in pairs if argument.type == "constexpr"}
        return cls(constants, {param.name: argument.type for param, argument in pairs})


@cache
def _accelerate() -> None:
    """Replace `JITFunction.__getitem__` by its native equivalent, where there is one."""
    accelerate(JITFunction, "_native")


def _native_parameter(param: KernelParam) -> Parameter:
    return Parameter(
        param.name,
        default=param.default if param.has_default else NO_DEFAULT,
        is_constant=param.is_constexpr,
        by_value=not param.do_not_specialize,
        by_alignment=not (param.do_not_specialize or param.do_not_specialize_on_alignment),
    )


def _leaves(arguments: Sequence[Specialized]) -> Iterator[Any]:
    for argument in arguments:
        if argument.type == TUPLE:
            yield from _leaves(argument.value.parts)
        elif argument.type != "constexpr":
            yield argument.value


@overload
def jit(fn: Callable[..., Any]) -> JITFunction: ...
@overload
def jit(
    fn: None = None, *, interpret: bool | None = None, **options: Any
) -> Callable[[Callable[..., Any]], JITFunction]: ...


def jit(fn: Any = None, *, interpret: bool | None = None, **options: Any) -> Any:
    """Make a kernel of a Python function.

    Args:
        fn: the function; without it, a decorator is returned.
        interpret: run in Python instead of compiling; None follows TRITON_INTERPRET.
        options: `version`, `repr`, `launch_metadata`, `do_not_specialize`, `do_not_specialize_on_alignment`, `debug`,
            `noinline`, as Triton has them; `sanitize`, what the kernel checks while it runs.

    Raises:
        TypeError: `fn` is no function, or has parameters that a kernel cannot have.
    """
    if fn is None:
        return lambda function: jit(function, interpret=interpret, **options)
    if isinstance(fn, JITFunction | InterpretedFunction):
        return fn
    if not isinstance(fn, FunctionType):
        raise TypeError(f"@jit makes kernels of Python functions, not of a {type(fn).__name__}")
    if knobs.runtime.interpret if interpret is None else interpret:
        return InterpretedFunction(fn)
    options = {name: value for name, value in options.items() if value is not None}
    return JITFunction(fn, **options)
