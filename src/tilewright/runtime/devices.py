"""The device of a launch: chosen by the arguments, unless the program chooses.

    add[grid](numpy_array, …)                           this CPU
    add[grid](cuda_tensor, …)                           the GPU that the tensor is on
    with using(device): add[grid](numpy_array, …)       that device, for example a simulated GPU
    choose(GPU), choose(CPU), choose(BY_ARGUMENTS)      from now on, in the whole process

A `Device` is a machine other than this CPU; a subclass adds a kind of them. The CPU is None everywhere, so that its
launches do not come here at all once their kernel is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from tilewright.backends.base import GPUTarget
from tilewright.language import target_info
from tilewright.runtime import launch_hooks, lazy_imports
from tilewright.runtime.arrays import CPU_MEMORY, CUDA_MEMORY, UNKNOWN_MEMORY, ArrayView
from tilewright.runtime.drivers.cpu.launcher import Specialization
from tilewright.runtime.errors import ArgumentError
from tilewright.support.named_tuple import NamedTuple


class Figures(NamedTuple):
    """The facts that a device reports of a loaded kernel.

    Attributes:
        module, function: its handles of the code.
        registers, spills: per thread; spills in bytes.
        max_threads: the most threads that one program may have.
    """

    module: int
    function: int
    registers: int
    spills: int
    max_threads: int


class Device(ABC):
    """A machine that is not this CPU.

    Attributes:
        name: for messages and keys: `cuda:0`.
        target: what its kernels are compiled for.
        remedy: what to do with an array that it cannot use, for messages.
    """

    name: str
    target: GPUTarget
    remedy: str

    @property
    def identity(self) -> str:
        """Differs for machines on which kernels take different times."""
        return f"{self.name} {self.target}"

    @abstractmethod
    def can_use(self, view: ArrayView) -> bool:
        """Whether its kernels can use the memory of this array."""

    @abstractmethod
    def load(self, kernel: Any) -> Figures:
        """Make a `CompiledKernel` ready; kernels remember what this gives (`CompiledKernel.loaded_on`).

        Raises:
            OutOfResources: it needs more than the machine has.
        """

    @abstractmethod
    def launch(
        self, kernel: Any, grid: tuple[int, int, int], values: Sequence[int | float | ArrayView], stream: int | None
    ) -> None:
        """Launch a `CompiledKernel`; the launch may end later.

        Args:
            kernel: compiled for `target`.
            stream: the handle of a stream; None: the current one.
        """

    def unload(self, figures: Figures) -> None:  # noqa: B027 - a machine need not care
        """Forget the result of `load` for a kernel that can no longer be launched."""

    def specialization(
        self, kernel: Any, values: Sequence[int | float | ArrayView], stream: int | None
    ) -> Specialization | None:
        """The record by which the native launcher launches the kernel with such arguments; None if it cannot."""
        return None

    def current_stream(self) -> int:
        """The handle of the stream that launches go to when they do not say."""
        return 0


class _Rule:
    """A choice that is no device."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


BY_ARGUMENTS: Final = _Rule("BY_ARGUMENTS")
CPU: Final = _Rule("CPU")
GPU: Final = _Rule("GPU")
"""The GPU that arrays are on, the current one where there are none; arrays on the CPU are refused."""
Choice = Device | _Rule


class _Process:
    choice: Choice = BY_ARGUMENTS
    is_tritons = False


_in_context: ContextVar[Choice | None] = ContextVar("device", default=None)


@contextmanager
def using(device: Choice) -> Iterator[None]:
    """Until the end of the `with`, launches of this context are for `device`."""
    token = _in_context.set(device)
    launch_hooks.divert(1)
    try:
        yield
    finally:
        launch_hooks.divert(-1)
        _in_context.reset(token)


def choose(device: Choice) -> None:
    """Makes `device` the one of all launches from now on, in all threads; programs begin with BY_ARGUMENTS."""
    _Process.choice = device
    launch_hooks.forget()


def stream_handle(stream: Any) -> int | None:
    """The handle of a stream: of a number, our own stream, torch's or CuPy's, or any with `__cuda_stream__`."""
    if stream is None or isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr"):
        if isinstance(getattr(stream, name, None), int):
            return int(getattr(stream, name))
    raise TypeError(f"a {type(stream).__name__} is no stream")


def is_in_context() -> bool:
    """Whether this is inside `using`. What is learned there about a launch does not hold outside."""
    return _in_context.get() is not None


def chosen() -> Choice:
    """The program's choice, that of the context before that of the process."""
    return _in_context.get() or _Process.choice


def chosen_device() -> Device | None:
    """The device that the program said, if it said one.

    Raises:
        CudaError: it said GPU, and there is none.
    """
    choice = chosen()
    if choice is GPU:
        return _gpu()
    return choice if isinstance(choice, Device) else None


def _gpu(view: ArrayView | None = None) -> Device:
    """The GPU that an array is on, or the current one."""
    found: Device = lazy_imports.cuda_device() if view is None else lazy_imports.cuda_device_of(view)
    return found


def expect_gpu() -> None:
    """The program is one for Triton: what no array decides is for a GPU where there is one."""
    _Process.is_tritons = True


def default_device(*, needs_gpu: bool = False) -> Device | None:
    """The machine of what no array decides: the program's choice, or a GPU in programs for Triton; None: this CPU.

    Args:
        needs_gpu: whether only a GPU can do it, so that it is for the current one where there is one.

    Raises:
        CudaError: the program chose GPU, and there is none.
    """
    if chosen() is BY_ARGUMENTS:
        return _gpu() if (needs_gpu or _Process.is_tritons) and lazy_imports.has_gpu() else None
    return chosen_device()


def _default_capability() -> int:
    """The compute capability of the default device, 0 for a CPU."""
    device = default_device()
    return 0 if device is None else int(device.target.arch)


target_info.Outside.capability = staticmethod(_default_capability)


def device_for(arrays: Iterable[tuple[str, ArrayView]], *, needs_gpu: bool = False) -> Device | None:
    """The machine of a launch with these arguments; None: this CPU.

    Args:
        arrays: by the names of the arguments.
        needs_gpu: whether it is a kernel for GPUs.

    Raises:
        ArgumentError: an array is somewhere else; the message names the argument.
        CudaError: an array says that it is on a GPU, and there is no driver for it.
    """
    arrays = tuple(arrays)
    choice, reason = chosen(), ""
    if choice in (BY_ARGUMENTS, GPU):
        on_gpu = next((named for named in arrays if named[1].memory.startswith(CUDA_MEMORY)), None)
        if on_gpu is not None:
            choice, reason = _gpu(on_gpu[1]), f", where argument {on_gpu[0]!r} is"
        elif choice is BY_ARGUMENTS:
            is_free = all(view.memory == UNKNOWN_MEMORY for _, view in arrays)
            return default_device(needs_gpu=needs_gpu) if is_free else None
        else:
            choice = _gpu()
    if not isinstance(choice, Device):
        check_on_cpu(arrays)
        return None
    check(choice, arrays, reason)
    return choice


def device_of(target: GPUTarget, arrays: Iterable[tuple[str, ArrayView]]) -> Device | None:
    """The machine for a kernel that was compiled for `target`; None: no driver runs such kernels.

    Raises: as `device_for`; RuntimeError where the machine cannot run code for `target`.
    """
    arrays = tuple(arrays)
    choice = chosen()
    device = choice if isinstance(choice, Device) and choice.target.backend == target.backend else None
    if device is None and target.backend == CUDA_MEMORY:
        on_gpu = next((view for _, view in arrays if view.memory.startswith(CUDA_MEMORY)), None)
        device = _gpu(on_gpu)
    if device is not None:
        check(device, arrays, "")
    return device


def check(device: Device, arrays: Iterable[tuple[str, ArrayView]], reason: str) -> None:
    """Refuse arrays that a device cannot use."""
    for name, view in arrays:
        if view.memory != UNKNOWN_MEMORY and not device.can_use(view):
            raise ArgumentError(
                f"argument {name!r} is in {_spelled(view.memory)}, and the kernel runs on {device.name}{reason}: "
                f"{device.remedy}"
            )


def check_on_cpu(arrays: Iterable[tuple[str, ArrayView]]) -> None:
    """Refuse arrays that the CPU cannot use."""
    for name, view in arrays:
        if view.memory not in (CPU_MEMORY, UNKNOWN_MEMORY):
            raise ArgumentError(
                f"argument {name!r} is in {_spelled(view.memory)}, and the kernel runs on the CPU: pass a copy of it "
                "in CPU memory"
            )


def _spelled(memory: str) -> str:
    return "CPU memory" if memory == CPU_MEMORY else f"the memory of {memory}"
