"""Kernels of torch's graphs run on torch's own threads, those of the OpenMP library that it has loaded.

An OpenMP thread that has finished its part of a product spins for a while, waiting for work. It competes for its core
with any other thread that is woken meanwhile, and takes up work of ours sooner than that one. Each launch asks OpenMP
for the number of threads, so `torch.set_num_threads` takes effect at once.

If there is no `GOMP_parallel`, which GNU's library has and LLVM's has on Linux, launches use threads of the pool, as
many as torch has when a graph is compiled. They also do if `TILEWRIGHT_NUM_THREADS` gives a number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tilewright.runtime.drivers.cpu.launcher import set_num_threads
from tilewright.runtime.drivers.cpu.process import native_runtime, system_functions
from tilewright.support import knobs

NAMES = ("GOMP_parallel", "omp_get_thread_num", "omp_get_max_threads")
"""Functions of OpenMP libraries. Programs compiled by GCC call the first one for each parallel region."""


def use_threads(torch: Any) -> None:
    """Let launches have torch's threads, or as many as torch has now."""
    if not knobs.tilewright.num_threads:
        set_num_threads(torch.get_num_threads())
        _use_team()


@cache
def _use_team() -> None:
    """Once in a process, and never in its children: after a fork, OpenMP waits for threads that are gone.

    torch makes the names of its libraries global, so they are where the linker finds them for torch.
    """
    runtime = native_runtime()
    try:
        functions = system_functions(NAMES)
    except ValueError:
        return
    if runtime is not None:
        runtime.use_team(*functions.values())
