"""Queries of the target, by kernels while they are compiled, and by programs for their launches.

In kernels the answers are constants. Outside of kernels they describe the device of a launch without arrays.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.semantics.active import gpu_capability, is_running
from tilewright.semantics.constexpr import unwrap
from tilewright.support.named_tuple import NamedTuple


class CurrentTarget(NamedTuple):
    """A GPU; the names are Triton's."""

    backend: str
    arch: int
    warp_size: int


class Outside:
    """The answer for programs.

    Attributes:
        capability: gives the compute capability of the device for launches, 0 for a CPU; `runtime/devices.py` sets it.
    """

    capability: Callable[[], int] = staticmethod(lambda: 0)


def _capability() -> int:
    return gpu_capability() if is_running() else Outside.capability()


def current_target() -> CurrentTarget | None:
    """The GPU that the kernel is compiled for, or that launches go to; None for a CPU."""
    capability = _capability()
    return CurrentTarget("cuda", capability, 32) if capability else None


def is_cuda() -> bool:
    """Whether that is an NVIDIA GPU."""
    return _capability() > 0


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether the NVIDIA GPU has at least this compute capability."""
    wanted: int = 10 * unwrap(major) + unwrap(minor)
    return _capability() >= max(1, wanted)


def is_hip() -> bool:
    """Whether that is an AMD GPU."""
    return False


is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_hip


def is_cpu() -> bool:
    """Whether that is a CPU."""
    return not is_cuda()
