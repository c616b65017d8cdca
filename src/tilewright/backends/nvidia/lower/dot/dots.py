"""Products of tiles in registers: which lowering computes them.

tt.dot -> #mma          mma_sync.py
tt.dot -> #blocked      fma.py
tt.dot_scaled -> #mma   scaled.py; others are products of scaled operands, see transforms/gpu/decompose_scaled.py
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.dot.fma import lower_fma
from tilewright.backends.nvidia.lower.dot.mma_sync import lower_mma
from tilewright.backends.nvidia.lower.dot.scaled import lower_dot_scaled
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, layout_of
from tilewright.dialects.tt_dot import Dot
from tilewright.ir.core import tile_type
from tilewright.layouts.encodings import NvidiaMma


def lower_dot(lowerer: Lowerer, op: Dot) -> None:
    """Write a `tt.dot`."""
    if isinstance(layout_of(tile_type(op.result)), NvidiaMma):
        lower_mma(lowerer, op)
    else:
        lower_fma(lowerer, op)


LOWERINGS: dict[str, Lowering] = {"tt.dot": lower_dot, "tt.dot_scaled": lower_dot_scaled}
