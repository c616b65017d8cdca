"""A compiled kernel, ready to be launched.

kernel = add[grid](x, y, out, n, BLOCK=128)
kernel.asm["ttir"], kernel.metadata.scratch_bytes
kernel[grid](x, y, out, n, 128)        # launches this very kernel, whatever the arguments' types
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NoReturn
from weakref import ref

from tilewright.backends.registry import make_backend
from tilewright.compiler.artifact import Artifact, Metadata, Stages
from tilewright.compiler.signature import (
    TUPLE,
    ArgumentSpec,
    GluonDescriptor,
    HostDescriptor,
    places,
    run_time_arguments,
)
from tilewright.runtime import devices, launch_hooks, lazy_imports
from tilewright.runtime.arrays import ArrayView, check_memory, view_of
from tilewright.runtime.devices import Device, Figures
from tilewright.runtime.drivers.cpu.launcher import Miss, NativeKernel, Specialization, run_grid
from tilewright.runtime.drivers.cpu.loader import LoadedCode
from tilewright.runtime.drivers.cpu.records import Parameter, Slot, StuckPrograms, launch_record
from tilewright.runtime.errors import ArgumentError, ReadOnlyError
from tilewright.runtime.launch_hooks import LazyDict
from tilewright.runtime.specialize import check_fits
from tilewright.support import knobs
from tilewright.support.locks import fork_safe_lock
from tilewright.support.named_tuple import NamedTuple

MAX_EXTENTS = {"x": 2**31 - 1, "y": 65_535, "z": 65_535}
"""Max programs of a grid along each axis: CUDA's limits, on all machines."""


class Image(NamedTuple):
    """Linked machine code: bytes that run wherever they are mapped, and where in them the kernel begins.

    `runs_here` says whether this machine has the instructions that the code uses.
    """

    code: bytes
    entry: int
    runs_here: bool


_loading = fork_safe_lock()
"""Held by the thread that loads a kernel; no attribute of kernels, whose attributes torch pickles."""


class CompiledKernel:
    """One kernel, compiled for one signature, one machine and one set of options.

    Attributes:
        asm: the stages: `source`, `ttir`, …, `asm`, `obj`; of a kernel for a CPU also, compiled for the GPU that
            TILEWRIGHT_GPU_ARCH names on demand: `ttgir`, `ptx`, `cubin`, `sass`.
        metadata: facts: options, `scratch_bytes`, `arguments`, `stored` …
        hash: digest of everything that the code depends on.
        reports: the prints and assertions in it; a kernel that has some is always launched from Python.
        waits: whether programs may wait for others; spins: where they do nothing else.
        checks: what it checks while it runs, as text, "" for nothing; a kernel that does is launched from Python, too.
        src: what it was compiled from: an `ASTSource` or `IRSource`.
        module, function: address of the machine code once it is mapped, for hooks; on a GPU, the driver's handles.
    """

    def __init__(
        self,
        artifact: Artifact,
        image: Image | None,
        signature: Sequence[ArgumentSpec],
        *,
        source: Any = None,
        metadata_group: Mapping[str, str] | None = None,
    ) -> None:
        self.src = source
        self.metadata_group: Mapping[str, str] = metadata_group or {}
        self._artifact = artifact
        self.asm: Stages = artifact.asm
        self.metadata: Metadata = artifact.metadata
        self.name = artifact.name
        self.hash = artifact.hash
        self.signature = tuple(signature)
        passed = run_time_arguments(signature)
        self.types: tuple[str, ...] = tuple(spec.type for spec in passed)
        self.num_threads: int = artifact.metadata.num_threads
        self.scratch_bytes: int = artifact.metadata.scratch_bytes
        self.reports: Sequence[Mapping[str, Any]] = getattr(artifact.metadata, "reports", ())
        self.waits: bool = getattr(artifact.metadata, "waits", False)
        self.spins: Sequence[Sequence[Any]] = getattr(artifact.metadata, "spins", ())
        self.checks: str = getattr(artifact.metadata, "sanitizer", "")
        self.names = tuple(spec.name for spec in passed)
        self._stored = frozenset(artifact.metadata.stored)
        self.module: int | None = None
        self.function: int | None = None
        self._image = image
        self._code: LoadedCode | None = None
        self._figures: dict[Device, Figures] = {}
        self._native: NativeKernel | None = None

    @property
    def kernel(self) -> bytes:
        """The machine code, as the last stage gave it."""
        return self._artifact.binary

    @property
    def packed_metadata(self) -> Any:
        """The part of the metadata that a launcher needs."""
        return make_backend(self.metadata.target).pack_metadata(self.metadata)

    @property
    def n_regs(self) -> int:
        """The number of registers that a thread of a GPU uses; on a CPU, of vector registers that a program can use."""
        return make_backend(self.metadata.target).registers if self._image else self._figure("registers", "n_regs")

    @property
    def n_spills(self) -> int:
        """The number of bytes that a thread of a GPU keeps in memory for want of registers; on a CPU 0."""
        return 0 if self._image else self._figure("spills", "n_spills")

    @property
    def n_max_threads(self) -> int:
        """The most threads that a program may have; on a CPU 1024, for programs that plan with it."""
        return 1024 if self._image else self._figure("max_threads", "n_max_threads")

    def _figure(self, name: str, fact: str) -> int:
        """A fact from the driver; where none has loaded the kernel, from the assembler, if there was one."""
        loaded = next((figures for figures in self._figures.values() if figures.module), None)
        if loaded is None and fact in self.metadata._fields:
            return int(getattr(self.metadata, fact))
        self._init_handles()
        return int(getattr(loaded or next(iter(self._figures.values())), name))

    @property
    def entry(self) -> int:
        """Address of the machine code, mapped on first use.

        Raises:
            RuntimeError: the kernel was compiled for another machine.
        """
        if self.function is None:
            self._init_handles()
        assert self.function is not None, "set when the code was mapped"
        return self.function

    def _init_handles(self) -> None:
        """Map the machine code, or load it to the current device, if that was not done; hooks are called."""
        vars(self).pop("run", None)  # torch sets it to None in kernels that it has unpickled
        device = None if self._image else devices.device_of(self.metadata.target, ())
        if device is not None:
            self.loaded_on(device)
            return
        with _loading:
            if self.module is not None:
                return
            if self._image is None or not self._image.runs_here:
                target = self.metadata.target
                raise RuntimeError(f"{self.name} was compiled for {target.arch}, and this machine cannot run that")
            self._tell(knobs.runtime.kernel_load_start_hook)
            if self.function is None:
                self._code = LoadedCode(self._image.code, self._image.entry, self.name)
                self.function = self._code.entry
            self.module = self.function
            self._tell(knobs.runtime.kernel_load_end_hook)

    def loaded_on(self, device: Device) -> Figures:
        """The facts that a device reports of the kernel, which is loaded there if necessary; hooks are called.

        Raises:
            OutOfResources: the kernel needs more than the device has.
        """
        found = self._figures.get(device)
        if found is not None:
            return found
        with _loading:
            if device not in self._figures:
                self._tell(knobs.runtime.kernel_load_start_hook)
                found = self._figures[device] = device.load(self)
                self.module, self.function = found.module, found.function
                self._tell(knobs.runtime.kernel_load_end_hook)
            return self._figures[device]

    def _tell(self, hook: Callable[..., None] | None) -> None:
        if hook is not None:
            hook(self.module, self.function, self.name, self.metadata_group, self.hash)

    def __del__(self) -> None:
        """Notify hooks that the kernel is deleted; its code is freed with the last reference to it."""
        if getattr(self, "module", None) is not None:
            self._tell(knobs.runtime.kernel_unload_hook)
            self.module = None
            for device, figures in self._figures.items():
                device.unload(figures)

    def launch_metadata(self, grid: Sequence[int], stream: int | None, *args: Any) -> LazyDict:
        """The facts of a launch for launch hooks.

        Args:
            stream: the handle of a stream; None: the current one.
        """
        told = LazyDict({})
        told.add(self._told, (grid, stream, args))
        return told

    def _told(self, grid: Sequence[int], stream: int | None, args: Sequence[Any]) -> dict[str, Any]:
        function = self.function if self._image is None else self.entry
        if stream is None:
            device = next(iter(self._figures), None)
            stream = 0 if device is None else device.current_stream()
        told = {"name": self.name, "function": function, "stream": stream}
        kernel = getattr(self.src, "fn", None)
        describe = getattr(kernel, "launch_metadata", None)
        if kernel is not None and describe is not None:
            told |= describe(grid, self.metadata, dict(zip(kernel.arg_names, args, strict=False)))
        return told

    def run(
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: Any,
        packed: Any,
        metadata: Any,
        enter: Any,
        exit_: Any,
        *args: Any,
    ) -> None:
        """Launch as Triton's launchers do; torch calls it for every kernel of a graph.

        Args:
            x, y, z: the extents.
            function, packed: of the attributes of these names, or anything: they are known.
            metadata: what the hooks are called with, `enter` before the launch and `exit_` behind it, where they are
                neither None nor empty chains; None: this finds it out.
            args: a value per parameter, constants too.
        """
        if enter:
            metadata = metadata or self.launch_metadata((x, y, z), stream, *args)
            enter(metadata)
        if self._image is None:
            self.launch(grid_extents((x, y, z), {}), list(_run_time_values(self.signature, args)), stream=stream)
        else:
            self._launches()[x, y, z](*args)
        if exit_:
            exit_(metadata)

    def launches(self) -> tuple[NativeKernel, Any] | None:
        """An object that launches as `run` on a CPU without hooks does, but faster.

        Returns:
            `native`, for `native[x, y, z](*args)`, and a `Listener`, which is None for a kernel that asserts nothing:
            one thread launches at a time, and raises by `finish` if there are `failures` then. None for a kernel for a
            GPU, and for one that prints, or checks its accesses.
        """
        if self._image is None or self.checks or not all("message" in site for site in self.reports):
            return None
        if not self.reports:
            return self._launches(), None
        listener = lazy_imports.listener(self.reports)
        return self._native_kernel(listener), listener

    def _launches(self) -> NativeKernel:
        """The launches of this very kernel on a CPU, which need no Python once they are known."""
        if self._native is None:
            self._native = self._native_kernel(None)
        return self._native

    def _native_kernel(self, listener: Any) -> NativeKernel:
        parameters, natives = list(map(_native_parameter, self.signature)), list[ref[NativeKernel]]()
        native = NativeKernel(parameters, partial(_launch_values, ref(self), natives, listener))
        natives.append(ref(native))
        return native

    def launch(
        self,
        grid: Sequence[int],
        values: Sequence[int | float | ArrayView],
        *,
        device: Device | None = None,
        stream: int | None = None,
    ) -> None:
        """Run all programs of `grid`; returns when they are done, on a GPU when they are on their way.

        Args:
            device: where; None: on the CPU, or where the arguments are.
            stream: the handle of a stream of the device; None: its current one.

        Raises:
            ArgumentError: an array is where the machine cannot use it, or has no memory.
            ReadOnlyError: the kernel stores through an array that must not be written.
            DeviceAssertError: an assertion in the kernel does not hold.
            DeadlockError: all programs that run wait for others, and have for long.
            SanitizerError: a kernel with `sanitize` did what it must not.
        """
        numbers = [value.address if isinstance(value, ArrayView) else value for value in values]
        for index in self._stored:
            value = values[index]
            if isinstance(value, ArrayView) and not value.writable:
                raise ReadOnlyError(
                    f"argument {self.names[index]!r}: the kernel {self.name} stores through it, but the array is "
                    "read-only; pass a copy"
                )
        programs = prod(grid)
        if programs:
            check_memory(self._arrays(values))
        if self._image is None:
            if programs:
                self._launch_elsewhere((grid[0], grid[1], grid[2]), values, device, stream)
            return
        devices.check_on_cpu(self._arrays(values))
        if programs and self.checks:
            lazy_imports.run_checked(
                facts=self.checks,
                grid=grid,
                names=self.names,
                values=values,
                run=lambda table: self._run(grid, [*numbers, table], (*self.types, "*i64")),
            )
        elif programs:
            self._run(grid, numbers, self.types)

    def _arrays(self, values: Sequence[int | float | ArrayView]) -> Iterator[tuple[str, ArrayView]]:
        """The arrays among the run-time arguments, with their names."""
        return ((name, value) for name, value in zip(self.names, values, strict=True) if isinstance(value, ArrayView))

    def _launch_elsewhere(
        self,
        grid: tuple[int, int, int],
        values: Sequence[int | float | ArrayView],
        device: Device | None,
        stream: int | None,
    ) -> None:
        """Launch on a device, or by the back end of a plug-in."""
        device = device or devices.device_of(self.metadata.target, self._arrays(values))
        if device is None:
            make_backend(self.metadata.target).launch(self, grid, list(values))
        else:
            device.launch(self, grid, values, stream)

    def _run(self, grid: Sequence[int], numbers: Sequence[int | float], types: Sequence[str]) -> None:
        listener = lazy_imports.listener(self.reports) if self.reports else None
        record = launch_record(grid, numbers, types, listener=listener.address if listener else 0)
        sizes = {"scratch_bytes": self.scratch_bytes, "num_threads": self.num_threads}
        try:
            run_grid(self.entry, record, prod(grid), **sizes, waits=self.waits)
        except StuckPrograms as stuck:
            self.launch_is_stuck(stuck)
        finally:
            if listener is not None:
                listener.close()
        if listener is not None:
            listener.finish()

    def launch_is_stuck(self, stuck: StuckPrograms) -> NoReturn:
        """Called when a launch ended because all programs that ran waited for others."""
        x, y, z = stuck.program
        raise lazy_imports.deadlock(self.name, self.spins[stuck.site], (x, y, z)) from None

    def launch_failed(self, code: int) -> None:
        """Called by the native launcher when the driver of a GPU gave an error, below 0 one for a tensor map."""
        function = "cuLaunchKernelEx" if code > 0 else "cuTensorMapEncodeTiled"
        raise lazy_imports.cuda_driver().error(function, abs(code))

    def native_specialization(
        self, device: Device | None, values: Sequence[int | float | ArrayView], stream: int | None
    ) -> Specialization | None:
        """The record by which the native launcher launches this kernel by itself, or None."""
        if device is not None:
            return device.specialization(self, values, stream)
        return Specialization(self.entry, self, self.slots(), self.scratch_bytes, self.num_threads, self.waits)

    def slots(self) -> tuple[Slot, ...]:
        """The sources of the run-time arguments among the arguments."""
        named = ((path, spec) for path, spec in places(self.signature) if not spec.is_constant)
        return tuple(Slot(path[0], spec.type, path[1:]) for path, spec in named)

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        """A function that launches this kernel: it takes a value for each parameter, those of constants unused."""

        def launcher(*args: Any, stream: Any = None) -> CompiledKernel:
            if len(args) != len(self.signature):
                raise TypeError(f"{self.name} takes {len(self.signature)} arguments but {len(args)} were given")
            if self._image is not None and stream is None and not launch_hooks.is_on():
                self._launches()[grid](*args)
                return self
            extents, values = grid_extents(grid, {}), list(_run_time_values(self.signature, args))
            handle = devices.stream_handle(stream)
            if launch_hooks.is_on():
                metadata = self.launch_metadata(extents, handle, *args)
                launch_hooks.launch(self, metadata, lambda: self.launch(extents, values, stream=handle))
            else:
                self.launch(extents, values, stream=handle)
            return self

        return launcher

    def _repr_html_(self) -> str:
        """The view of a notebook: source, stages and metadata, lines matched; see `display/tabs.py`."""
        return lazy_imports.kernel_html(self)

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name}, {self.hash[:12]})"


def _launch_values(
    weak: ref[CompiledKernel],
    natives: Sequence[ref[NativeKernel]],
    listener: Any,
    grid: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    miss: Miss | None,
) -> None:
    """A launch that one of `natives`, which the kernel or its caller owns, does not know; it will know the next one.

    Args:
        listener: receives reports of the next launches; None: kernels that report are not known then.
    """
    kernel, native = weak(), natives[0]()
    assert kernel is not None, "it launches"
    assert native is not None, "it called this"
    values = list(_run_time_values(kernel.signature, args))
    kernel.launch(grid_extents(grid, kwargs), values)
    known = not kernel.checks and (listener is not None or not kernel.reports)
    specialization = kernel.native_specialization(None, values, None) if known else None
    if specialization is not None:
        heard = {} if listener is None else {"listener": listener.address, "keeps": (listener,)}
        native.install(miss, specialization._replace(result=None, **heard))


def _native_parameter(spec: ArgumentSpec) -> Parameter:
    kind = "" if spec.is_pointer or spec.is_constant or spec.type == TUPLE else spec.type
    return Parameter(spec.name, is_constant=spec.is_constant, by_value=False, by_alignment=False, kind=kind)


def grid_extents(grid: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
    """Three extents from what stands in `kernel[grid]`.

    Args:
        grid: one to three whole numbers, or a function of the arguments that returns them; further ones may be 1.
        arguments: the arguments by name.

    Raises:
        TypeError: something else.
        ValueError: an extent is negative or beyond `MAX_EXTENTS`, there is none, or a fourth is not 1.
    """
    if callable(grid):
        grid = grid(arguments)
    extents = tuple(map(_extent, grid)) if isinstance(grid, Iterable) else (_extent(grid),)
    if not extents or any(extent != 1 for extent in extents[3:]):
        raise ValueError(f"a grid has one, two or three extents, and {extents} has {len(extents)}")
    for extent, (axis, most) in zip(extents, MAX_EXTENTS.items(), strict=False):
        if not 0 <= extent <= most:
            problem = "negative" if extent < 0 else f"more than the {most} that CUDA allows"
            hint = "; use axis x, or let each program do more" if most < extent <= MAX_EXTENTS["x"] else ""
            raise ValueError(f"the grid {extents} has {extent} programs along {axis}, which is {problem}{hint}")
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _extent(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"a grid is made of whole numbers; {value!r} is a {type(value).__name__}") from None


def _run_time_values(specs: Sequence[ArgumentSpec], values: Sequence[Any]) -> Iterator[int | float | ArrayView]:
    for spec, value in zip(specs, values, strict=True):
        if spec.type == TUPLE:
            given = value
            if issubclass(spec.sequence, HostDescriptor):
                parts_of = lazy_imports.gluon_parts if spec.sequence is GluonDescriptor else lazy_imports.host_parts
                given = parts_of(value)
            yield from _run_time_values(spec.elements, given[: len(spec.elements)])
        elif spec.is_pointer:
            yield view_of(value) or value
        elif not spec.is_constant:
            yield _fitting(value, spec)


def _fitting(value: Any, spec: ArgumentSpec) -> Any:
    try:
        check_fits(value, spec.type)
    except ArgumentError as error:
        raise type(error)(f"argument {spec.name!r}: {error}") from None
    return value
