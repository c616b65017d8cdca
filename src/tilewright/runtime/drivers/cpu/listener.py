"""The listener: receives prints and assertions of the programs of one launch, or of successive launches.

    listener = Listener(kernel.metadata.reports)
    run_grid(entry, launch_record(…, listener=listener.address), …)
    listener.close()
    listener.finish()                                 # raises the stored error

Machine code calls back (`backends/cpu/emit_reports.py`), from any thread, with the GIL released, so the callback can
take it. Prints are written at once, whole lines at a time. An exception raised here (a closed output, Ctrl-C) cannot
pass through machine code: it is stored, the return value tells the programs to stop, and the launch raises it.
"""

from __future__ import annotations

import ctypes
import sys
from _thread import allocate_lock
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.runtime.drivers.cpu.native.structs import CONTROL, Memory
from tilewright.support import knobs
from tilewright.support.diagnostics import DeadlockError, DeviceAssertError
from tilewright.support.kernel_output import Program, printed, printed_text
from tilewright.support.source import Span

_REPORT = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int] * 4, ctypes.c_uint64)

Site = Mapping[str, Any]


class Listener:
    """The listener of one launch at a time."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites
        self._callback = _REPORT(self._report)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        self._memory = Memory(CONTROL.pack(report=address))
        self.failures: list[tuple[Program, DeviceAssertError]] = []
        self._raised: BaseException | None = None
        self._output = allocate_lock()

    @property
    def address(self) -> int:
        """The address of a CONTROL, for the records of launches without one of their own."""
        return self._memory.address

    def close(self) -> None:
        """Frees the callback; to be called when no program runs any more."""
        del self._callback  # it holds this object, which holds it

    def finish(self) -> None:
        """Raises what the programs' prints and assertions led to; to be called when all programs are done.

        Raises:
            DeviceAssertError: an assertion failed; of those that did, the one of the first program.
        """
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        if self.failures:
            first = min(self.failures, key=lambda failure: failure[0][::-1])[1]
            self.failures.clear()
            raise first

    def _report(self, number: int, x: int, y: int, z: int, value: int) -> int:
        """Notes a print or a failed assertion; returns not 0 if no program needs to go on."""
        if self._raised is not None:
            return 1
        try:
            site = self._sites[number]
            if "message" in site:
                self.failures.append(((x, y, z), _failure(site, (x, y, z), value)))
            else:
                with self._output:
                    _write(site, (x, y, z), value)
        except BaseException as error:  # noqa: BLE001 - the launch raises it
            self._raised = error
        return int(self._raised is not None)


def _failure(site: Site, program: Program, number: int) -> DeviceAssertError:
    shape = tuple(site["shape"])
    index = tuple(int(i) for i in np.unravel_index(number, shape)) if shape else ()
    return DeviceAssertError(site["message"], program, index, Span.of(site["places"]))


def deadlock(kernel: str, places: Sequence[Sequence[Any]], program: Program) -> DeadlockError:
    """The error of a launch whose programs wait for each other, one of them at `places`."""
    return DeadlockError(kernel, program, knobs.tilewright.spin_seconds, Span.of(places))


def _write(site: Site, program: Program, address: int) -> None:
    if "format" not in site:
        sys.stdout.write(printed_text(program, site["text"]))
        return
    shape, dtype = site["shape"], np.dtype(site["dtype"])
    content = ctypes.string_at(address, prod(shape) * dtype.itemsize)
    values = np.frombuffer(content, dtype).tolist()
    sys.stdout.write(printed(program, site["text"], shape, values, site["format"]))
