"""Tensor descriptors that are made on the host: a tensor with its shape and the block that kernels move.

`create_ragged_descriptor`, of `triton.tools.ragged_tma`, is for tensors whose rows are slices of different lengths.

desc = create_ragged_descriptor(x, [16, 64])
kernel[grid](desc, offsets, sizes)           # load_ragged(desc, offset, size, [row, column]) in the kernel
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.drivers.cpu.launcher import know_descriptors

ALIGNMENT, MAX_RANK = 16, 5


@dataclass
class Descriptor:
    """A tensor that kernels read and write block by block.

    Attributes:
        base: the tensor.
        shape, strides: in elements; the last stride is 1.
        block_shape: what one load or store moves.
        padding: what loads give outside the tensor: `zero` or `nan`.
        round_f32_to_tf32: accepted as Triton has it.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        for requirement, met in self._requirements():
            if not met:
                raise AssertionError(f"{requirement}: {self}")

    def _requirements(self) -> list[tuple[str, bool]]:
        rank, size = len(self.shape), self.base.element_size()
        return [
            ("rank mismatch", len(self.strides) == rank == len(self.block_shape)),
            (f"a descriptor has 1 to {MAX_RANK} axes", 0 < rank <= MAX_RANK),
            (f"base must be {ALIGNMENT}-byte aligned", self.base.data_ptr() % ALIGNMENT == 0),
            (f"strides must be {ALIGNMENT}-byte aligned", all(s * size % ALIGNMENT == 0 for s in self.strides[:-1])),
            ("the last axis must be contiguous", not rank or self.strides[-1] == 1),
            ("shape must be positive", all(extent > 0 for extent in self.shape)),
            ("extents of a block are powers of two", all(b > 0 and b & (b - 1) == 0 for b in self.block_shape)),
            ("padding is zero or nan", self.padding in ("zero", "nan")),
            ("padding with nan is for floats", self.padding == "zero" or _is_float(self.base.dtype)),
        ]


def _is_float(dtype: Any) -> bool:
    """Whether a dtype of torch or NumPy is one of floats; `V` is the kind of those of ml_dtypes."""
    return bool(getattr(dtype, "is_floating_point", getattr(dtype, "kind", "") in ("f", "V")))


@dataclass
class TensorDescriptor(Descriptor):
    """A tensor descriptor."""

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """The descriptor of a whole tensor."""
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, padding, round_f32_to_tf32)


know_descriptors(TensorDescriptor)


class Before:
    """A tensor with as many rows in front of it as it has; nobody touches those."""

    def __init__(self, tensor: Any, axis: int) -> None:
        self.tensor, self.elements = tensor, tensor.shape[axis] * tensor.stride()[axis]
        self.dtype, self.device = tensor.dtype, tensor.device
        self.shape = [*tensor.shape[:axis], 2 * tensor.shape[axis], *tensor.shape[axis + 1 :]]

    def data_ptr(self) -> int:
        """The address of the first row in front."""
        address: int = self.tensor.data_ptr() - self.elements * self.element_size()
        return address

    def element_size(self) -> int:
        """Bytes of one element."""
        size: int = self.tensor.element_size()
        return size

    def stride(self) -> Any:
        """The strides of the tensor."""
        return self.tensor.stride()


def create_ragged_descriptor(T: Any, block_shape: Sequence[int], ragged_dim: int = 0) -> TensorDescriptor:  # noqa: N803 - Triton's name
    """The descriptor of a tensor for `load_ragged` and its like.

    Args:
        T: the tensor.
        block_shape: what one load or store moves.
        ragged_dim: the axis that has slices.

    Raises:
        AssertionError: the tensor is none that a descriptor can have.
    """
    shape, strides, axis = list(T.shape), list(T.stride()), ragged_dim % len(T.shape)
    ends, stride = shape[axis] + 1, strides[axis]
    return TensorDescriptor(Before(T, axis), [ends, *shape], [stride, *strides], [1, *block_shape])
