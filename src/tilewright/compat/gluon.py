"""Host descriptors of Gluon, whose layout is part of a kernel's signature, and its kernels as sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.compat.bindings import ASTSource
from tilewright.compat.tensor_descriptor import Descriptor, strides_of
from tilewright.semantics.layout_values import (
    BlockedLayout,
    DistributedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    SliceLayout,
)
from tilewright.semantics.shared_layouts import NVMMASharedLayout


class GluonASTSource(ASTSource):
    """A kernel of Gluon for a signature."""


@dataclass
class LaidOutDescriptor(Descriptor):
    """A descriptor whose tiles have a layout in shared memory."""

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    layout: NVMMASharedLayout
    padding: str = "zero"
    round_f32_to_tf32: bool = False


@dataclass
class TensorDescriptor(LaidOutDescriptor):
    """A tensor descriptor with the layout of its tiles."""

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        layout: NVMMASharedLayout,
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:
        """The descriptor of a whole tensor.

        Args:
            block_shape: extents of the tiles.
            layout: their layout in shared memory.
            padding: what lies outside the tensor reads as: `zero` or `nan`.
            round_f32_to_tf32: copies round f32 to tf32.
        """
        strides = strides_of(tensor)
        return TensorDescriptor(tensor, tensor.shape, strides, block_shape, layout, padding, round_f32_to_tf32)


NEAREST, FARTHEST = {3: -32768, 4: -128, 5: -16}, {3: 32767, 4: 127, 5: 15}
"""The least and the largest distance of a corner of the box of pixels, by the number of axes."""
LONGEST_STEP = 8
"""The largest distance from one pixel to the next, in elements of an axis."""


@dataclass
class TensorDescriptorIm2Col(LaidOutDescriptor):
    """A tensor descriptor of images (N, …, C), whose blocks are pixels and their channels, as a convolution multiplies.

    Attributes:
        block_shape: the number of pixels, and that of channels.
        layout: of its tiles.
        element_strides: from one pixel to the next, for all axes of the tensor.
        pixel_box_lower_corner, pixel_box_upper_corner: the box of pixels that copies go through, from the first and
            from the last pixel of an image.
    """

    element_strides: Sequence[int] | None = None
    pixel_box_lower_corner: Sequence[int] | None = None
    pixel_box_upper_corner: Sequence[int] | None = None

    def _requirements(self) -> list[tuple[str, bool]]:
        rank, steps = len(self.shape), self.element_strides or (1,) * len(self.shape)
        corners = [list(corner or ()) for corner in (self.pixel_box_lower_corner, self.pixel_box_upper_corner)]
        near, far = NEAREST.get(rank, 0), FARTHEST.get(rank, 0)
        distances = [number for corner in corners for number in corner]
        return [
            ("a tensor of images has 3 to 5 axes", rank in NEAREST),
            ("a block of images has pixels and channels", len(self.block_shape) == 2),
            *self._requirements_of_tensors(len(self.strides) == rank),
            ("both corners have a number per axis of an image", all(len(corner) == rank - 2 for corner in corners)),
            (f"corners are {near} to {far} away", all(near <= number <= far for number in distances)),
            ("element_strides has a number per axis", len(steps) == rank),
            (f"element strides are 1 to {LONGEST_STEP}", all(0 < step <= LONGEST_STEP for step in steps)),
            ("channels are taken one after the other", steps[-1] == 1),
        ]

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        layout: NVMMASharedLayout,
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
        element_strides: Sequence[int] | None = None,
        pixel_box_lower_corner: Sequence[int] | None = None,
        pixel_box_upper_corner: Sequence[int] | None = None,
    ) -> TensorDescriptorIm2Col:
        """The descriptor of all images of a tensor.

        Args:
            tensor: the images, (N, …, C).
            block_shape, layout, element_strides: as for the class.
            padding, round_f32_to_tf32: as for `TensorDescriptor.from_tensor`.
            pixel_box_lower_corner, pixel_box_upper_corner: as for the class.
        """
        return TensorDescriptorIm2Col(
            tensor, tensor.shape, strides_of(tensor), block_shape, layout, padding, round_f32_to_tf32,
            element_strides, pixel_box_lower_corner, pixel_box_upper_corner,
        )  # fmt: skip


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
