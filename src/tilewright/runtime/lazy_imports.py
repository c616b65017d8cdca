"""The one module of the runtime that imports the compiler, the linker and what else few processes need, on demand.

A process whose kernels all come from the disk cache, and neither print nor assert, never gets here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget
from tilewright.compiler.artifact import Artifact, Stage
from tilewright.compiler.signature import ArgumentSpec
from tilewright.language.callable import JITCallable
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.drivers.cpu.loader import Blob, NativeCodeError
from tilewright.runtime.parameters import KernelParam
from tilewright.runtime.specialize import Specialized
from tilewright.semantics.constexpr import constexpr
from tilewright.support.locks import importing


def compile_kernel(origin: JITCallable | tuple[str, Stage], **request: Any) -> Artifact:
    """Compile; the arguments are the fields of `compiler.compile.Request`."""
    with importing:
        from tilewright.compiler.compile import Request, compile_kernel

    return compile_kernel(Request(origin=origin, **request))


def evaluate(function: JITCallable, name: str, signature: Sequence[ArgumentSpec], options: Any) -> Any:
    """A kernel as TTIR before any pass; see `compiler.compile.evaluate`."""
    with importing:
        from tilewright.compiler.compile import evaluate

    return evaluate(function, name, signature, options)


def is_own_group(number: int) -> bool:
    """Whether a group of users is ours alone; see `cache.groups`."""
    with importing:
        from tilewright.runtime.cache.groups import is_own_group

    return is_own_group(number)


def deadlock(kernel: str, places: Sequence[Sequence[Any]], program: tuple[int, int, int]) -> Exception:
    """The error of a launch whose programs wait for each other; see `drivers.cpu.listener.deadlock`."""
    with importing:
        from tilewright.runtime.drivers.cpu.listener import deadlock

    return deadlock(kernel, places, program)


def listener(sites: Sequence[Mapping[str, Any]]) -> Any:
    """A listener that hears a kernel print and assert; see `drivers.cpu.listener.Listener`."""
    with importing:
        from tilewright.runtime.drivers.cpu.listener import Listener

    return Listener(sites)


def for_target(arguments: list[Specialized], target: GPUTarget) -> list[Specialized]:
    """Arguments as kernels for a GPU get them; see `tensor_maps.with_map`."""
    with importing:
        from tilewright.runtime.tensor_maps import has_engine, with_map

    return list(map(with_map, arguments)) if has_engine(target) else arguments


def specs_for_target(specs: tuple[ArgumentSpec, ...], target: GPUTarget) -> tuple[ArgumentSpec, ...]:
    """Parameters as kernels for a GPU have them; see `tensor_maps.spec_with_map`."""
    with importing:
        from tilewright.runtime.tensor_maps import has_engine, spec_with_map

    return tuple(map(spec_with_map, specs)) if has_engine(target) else specs


def host_parts(descriptor: Any) -> list[Any]:
    """The values of a descriptor's parts; see `tensor_maps.host_parts`."""
    with importing:
        from tilewright.runtime.tensor_maps import host_parts

    return host_parts(descriptor)


def cuda_device(ordinal: int | None = None) -> Any:
    """A GPU, without `ordinal` the current one; see `drivers.cuda.device.cuda_device`."""
    with importing:
        from tilewright.runtime.drivers.cuda.device import cuda_device

    return cuda_device(ordinal)


def cuda_device_of(view: ArrayView) -> Any:
    """The GPU that an array is on; see `drivers.cuda.device.device_of`."""
    with importing:
        from tilewright.runtime.drivers.cuda.device import device_of

    return device_of(view)


def busy_gpu() -> Any:
    """The current GPU, if this process has used one: see `drivers.cuda.device.is_in_use`; else None."""
    ours, torch = sys.modules.get(f"{__package__}.drivers.cuda.device"), sys.modules.get("torch")
    if (ours is not None and ours.is_in_use()) or (torch is not None and torch.cuda.is_initialized()):
        return cuda_device()
    return None


def gpu_times(gpu: Any, fn: Callable[[], Any], count: int, before: Callable[[], None] | None = None) -> list[float]:
    """The durations of runs on a GPU, in milliseconds; see `drivers.cuda.streams.milliseconds`."""
    with importing:
        from tilewright.runtime.drivers.cuda.streams import milliseconds

    return milliseconds(gpu, fn, count, before)


def cuda_error(function: str, code: int) -> Exception:
    """The error with what a function of NVIDIA's driver gave; see `drivers.cuda.library.CudaDriver.error`."""
    with importing:
        from tilewright.runtime.drivers.cuda.library import cuda_driver

    return cuda_driver().error(function, code)


def run_checked(**launch: Any) -> None:
    """Launch a sanitised kernel; the arguments are the fields of `runtime.sanitizer.Launch`."""
    with importing:
        from tilewright.runtime.sanitizer import Launch, run_checked

    run_checked(Launch(**launch))


def note_stored(folder: str, size: int) -> None:
    """Count what was stored in the cache; see `runtime.cache.upkeep.note_stored`."""
    with importing:
        from pathlib import Path

    with importing:
        from tilewright.runtime.cache.upkeep import note_stored

    note_stored(Path(folder), size)


def describe_text(backend: BaseBackend, stage: str, text: Stage, file: str) -> Any:
    """The kernel in the text of a stage; see `compiler.texts.describe`."""
    with importing:
        from tilewright.compiler.texts import describe

    return describe(backend, stage, text, file)


def link(object_file: bytes) -> Blob:
    """Link an object into a blob; see `drivers.cpu.blob.link`."""
    with importing:
        from tilewright.runtime.drivers.cpu.blob import link

    return link(object_file)


def native_runtime_blob(machine: str, cpu: str) -> Blob:
    """The launcher and the thread pool, compiled for `cpu`.

    Raises:
        NativeCodeError: they cannot be compiled.
    """
    with importing:
        from tilewright.runtime.drivers.cpu.elf import LinkError

    try:
        with importing:
            from tilewright.backends.llvm.machine import LlvmError, compile_object, host_target
            from tilewright.runtime.drivers.cpu.blob import link
            from tilewright.runtime.drivers.cpu.native.text import runtime_text
    except (ImportError, OSError) as error:
        raise NativeCodeError(f"the compiler cannot be imported: {error}") from error
    try:
        return link(compile_object(runtime_text(machine), host_target(cpu), opt=2, optimize=True))
    except (LlvmError, LinkError, ImportError) as error:
        raise NativeCodeError(f"the launcher cannot be compiled: {error}") from error


def interpret(
    python: FunctionType,
    grid: tuple[int, int, int],
    arguments: Mapping[str, Specialized],
    parameters: Sequence[KernelParam],
    *,
    checks_overflow: bool,
) -> None:
    """Run every program of the grid in Python; see `interpreter.eager.run_eagerly`."""
    with importing:
        from tilewright.compiler.parameters import container_of, language_type
        from tilewright.compiler.signature import CONSTEXPR, TUPLE
        from tilewright.interpreter.eager import Argument, Made, run_eagerly
        from tilewright.interpreter.memory import HostBuffer, buffer_of

    buffers: list[HostBuffer] = []

    def run_time(name: str, argument: Specialized) -> Any:
        value = argument.value
        if argument.type == TUPLE:
            of = partial(value.of, container=container_of(value.sequence))
            return Made(of, [run_time(f"{name}.{i}", part) for i, part in enumerate(value.parts)])
        if argument.type == CONSTEXPR:
            return value
        if isinstance(value, ArrayView):
            buffers.append(buffer_of(name, value.owner))
            value = value.address
        return Argument(language_type(argument.type), value)

    values: dict[str, Any] = {}
    for parameter in parameters:
        value = run_time(parameter.name, arguments[parameter.name])
        marked = parameter.is_constexpr and isinstance(value, (bool, int, float, str))
        values[parameter.name] = constexpr(value) if marked else value
    run_eagerly(python, grid, values, buffers, checks_overflow=checks_overflow)
