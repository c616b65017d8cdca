"""Host descriptors of Gluon, whose layout is part of a kernel's signature, and its kernels as sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.compat.bindings import ASTSource
from tilewright.compat.tensor_descriptor import Descriptor
from tilewright.language.gluon.nvidia.hopper.tma import WITHOUT_IMAGES
from tilewright.semantics.layout_values import (
    BlockedLayout,
    DistributedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    SliceLayout,
)
from tilewright.semantics.shared_layouts import NVMMASharedLayout
from tilewright.support.diagnostics import NotSupported, SemanticError


class GluonASTSource(ASTSource):
    """A kernel of Gluon for a signature."""


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


class TensorDescriptorIm2Col:
    """A tensor descriptor of images, whose blocks are what a convolution multiplies: refused."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        raise SemanticError(NotSupported("`TensorDescriptorIm2Col`", WITHOUT_IMAGES))


def bases_per_dim(bases: Sequence[Sequence[int]], rank: int, skip_broadcast: bool = True) -> list[int]:
    """How many parts the steps of some bits make along each axis.

    Args:
        bases: a row per bit.
        rank: the number of axes.
        skip_broadcast: bits that step nowhere count for no axis; else for that of the bit before them, or the last.
    """
    found, axis = [1] * rank, rank - 1
    for row in bases:
        steps = [position for position, step in enumerate(row) if step]
        axis = steps[0] if steps else axis
        if steps or not skip_broadcast:
            found[axis] *= 2
    return found


def warps_per_cta(layout: DistributedLayout, shape: Sequence[int]) -> list[int]:
    """The warps of a layout along each axis of a tile of `shape`; of slices and operands, those of the whole."""
    if isinstance(layout, DistributedLinearLayout):
        return bases_per_dim(layout.warp_bases, len(shape))
    if isinstance(layout, (SliceLayout, DotOperandLayout)):
        return warps_per_cta(layout.parent, shape)
    if isinstance(layout, (BlockedLayout, NVMMADistributedLayout)):
        return list(layout.warps_per_cta)
    raise TypeError(f"no warps are known of {layout!r}: make a linear layout of it")
