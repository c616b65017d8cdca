"""Questions about the target that kernels may ask while they are compiled. The answers are constants."""

from __future__ import annotations

from tilewright.semantics.active import gpu_capability
from tilewright.semantics.constexpr import unwrap
from tilewright.support.named_tuple import NamedTuple


class CurrentTarget(NamedTuple):
    """A GPU; the names are Triton's."""

    backend: str
    arch: int
    warp_size: int


def current_target() -> CurrentTarget | None:
    """The GPU that the kernel is compiled for; None for a CPU, and outside kernels."""
    capability = gpu_capability()
    return CurrentTarget("cuda", capability, 32) if capability else None


def is_cuda() -> bool:
    """Whether the kernel is compiled for an NVIDIA GPU."""
    return gpu_capability() > 0


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether the NVIDIA GPU has at least this compute capability."""
    return is_cuda() and gpu_capability() >= 10 * unwrap(major) + unwrap(minor)


def is_hip() -> bool:
    """Whether the kernel is compiled for an AMD GPU."""
    return False


is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_hip


def is_cpu() -> bool:
    """Whether the kernel is compiled for the CPU."""
    return not is_cuda()
