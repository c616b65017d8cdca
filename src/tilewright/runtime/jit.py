"""`@jit`: a Python function becomes a kernel that is compiled when it is launched.

    @jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): …

    kernel = add[(cdiv(n, 128),)](x, y, out, n, BLOCK=128)

A launch whose arguments have the key of an earlier one goes through the native launcher without any of this. Others
come to `JITFunction.launch`: specialise → look up → compile → launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import FunctionType
from typing import Any, cast, overload
from weakref import WeakSet

from tilewright.backends.registry import make_backend
from tilewright.compiler.signature import TUPLE
from tilewright.language.callable import JITCallable
from tilewright.runtime import devices, launch_hooks, lazy_imports
from tilewright.runtime.async_compile import FutureKernel, active_mode
from tilewright.runtime.build import build, compiler_identity, cpu_target, current_backend, current_target
from tilewright.runtime.captured import CapturedFunction, check_used, functions_by_name
from tilewright.runtime.dependencies import check_unchanged, value_text
from tilewright.runtime.device_caches import DeviceCaches, KernelCache
from tilewright.runtime.devices import Device
from tilewright.runtime.drivers.cpu.guards import guards_for
from tilewright.runtime.drivers.cpu.launcher import Miss, NativeKernel, accelerate
from tilewright.runtime.drivers.cpu.records import NO_DEFAULT, Parameter
from tilewright.runtime.kernel import CompiledKernel, grid_extents
from tilewright.runtime.parameters import (
    KernelInterface,
    KernelParam,
    LaunchGrid,
    bind,
    check_constants,
    kernel_params,
)
from tilewright.runtime.sources import Compilation, Specialization
from tilewright.runtime.specialize import Specialized, argument_spec, key_text, named_arrays, specialize
from tilewright.semantics.active import call_function, is_running
from tilewright.support import knobs
from tilewright.support.locks import fork_safe_lock
from tilewright.support.named_tuple import NamedTuple

Grid = Any
Hook = Callable[..., Any]


FRONTENDS = ("auto", "ast", "bytecode", "trace")


class Call(NamedTuple):
    """A call's arguments, specialised.

    Attributes:
        arguments: one per parameter, as compiled for.
        options: the keywords that are no parameters.
    """

    values: list[Any]
    arguments: list[Specialized]
    options: dict[str, Any]
    device: Device | None
    stream: int | None

    @property
    def key(self) -> Hashable:
        """A key that is equal for calls that the same compiled kernel serves."""
        signature = tuple((argument.type, argument.key) for argument in self.arguments)
        target = None if self.device is None else self.device.target
        return signature, tuple(sorted((name, value_text(value)) for name, value in self.options.items())), target

    @property
    def text(self) -> str:
        """The key as a text, which is the same in every process."""
        options = sorted(f"{name}={value_text(value)}" for name, value in self.options.items())
        target = [] if self.device is None else [repr(self.device.target)]
        return ";".join([*map(key_text, self.arguments), *options, *target])

    def run_time_values(self) -> list[Any]:
        """The arguments of the machine code."""
        return list(_leaves(self.arguments))


class JITFunction(CapturedFunction, JITCallable, KernelInterface):
    """A kernel.

    Attributes:
        params: its parameters; `arg_names` their names, `constexprs` the numbers of those that are constants.
        debug, noinline, sanitize, version, launch_metadata, do_not_specialize, do_not_specialize_on_alignment: as given
            to `jit`.
        pre_run_hooks: called with the arguments of every launch, before it.
        kernel: None; Triton has it.
    """

    __slots__ = ("_native",)
    _native: NativeKernel
    """The slot in which the native `__getitem__` looks; unset until the first launch."""

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
        frontend: str = "auto",
    ) -> None:
        if frontend not in FRONTENDS:
            raise ValueError(f"frontend is one of {', '.join(FRONTENDS)}; not {frontend!r}")
        compiler_identity()  # now: the first launch does without reading dates of files
        super().__init__(fn, frontend)
        self.module = fn.__module__
        self.version, self.launch_metadata = version, launch_metadata
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        self.debug, self.noinline = debug, noinline
        self.sanitize = sanitize
        self.params: tuple[KernelParam, ...] = kernel_params(self, do_not_specialize, do_not_specialize_on_alignment)
        self.arg_names = [param.name for param in self.params]
        self.constexprs = [param.num for param in self.params if param.is_constexpr]
        self.pre_run_hooks: list[Hook] = []
        self.kernel: None = None
        self._repr = repr
        self._kernels = KernelCache(self.forget_launches)
        self._keys: dict[Hashable, str] = {}
        self.device_caches = DeviceCaches(self.create_binder, self._kernels.clear)
        self._launcher: NativeKernel | None = None
        self._compiling = fork_safe_lock()
        _functions.add(self)

    def __getitem__(self, grid: LaunchGrid) -> Callable[..., CompiledKernel]:
        """A function that launches the kernel on `grid`: one to three extents, or a function of the arguments.

        After the first launch, a native function stands in for this one.
        """
        _accelerate()
        self._native = launches = self._launches()
        return cast("Callable[..., CompiledKernel]", launches[grid])

    def run(self, *args: Any, grid: Grid, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch the kernel, or with `warmup` only compile it.

        Returns: the compiled kernel; None if `knobs.runtime.jit_cache_hook` forbade to compile it.
        """
        if not warmup:
            return self[grid](*args, **kwargs)
        for hook in tuple(self.pre_run_hooks):
            hook(*args, **kwargs)
        return self._kernel_for(self._specialized(args, kwargs), is_warmup=True)

    def add_pre_run_hook(self, hook: Hook) -> None:
        """Call `hook` with the arguments of every launch, before it."""
        assert callable(hook), "a hook can be called"
        self.pre_run_hooks.append(hook)

    def preload(self, specialization_data: str) -> CompiledKernel | None:
        """Compile, or load from disk, the kernel that a cache hook got as `compile["specialization_data"]`.

        Raises:
            RuntimeError: the text is about another kernel or another machine.
        """
        return cast(
            "CompiledKernel | None", self._make(lazy_imports.preloaded(specialization_data, self, functions_by_name))
        )

    def create_binder(self) -> tuple[Any, ...]:
        """Compiled kernels, their keys, target, back end, and a function that specialises arguments."""
        return self._kernels, self._keys, current_target(), current_backend(), self._bound

    def repr(self, specialization: Specialization | None = None) -> str:
        """The symbol of the kernel in compiled code."""
        if self._repr is not None:
            return self._repr(specialization)
        return self.__name__.replace("<lambda>", "lambda_")  # not `fn`: torch takes that away before it pickles

    def maker(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """`JITFunction`, and the options that `jit` was given."""
        names = ("version", "launch_metadata", "do_not_specialize", "do_not_specialize_on_alignment", "debug")
        options = {name: getattr(self, name) for name in (*names, "sanitize", "noinline", "frontend")}
        return JITFunction, {"repr": self._repr, **options}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function from a kernel that runs in Python."""
        if not is_running():
            raise RuntimeError("Cannot call @jit'd outside of the scope of a kernel: launch it with kernel[grid](...)")
        check_used(self)
        return call_function(self, args, kwargs)

    def __repr__(self) -> str:
        return f"JITFunction({self.module}:{self.fn.__qualname__})"

    def check(self) -> None:
        """Refuse options that contradict the parameters."""
        check_constants(self.fn, self.params)

    def forget_code(self) -> None:
        """The source changed: kernels made of it are of no use, and any other kernel may have had it as an argument."""
        self._kernels.clear()
        forget_launches()

    def forget_launches(self) -> None:
        """Make the next launches look up their kernel again."""
        if self._launcher is not None:
            self._launcher.clear()

    def _launch(self, grid: Grid, args: Sequence[Any], kwargs: Mapping[str, Any], miss: Miss | None) -> Any:
        """A launch that the native launcher does not know; `miss` is its name for arguments like these."""
        for hook in tuple(self.pre_run_hooks):
            hook(*args, **kwargs)
        call = self._specialized(args, kwargs)
        kernel = self._kernel_for(call, is_warmup=False)
        if kernel is None:
            return None
        extents = grid_extents(grid, dict(zip(self.arg_names, call.values, strict=True)))
        if not _is_made_of_ints(grid):
            kernel, call = self._again(kernel, call, args, kwargs)
            if kernel is None:
                return None
        if launch_hooks.is_on():
            metadata = kernel.launch_metadata(extents, call.stream, *call.values)
            launch_hooks.launch(kernel, metadata, lambda: _run(*self._again(kernel, call, args, kwargs), extents))
            return kernel
        _run(kernel, call, extents)
        if miss is not None and not devices.is_in_context():
            self._install(miss, kernel, call)
        return kernel

    def _again(
        self, kernel: CompiledKernel, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[CompiledKernel | None, Call]:
        """The same launch, after code of the program ran: a grid or a hook may resize, or free, an argument."""
        now = self._specialized(args, kwargs)
        return (kernel if now.key == call.key else self._kernel_for(now, is_warmup=False)), now

    def _install(self, miss: Miss, kernel: CompiledKernel, call: Call) -> None:
        """Make launches like this one run without Python, if they can."""
        guards = guards_for(self.used_global_vals | self.all_callees())
        if kernel.reports or kernel.checks or not self._launches().guard(guards):
            return
        specialization = kernel.native_specialization(call.device, call.run_time_values(), call.stream)
        if specialization is not None:
            self._launches().install(miss, specialization)

    def _launches(self) -> NativeKernel:
        """The launches that need no Python any more."""
        if self._launcher is None:
            parameters, lives_on = map(_native_parameter, self.params), "<locals>" not in self.fn.__qualname__
            made = NativeKernel(list(parameters), self._launch, self.pre_run_hooks, lives_on=lives_on)
            with self._compiling:  # there is one only, ever: native code uses it without asking for a reference
                self._launcher = self._launcher or made
        return self._launcher

    def _specialized(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        values, options = bind(self.fn.__name__, self.params, args, kwargs)
        if options.get("debug", self.debug) or knobs.runtime.debug:
            options["debug"] = True
        stream = devices.stream_handle(options.pop("stream", None))
        arguments = list(map(specialize, values, self.params))
        device = devices.device_for(named_arrays(self.arg_names, arguments), needs_gpu=self.is_gluon())
        if device is not None:
            arguments = lazy_imports.for_target(arguments, device.target)
        sanitize = self.sanitize or knobs.tilewright.sanitize
        if sanitize and device is None:
            options.setdefault("sanitize", sanitize)
        if knobs.tilewright.interruptible and device is None:
            options.setdefault("interruptible", True)
        return Call(values, arguments, options, device, stream)

    def _bound(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[tuple[Any, Any]], dict[str, Any]]:
        """Arguments by name, (type, key) of each, and the options."""
        values, options = bind(self.fn.__name__, self.params, args, kwargs)
        arguments = map(specialize, values, self.params)
        types = [argument.as_triton() for argument in arguments]
        return dict(zip(self.arg_names, values, strict=True)), types, options

    def _kernel_for(self, call: Call, *, is_warmup: bool) -> Any:
        """The kernel for a call; None if a hook forbids to compile it, a FutureKernel while it is being compiled."""
        self.forget_if_redefined()
        key = call.key
        text = self._keys.get(key)
        if text is None:
            text = self._keys[key] = call.text
        inspect_stages = knobs.runtime.add_stages_inspection_hook
        if inspect_stages is not None:
            text += f";stages={inspect_stages()[1]}"
        if knobs.tilewright.cpu and call.device is None:
            text += f";cpu={knobs.tilewright.cpu}"
        kernel = self._kernels.get(text)
        if kernel is None:
            with self._compiling:  # of several threads one compiles
                kernel = self._kernels.get(text) or self._make(self._compilation(call, text, is_warmup=is_warmup))
        if isinstance(kernel, FutureKernel) and not is_warmup:
            kernel = kernel.result()
        if self.used_global_vals:
            check_unchanged(self.fn.__name__, self.used_global_vals)
        return kernel

    def _compilation(self, call: Call, key: str, *, is_warmup: bool) -> Compilation:
        if self.used_global_vals:
            check_unchanged(self.fn.__name__, self.used_global_vals)
        specs = [argument_spec(name, argument) for name, argument in zip(self.arg_names, call.arguments, strict=True)]
        target = cpu_target() if call.device is None else call.device.target
        return Compilation.of(self, key, specs, call.options, is_warmup=is_warmup, target=target)

    def _make(self, compilation: Compilation) -> Any:
        """Compile, now or in the background, and remember the kernel."""
        if _tell(knobs.runtime.jit_cache_hook, compilation):
            return None
        mode = active_mode.get()
        if mode is not None:
            task = lazy_imports.compile_task(compilation, partial(_compiled, compilation))
            self._kernels[compilation.key] = future = mode.submit(
                (self, compilation.key), task, partial(self._keep, compilation)
            )
            return future
        kernel = _compiled(compilation)
        self._keep(compilation, kernel)
        return kernel

    def _keep(self, compilation: Compilation, kernel: CompiledKernel) -> None:
        self._kernels[compilation.key] = kernel
        _tell(knobs.runtime.jit_post_compile_hook, compilation)


def _tell(hook: Callable[..., Any] | None, compilation: Compilation) -> bool:
    """Call a hook, if there is one; returns whether it forbids the compilation."""
    return hook is not None and lazy_imports.tell(hook, compilation)


_functions: WeakSet[JITFunction] = WeakSet()


def forget_launches() -> None:
    """Make all kernels look up their next launches again."""
    for function in tuple(_functions):
        function.forget_launches()


launch_hooks.on_other_code(forget_launches)


def _compiled(compilation: Compilation) -> CompiledKernel:
    return build(compilation.source, make_backend(compilation.target), compilation.options)


@cache
def _accelerate() -> None:
    """Replace `JITFunction.__getitem__` by its native equivalent, where there is one."""
    accelerate(JITFunction, "_native")


def _is_made_of_ints(grid: Grid) -> bool:
    return type(grid) in (tuple, list) and all(type(extent) is int for extent in grid)


def _run(kernel: CompiledKernel | None, call: Call, extents: tuple[int, int, int]) -> None:
    """Launch, unless a hook forbade to compile the kernel."""
    if kernel is not None:
        kernel.launch(extents, call.run_time_values(), device=call.device, stream=call.stream)


def _native_parameter(param: KernelParam) -> Parameter:
    return Parameter(
        param.name,
        default=param.default if param.has_default else NO_DEFAULT,
        is_constant=param.is_constexpr,
        by_value=not param.do_not_specialize,
        by_alignment=not (param.do_not_specialize or param.do_not_specialize_on_alignment),
        kind=param.annotation_type,
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
    fn: None = None,
    *,
    interpret: bool | None = None,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., dict[str, Any]] | None = None,
    do_not_specialize: Collection[str | int] | None = None,
    do_not_specialize_on_alignment: Collection[str | int] | None = None,
    debug: bool | None = None,
    sanitize: str | Sequence[str] | None = None,
    noinline: bool | None = None,
    frontend: str | None = None,
) -> Callable[[Callable[..., Any]], JITFunction]: ...


def jit(
    fn: Any = None,
    *,
    interpret: bool | None = None,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., dict[str, Any]] | None = None,
    do_not_specialize: Collection[str | int] | None = None,
    do_not_specialize_on_alignment: Collection[str | int] | None = None,
    debug: bool | None = None,
    sanitize: str | Sequence[str] | None = None,
    noinline: bool | None = None,
    frontend: str | None = None,
) -> Any:
    """Make a kernel of a Python function.

    Args:
        fn: the function; without it, a decorator is returned.
        interpret: run in Python instead of compiling; None follows TRITON_INTERPRET.
        version: kept, without a meaning, as in Triton.
        repr: `repr(specialization)` gives the kernel's symbol; the argument has `constants` and `signature`.
        launch_metadata: `launch_metadata(grid, metadata, arguments)` gives entries for launch hooks: `name`, `flops`,
            `bytes`.
        do_not_specialize: names or numbers of parameters for which neither the value 1 nor multiples of 16 make a
            kernel of their own.
        do_not_specialize_on_alignment: those for which multiples of 16 do not.
        debug: check `tl.device_assert`.
        sanitize: what the kernel checks while it runs, such as `bounds`.
        noinline: calls of it from other kernels stay calls.
        frontend: `ast` (the source, as Triton), `bytecode`, `auto` (bytecode where there is no source), or `trace`: the
            function is run once, on tiles that record what is done with them. None is `auto`.

    Raises:
        TypeError: `fn` is no function, or has parameters that a kernel cannot have.
        ValueError: `fn` has no source, and frontend="ast".

    Example:
        >>> @tw.jit
        ... def double(x_ptr, n, BLOCK: tl.constexpr):
        ...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
        >>> x = np.arange(5.0)
        >>> kernel = double[(1,)](x, 5, BLOCK=8)
        >>> x
        array([0., 2., 4., 6., 8.])
    """
    unspecialized, unaligned = do_not_specialize, do_not_specialize_on_alignment
    values = (version, repr, launch_metadata, unspecialized, unaligned, debug, sanitize, noinline, frontend)
    given = {name: value for name, value in zip(_OPTIONS, values, strict=True) if value is not None}
    if fn is None:
        return partial(jit, interpret=interpret, **given)
    if isinstance(fn, JITCallable):
        return fn
    if not isinstance(fn, FunctionType):
        raise TypeError(f"@jit makes kernels of Python functions, not of a {type(fn).__name__}")
    if knobs.runtime.interpret or lazy_imports.distrust() if interpret is None else interpret:
        return lazy_imports.interpreted_function(fn, debug=bool(debug))
    return JITFunction(fn, **given)


_OPTIONS = tuple(name for name in inspect.signature(JITFunction).parameters if name != "fn")
"""The options of `jit` that a kernel gets, in order."""
