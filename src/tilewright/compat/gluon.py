"""Host descriptors of Gluon, whose layout is part of a kernel's signature, and its kernels as sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.compat.bindings import ASTSource
from tilewright.compat.tensor_descriptor import Descriptor
from tilewright.semantics.shared_layouts import NVMMASharedLayout


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
