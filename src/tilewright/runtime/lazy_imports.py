"""The only module of the runtime that imports the compiler, the linker and other rarely needed parts, on demand.

A process whose kernels all come from the disk cache, without prints and assertions, never uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any

from tilewright.compiler.artifact import Artifact, Stage
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.drivers.cpu.loader import Blob, NativeCodeError
from tilewright.runtime.parameters import KernelParam
from tilewright.runtime.specialize import Specialized
from tilewright.semantics.constexpr import constexpr
from tilewright.support.collector import resting
from tilewright.support.locks import importing
from tilewright.support.system import SYSTEM, is_raised_by_handler


def deferred(module: str, name: str) -> Callable[..., Any]:
    """A function of this package that is imported when it is called."""

    return lambda *args, **kwargs: _imported(module, name)(*args, **kwargs)


def _imported(module: str, name: str) -> Any:
    path = f"tilewright.{module}"
    with importing, nullcontext() if path in sys.modules else resting():
        return getattr(import_module(path), name)


compile_kernel: Callable[..., Artifact] = deferred("compiler.compile", "compile_kernel")
evaluate = deferred("compiler.compile", "evaluate")
remade: Callable[..., Stage] = deferred("compiler.stages", "remade")
describe_text = deferred("compiler.stages", "describe")
tell: Callable[..., bool] = deferred("runtime.compile_hooks", "tell")
preloaded = deferred("runtime.compile_hooks", "preloaded")
interpreted_function = deferred("runtime.interpreted", "InterpretedFunction")
compile_task = deferred("runtime.compile_task", "CompileTask")
progress = deferred("support.progress", "Progress")
submit = deferred("runtime.waiting", "submit")
local_processes = deferred("runtime.compile_task", "local_processes")
mapped_blocks = deferred("runtime.dask_arrays", "mapped_blocks")
folded_blocks = deferred("runtime.dask_arrays", "folded_blocks")
note_stored = deferred("runtime.cache.upkeep", "note_stored")
link: Callable[[bytes], Blob] = deferred("runtime.drivers.cpu.blob", "link")
kernel_stage: Callable[..., bytes] = deferred("runtime.drivers.cpu.standalone", "kernel_stage")
launcher_stage: Callable[..., bytes] = deferred("runtime.drivers.cpu.standalone", "launcher_stage")
reduced: Callable[[Any], str | tuple[Any, ...]] = deferred("runtime.pickling", "reduced")
deadlock = deferred("runtime.drivers.cpu.listener", "deadlock")
listener = deferred("runtime.drivers.cpu.listener", "Listener")
cuda_device = deferred("runtime.drivers.cuda.device", "cuda_device")
has_gpu: Callable[[], bool] = deferred("cuda", "has_gpu")
cuda_device_of = deferred("runtime.drivers.cuda.device", "device_of")
cuda_driver = deferred("runtime.drivers.cuda.library", "cuda_driver")
gpu_times: Callable[..., list[float]] = deferred("runtime.drivers.cuda.streams", "milliseconds")
for_target = deferred("runtime.tensor_maps", "with_maps")
specs_for_target = deferred("runtime.tensor_maps", "specs_with_maps")
kernel_html: Callable[..., str] = deferred("runtime.display.tabs", "kernel_html")
run_checked = deferred("runtime.sanitizer", "run_checked")
host_parts = deferred("runtime.tensor_maps", "host_parts")
gluon_parts = deferred("runtime.tensor_maps", "gluon_parts")


def distrust() -> str:
    """See `self_test.failure`, which most systems do not need."""
    return str(_imported("runtime.self_test", "failure")()) if SYSTEM.wants_proof else ""


def busy_gpu() -> Any:
    """The current GPU, if this process has used one: see `drivers.cuda.device.is_in_use`; else None."""
    ours, torch = sys.modules.get(f"{__package__}.drivers.cuda.device"), sys.modules.get("torch")
    if (ours is not None and ours.is_in_use()) or (torch is not None and torch.cuda.is_initialized()):
        return cuda_device()
    return None


def native_blob(module: str, text: str, cpu: str, *arguments: str) -> Blob:
    """The LLVM IR that a function of this package gives, compiled for `cpu` and linked."""
    with importing:
        from tilewright.runtime.drivers.cpu.blob import LinkError

    try:
        with importing:
            from tilewright.backends.llvm.machine import LlvmError, compile_object, host_target
        write = _imported(module, text)
    except (ImportError, OSError) as error:
        if is_raised_by_handler(error):
            raise
        raise NativeCodeError(f"the compiler cannot be imported: {error}") from error
    try:
        return link(compile_object(write(*arguments), host_target(cpu), opt=2, optimize=True))
    except (LlvmError, LinkError, ImportError) as error:
        raise NativeCodeError(f"the launcher cannot be compiled: {error}") from error


def native_runtime_blob(machine: str, cpu: str) -> Blob:
    """The launcher and the thread pool, compiled for `cpu`; errors as of `native_blob`."""
    return native_blob("runtime.drivers.cpu.native.text", "runtime_text", cpu, machine)


def interpret(
    python: FunctionType,
    grid: tuple[int, int, int],
    arguments: Mapping[str, Specialized],
    parameters: Sequence[KernelParam],
    *,
    checks_overflow: bool,
) -> None:
    """Run every program of the grid in Python; see `interpreter.eager.run_eagerly`.

    Args:
        grid: the extents of the grid.
        arguments: the argument of each parameter.
        checks_overflow: integers that overflow fail an assertion.
    """
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
            return constexpr(value) if isinstance(value, (bool, int, float, str)) else value
        if isinstance(value, ArrayView):
            buffers.append(buffer_of(name, value.owner))
            value = value.address
        return Argument(language_type(argument.type), value)

    values = {parameter.name: run_time(parameter.name, arguments[parameter.name]) for parameter in parameters}
    run_eagerly(python, grid, values, buffers, checks_overflow=checks_overflow)
