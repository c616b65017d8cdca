"""The one place of vectorized functions that imports the compiler: functions from the disk cache do without it."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tilewright.runtime.drivers.cpu.loader import Blob


def calls_blob(machine: str) -> Blob | None:
    """The native side of calls, compiled; None where it cannot be."""
    from tilewright.backends.llvm.machine import LlvmError, compile_object, host_target
    from tilewright.runtime.drivers.cpu.blob import link
    from tilewright.runtime.drivers.cpu.elf import LinkError
    from tilewright.vectorizing.native.calls import calls_text

    cpu = {"x86-64": "x86-64-v2", "aarch64": "aarch64"}[machine]
    try:
        return link(compile_object(calls_text(), host_target(cpu), opt=2, optimize=True))
    except (LlvmError, LinkError, ImportError, OSError):
        return None


def compiled(python: FunctionType, frontend: str, request: Any) -> Any:
    """A function compiled for a request; see `vectorizing.compile.compiled`."""
    from tilewright.vectorizing.compile import compiled

    return compiled(python, frontend, request)
