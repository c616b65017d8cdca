"""All layouts, and `encoding(text)`, which reads one.

blocked = encoding("#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>")
blocked.threads_per_warp                          # (32,)
Blocked((4,), (32,), (4,), (0,)) is blocked       # True
blocked.text                                      # the text as Triton 3.9 prints it
"""

from __future__ import annotations

from tilewright.layouts.distributed import (
    AmdMfma,
    AmdWmma,
    Auto,
    Blocked,
    Coalesced,
    DotOperand,
    GenericLinear,
    Linear,
    NvidiaMma,
    Slice,
)
from tilewright.layouts.encoding import Distributed, Encoding, Shared, encoding, encoding_as
from tilewright.layouts.errors import LayoutError
from tilewright.layouts.shared import (
    AmdRotatingShared,
    NvmmaShared,
    PaddedShared,
    PartitionedShared,
    SharedLinear,
    SwizzledShared,
    TensorMemory,
    TensorMemoryScales,
)

__all__ = [
    "AmdMfma",
    "AmdRotatingShared",
    "AmdWmma",
    "Auto",
    "Blocked",
    "Coalesced",
    "Distributed",
    "DotOperand",
    "Encoding",
    "GenericLinear",
    "LayoutError",
    "Linear",
    "NvidiaMma",
    "NvmmaShared",
    "PaddedShared",
    "PartitionedShared",
    "Shared",
    "SharedLinear",
    "Slice",
    "SwizzledShared",
    "TensorMemory",
    "TensorMemoryScales",
    "encoding",
    "encoding_as",
]
