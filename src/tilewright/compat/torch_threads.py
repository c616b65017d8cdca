"""Which threads run the kernels of torch's graphs: torch's own, those of the OpenMP library that it has loaded.

A thread of OpenMP that has ended its part of a product goes on looking for work for a while, so that it takes the next
part at once. It takes turns on its core with any other thread that is woken meanwhile, and finds work of ours sooner
than that one. How many there are is asked for in each launch: `torch.set_num_threads` acts at once, and where a region
of OpenMP is under way, or in a process that was forked, OpenMP is not asked for another one.

Where the library has no `GOMP_parallel`, which GNU's and LLVM's have, launches have threads of the pool, as many as torch
has when a graph is compiled. So they have where `TILEWRIGHT_NUM_THREADS` gives a number.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from glob import glob
from typing import Any

from tilewright.runtime.drivers.cpu.launcher import set_num_threads
from tilewright.runtime.drivers.cpu.process import native_runtime
from tilewright.support import knobs

NAMES = ("GOMP_parallel", "omp_get_max_threads")
"""Functions of OpenMP libraries, of which programs compiled by GCC call the first one for each parallel region."""


def use_threads(torch: Any) -> None:
    """Let launches have torch's threads, or as many as torch has now."""
    if not knobs.tilewright.num_threads:
        set_num_threads(torch.get_num_threads())
        _use_team(torch.__file__)


@cache
def _use_team(torch_file: str) -> None:
    """Once in a process, and never in its children: after a fork, OpenMP waits for threads that are gone."""
    runtime, team = native_runtime(), _team(torch_file)
    if runtime is not None and team is not None:
        runtime.use_team(*team)


def _team(torch_file: str) -> tuple[int, int] | None:
    """The addresses of the functions `NAMES` that torch itself calls; None where there is one that it does not have."""
    for library in _libraries(torch_file):
        found = [getattr(library, name, None) for name in NAMES]
        if None not in found:
            parallel, size = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found)
            return parallel, size
    return None


def _libraries(torch_file: str) -> Iterator[ctypes.CDLL]:
    """The process as a whole, where the linker looks first, and torch's library with those that it needs."""
    if sys.platform == "win32":
        return
    yield ctypes.CDLL(None)
    for path in glob(os.path.join(os.path.dirname(torch_file), "lib", "libtorch_cpu.*")):
        yield ctypes.CDLL(path)
