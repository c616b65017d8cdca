"""The one place of vectorized functions that imports the compiler: functions from the disk cache do without it."""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.loader import BASE_CPUS, Blob
from tilewright.runtime.lazy_imports import deferred, native_blob

compiled = deferred("vectorizing.compile", "compiled")


def calls_blob(machine: str) -> Blob:
    """The native side of calls, compiled; errors as of `native_blob`."""
    return native_blob("vectorizing.native.calls", "calls_text", BASE_CPUS[machine], machine)
