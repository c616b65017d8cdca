"""Products of tiles in registers: which lowering computes them.

tt.dot -> #mma          mma_sync.py
tt.dot -> #blocked      fma.py
tt.dot_scaled -> #mma   scaled.py; others are products of scaled factors, see transforms/gpu/decompose_scaled.py
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.dot.fma import lower_fma
from tilewright.backends.nvidia.lower.dot.mma_sync import lower_mma
from tilewright.backends.nvidia.lower.dot.scaled import lower_dot_scaled
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.ir.core import Op
from tilewright.ir.types import TensorType
from tilewright.layouts.encodings import NvidiaMma, encoding


def lower_dot(lowerer: Lowerer, op: Op) -> None:
    """Write a `tt.dot`."""
    type = op.result.type
    assert isinstance(type, TensorType), "the sum is a tile"
    assert type.encoding is not None, "tiles of TTGIR have layouts"
    if isinstance(encoding(type.encoding), NvidiaMma):
        lower_mma(lowerer, op)
    else:
        lower_fma(lowerer, op)


LOWERINGS: dict[str, Lowering] = {"tt.dot": lower_dot, "tt.dot_scaled": lower_dot_scaled}
