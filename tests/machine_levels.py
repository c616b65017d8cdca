"""The processors, of those that a test names, whose code this machine runs: results are compared on these.

with compiled_for(cpu_of(seed)): kernel[(1,)](…)      # tests that draw programs draw the processor, too
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tilewright as tw
from tilewright.backends.llvm.machine import host_target

CPUS = (*[""] * 6, *["x86-64-v3"] * 3, "x86-64-v2")
"""Processors for drawn programs: mostly this one, and AVX2 more often than SSE, whose code takes longer to compile."""


def run_here(*cpus: str) -> list[str]:
    """The names of those processors and levels of x86-64 that have no instruction which this machine lacks."""
    return [cpu for cpu in cpus if host_target(cpu).runs_here()]


def cpu_of(seed: int) -> str:
    """The processor for the drawn program of a seed; "": this one, also where the machine does not have another."""
    cpu = CPUS[seed * 7 // 10 % len(CPUS)]
    return cpu if cpu and run_here(cpu) else ""


@contextmanager
def compiled_for(cpu: str) -> Iterator[None]:
    """Kernels are compiled for the processor, unless it is ""."""
    with tw.knobs.tilewright.scope():
        if cpu:
            tw.knobs.tilewright.cpu = cpu
        yield
