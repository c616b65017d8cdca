"""`triton.language.target_info`."""

from tilewright.language.target_info import cuda_capability_geq, current_target, is_cpu, is_cuda, is_hip

__all__ = ["cuda_capability_geq", "current_target", "is_cpu", "is_cuda", "is_hip"]
