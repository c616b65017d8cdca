"""Host descriptors of Gluon: signatures name their layout. Kernels of Gluon are not compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.compat.tensor_descriptor import Descriptor


@dataclass(frozen=True)
class NVMMASharedLayout:
    """The layout of tiles in the shared memory of an NVIDIA GPU.

    Attributes:
        swizzle_byte_width: 0, 32, 64 or 128.
        element_bitwidth: 8, 16, 32 or 64.
        rank: axes of the tile.
        transposed, fp4_padded, cga_layout: as Gluon has them.
    """

    swizzle_byte_width: int
    element_bitwidth: int
    rank: int = 2
    transposed: bool = False
    fp4_padded: bool = False
    cga_layout: Sequence[Sequence[int]] = field(default_factory=list)


@dataclass
class TensorDescriptor(Descriptor):
    """A tensor descriptor with the layout of its tiles."""

    layout: NVMMASharedLayout | None = None

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        layout: NVMMASharedLayout,
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:
        """The descriptor of a whole tensor."""
        return TensorDescriptor(
            tensor, tensor.shape, tensor.stride(), block_shape, padding, round_f32_to_tf32, layout=layout
        )
