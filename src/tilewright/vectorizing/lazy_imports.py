"""The one place of vectorized functions that imports the compiler: functions from the disk cache do without it."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tilewright.runtime.drivers.cpu.loader import Blob, NativeCodeError
from tilewright.support.locks import importing


def calls_blob(machine: str) -> Blob:
    """The native side of calls, compiled.

    Raises:
        NativeCodeError: it cannot be.
    """
    with importing:
        from tilewright.runtime.drivers.cpu.elf import LinkError

    cpu = {"x86-64": "x86-64-v2", "aarch64": "aarch64"}[machine]
    try:
        with importing:
            from tilewright.backends.llvm.machine import LlvmError, compile_object, host_target
            from tilewright.runtime.drivers.cpu.blob import link
            from tilewright.vectorizing.native.calls import calls_text
    except (ImportError, OSError) as error:
        raise NativeCodeError(f"the compiler cannot be imported: {error}") from error
    try:
        return link(compile_object(calls_text(), host_target(cpu), opt=2, optimize=True))
    except (LlvmError, LinkError, ImportError) as error:
        raise NativeCodeError(f"their native side cannot be compiled: {error}") from error


def compiled(python: FunctionType, frontend: str, request: Any) -> Any:
    """A function compiled for a request; see `vectorizing.compile.compiled`."""
    with importing:
        from tilewright.vectorizing.compile import compiled

    return compiled(python, frontend, request)
