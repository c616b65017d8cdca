"""`torch.cuda` where torch finds no GPU, for programs under `tilewright run`.

    torch.cuda.get_device_capability()    # (0, 0), where torch alone raises an error
    torch.cuda.get_device_properties(0)   # of this machine: multi_processor_count is the number of its cores
    torch.cuda.synchronize()              # kernels on a CPU have ended when their launch returns
    with torch.cuda.device(x.device.index):     # a tensor on a CPU has none: nothing changes
        ...
    torch.cuda.is_available()             # False, as ever

Programs written for Triton make such queries when they are imported, and in benchmarks, whatever device they run on.
Only calls with a meaningful answer on a CPU have a shim; making a tensor on a GPU remains an error of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from tilewright.compat.driver import CpuDriver, CpuUtilities
from tilewright.compat.torch_bridge import when_imported
from tilewright.support.system import machine_name


def capability(device: Any = None) -> tuple[int, int]:
    """The capability of a simulated GPU, where launches are for one; else one below that of every GPU."""
    return CpuDriver().get_device_capability()


def machine_properties(device: Any = None) -> SimpleNamespace:
    """Figures of the machine that kernels run on, under torch's names: how many programs run at a time, and so on."""
    figures = CpuUtilities().get_device_properties()
    return SimpleNamespace(
        name=machine_name(),
        major=0,
        minor=0,
        multi_processor_count=figures["multiprocessor_count"],
        shared_memory_per_block=figures["max_shared_mem"],
        shared_memory_per_block_optin=figures["max_shared_mem"],
        shared_memory_per_multiprocessor=figures["max_shared_mem"],
        regs_per_multiprocessor=figures["max_num_regs"],
        warp_size=figures["warpSize"],
    )


def nothing_to_do(*_: Any) -> None:
    """Does nothing, instead of waiting for work that has ended or choosing the one queue there is."""


SHIMS: dict[tuple[str, str], Callable[..., Any]] = {
    ("cuda", "get_device_capability"): capability,
    ("cuda", "get_device_properties"): machine_properties,
    ("cuda", "synchronize"): nothing_to_do,
    ("cpu", "set_stream"): nothing_to_do,
}
"""Replacements of torch's functions, by module of torch and name."""


class DeviceOrCpu:
    """`torch.cuda.device` which takes the index of a tensor on a CPU, None, and then changes nothing.

    torch uses it with `isinstance`, and Dynamo reads its call.
    """

    def __init__(self, cuda_device: Any) -> None:
        self._cuda_device = cuda_device

    def __call__(self, device: Any = None) -> Any:
        return nullcontext() if device is None else self._cuda_device(device)

    def __instancecheck__(self, found: Any) -> bool:
        return isinstance(found, self._cuda_device)


def answer_for_cpu(torch: Any) -> None:
    """Put the shims into `torch`, unless it has a GPU."""
    if torch.cuda.is_available():
        return
    torch.cuda.device = DeviceOrCpu(torch.cuda.device)
    for (module, name), shim in SHIMS.items():
        if module != "cpu" or not hasattr(torch.cpu, name):
            shim.__module__ = f"torch.{module}"  # for who asks whether a kernel may call it
            setattr(getattr(torch, module), name, shim)


def answer_when_imported() -> None:
    """Put the shims into torch now, or when the program imports it: `import triton` does not."""
    when_imported("torch", answer_for_cpu)
