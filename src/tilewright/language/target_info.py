"""Questions about the target that kernels may ask while they are compiled. The answers are constants."""

from __future__ import annotations


def current_target() -> None:
    """None: the language does not know the target; the back end is chosen after it."""
    return


def is_cuda() -> bool:
    """Whether the kernel is compiled for an NVIDIA GPU."""
    return False


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether the NVIDIA GPU has at least this compute capability."""
    return False


def is_hip() -> bool:
    """Whether the kernel is compiled for an AMD GPU."""
    return False


def is_cpu() -> bool:
    """Whether the kernel is compiled for the CPU."""
    return True
