"""From sm_100 on: tensor memory, matrix products that accumulate there, and cluster launch control."""

from tilewright.language.gluon.nvidia.ampere import CachePolicy, FractionalEvictionPolicy, async_copy, mma_v2
from tilewright.language.gluon.nvidia.blackwell import clc, tma
from tilewright.language.gluon.nvidia.blackwell.packed import add2, fma2, max2, min2, mul2, sub2
from tilewright.language.gluon.nvidia.blackwell.products import (
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tcgen05_mma_scaled,
)
from tilewright.language.gluon.nvidia.blackwell.tensor_memory import (
    allocate_tensor_memory,
    tensor_memory_descriptor,
    tensor_memory_descriptor_type,
)
from tilewright.language.gluon.nvidia.hopper import async_store, cluster, fence_async_shared, mbarrier
from tilewright.semantics.gluon import TensorMemoryLinearLayout as _TensorMemoryLinearLayout
from tilewright.semantics.shared_layouts import TensorMemoryLayout, TensorMemoryScalesLayout

__all__ = [
    "CachePolicy",
    "FractionalEvictionPolicy",
    "TensorMemoryLayout",
    "TensorMemoryScalesLayout",
    "_TensorMemoryLinearLayout",
    "add2",
    "allocate_tensor_memory",
    "async_copy",
    "async_store",
    "clc",
    "cluster",
    "fence_async_shared",
    "fma2",
    "max2",
    "mbarrier",
    "min2",
    "mma_v2",
    "mul2",
    "sub2",
    "tcgen05_commit",
    "tcgen05_copy",
    "tcgen05_mma",
    "tcgen05_mma_barrier_count",
    "tcgen05_mma_scaled",
    "tensor_memory_descriptor",
    "tensor_memory_descriptor_type",
    "tma",
]
