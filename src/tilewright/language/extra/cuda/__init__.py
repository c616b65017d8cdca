"""Triton's path for features of NVIDIA's GPUs; the functions of `libdevice` are the same on every target."""

from __future__ import annotations

from tilewright.language.extra import libdevice
from tilewright.semantics.active import active, context, gpu_capability
from tilewright.semantics.math import clock, inline_assembly
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import int32

__all__ = [
    "gdc_launch_dependents",
    "gdc_wait",
    "globaltimer",
    "libdevice",
    "num_threads",
    "num_warps",
    "smid",
]


def gdc_wait() -> None:
    """Wait until the kernels before this one have ended, and see what they wrote."""
    active().emit("tt.grid_dependency_wait", [], ())


def gdc_launch_dependents() -> None:
    """Let kernels behind this one begin, once all programs have come here or ended."""
    active().emit("tt.grid_dependency_launch_dependents", [], ())


def num_warps() -> int:
    """The number of warps of a program, a constant; 1 on a CPU."""
    return context().warps if gpu_capability() else 1


def num_threads() -> int:
    """The number of threads of a program, a constant; 1 on a CPU."""
    return 32 * num_warps() if gpu_capability() else 1


def globaltimer() -> Tile:
    """Nanoseconds, as int64; each thread of a GPU reads the clock itself."""
    return clock()


def smid() -> Tile:
    """The number of the multiprocessor that runs the program; refused where the kernel is not compiled for a GPU."""
    return inline_assembly("mov.u32 $0, %smid;", "=r", [], [int32], pure=True, packed=1)[0]
