"""`triton.language.target_info`."""

from tilewright.language.target_info import cuda_capability_geq, current_target, is_cpu, is_cuda, is_hip
from tilewright.language.target_info import is_hip as is_hip_cdna3
from tilewright.language.target_info import is_hip as is_hip_cdna4
from tilewright.language.target_info import is_hip as is_hip_gfx1250

__all__ = [
    "cuda_capability_geq",
    "current_target",
    "is_cpu",
    "is_cuda",
    "is_hip",
    "is_hip_cdna3",
    "is_hip_cdna4",
    "is_hip_gfx1250",
]
