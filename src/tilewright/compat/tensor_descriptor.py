"""Tensor descriptors made on the host: a tensor with its shape and the block shape of kernels.

`create_ragged_descriptor`, of `triton.tools.ragged_tma`, is for tensors whose rows are slices of different lengths.

desc = create_ragged_descriptor(x, [16, 64])
kernel[grid](desc, offsets, sizes)           # load_ragged(desc, offset, size, [row, column]) in the kernel

Launchers of other back ends pass a descriptor as several arguments:

expand_signature(["i32", "tensordesc<fp16[16,32]>"], [], "desc")
# ["i32", "*fp16", 4 x "i64" (shape and strides), 2 x "i1" (padding, rounding), 2 x "i32", 2 x "i64"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.language.ragged import MAX_ROWS
from tilewright.runtime.drivers.cpu.launcher import know_descriptors
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.types import MAX_TILE_ELEMENTS

ALIGNMENT, MAX_RANK = 16, 5


def validate_block_shape(shape: Sequence[Any]) -> int:
    """The number of elements of a block.

    Raises:
        TypeError: an extent is no whole number.
        ValueError: an extent is no power of two, or there are too many elements.
    """
    extents = [unwrap(extent) for extent in shape]
    for axis, extent in enumerate(extents):
        if not isinstance(extent, int):
            raise TypeError(f"extent {axis} of the block is {extent!r}, which is no whole number")
        if extent < 1 or not is_power_of_two(extent):
            raise ValueError(f"Shape element {axis} must be a power of 2; the block has {extent} there")
    elements: int = prod(extents)
    if elements > MAX_TILE_ELEMENTS:
        raise ValueError(f"the block has {elements} elements; at most {MAX_TILE_ELEMENTS} are possible")
    return elements


def element_size(tensor: Any) -> int:
    """The bytes of an element of a tensor of torch's, or of an array of NumPy's."""
    size: int = tensor.element_size() if hasattr(tensor, "element_size") else tensor.itemsize
    return size


def strides_of(tensor: Any) -> Sequence[int]:
    """The distances along the axes of such a tensor, in elements."""
    if hasattr(tensor, "stride"):
        strides: Sequence[int] = tensor.stride()
        return strides
    return [stride // tensor.itemsize for stride in tensor.strides]


def _address(tensor: Any) -> int:
    address: int = tensor.data_ptr() if hasattr(tensor, "data_ptr") else tensor.ctypes.data
    return address


def is_power_of_two(number: int) -> bool:
    """Whether `number` has one bit (or none)."""
    return (number & (number - 1)) == 0


class Descriptor:
    """A tensor that kernels read and write block by block; its kinds are data classes with these fields.

    Attributes:
        shape, strides: in elements; the last stride is 1.
        block_shape: what one load or store moves.
        padding: what loads give outside the tensor: `zero` or `nan`.
        round_f32_to_tf32: accepted as Triton has it.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str
    round_f32_to_tf32: bool

    def __post_init__(self) -> None:
        validate_block_shape(self.block_shape)
        for requirement, met in self._requirements():
            if not met:
                shape, strides, block = (list(found) for found in (self.shape, self.strides, self.block_shape))
                raise AssertionError(f"{requirement}: blocks of {block} of a tensor of {shape} with strides {strides}")

    def _requirements(self) -> list[tuple[str, bool]]:
        return self._requirements_of_tensors(len(self.strides) == len(self.shape) == len(self.block_shape))

    def _requirements_of_tensors(self, ranks_match: bool) -> list[tuple[str, bool]]:
        rank, size = len(self.shape), element_size(self.base)
        return [
            ("rank mismatch", ranks_match),
            (f"a descriptor has 1 to {MAX_RANK} axes", 0 < rank <= MAX_RANK),
            (f"base must be {ALIGNMENT}-byte aligned", _address(self.base) % ALIGNMENT == 0),
            (f"strides must be {ALIGNMENT}-byte aligned", all(s * size % ALIGNMENT == 0 for s in self.strides[:-1])),
            ("the last axis must be contiguous", not rank or self.strides[-1] == 1),
            ("shape must be positive", all(extent > 0 for extent in self.shape)),
            ("padding is zero or nan", self.padding in ("zero", "nan")),
            ("padding with nan is for floats", self.padding == "zero" or _is_float(self.base.dtype)),
        ]


def _is_float(dtype: Any) -> bool:
    """Whether a dtype of torch or NumPy is one of floats; `V` is the kind of those of ml_dtypes."""
    return bool(getattr(dtype, "is_floating_point", getattr(dtype, "kind", "") in ("f", "V")))


@dataclass
class TensorDescriptor(Descriptor):
    """A tensor descriptor that the host makes, an argument of kernels: `x.load([i, j])` gives the block at (i, j).

    Args:
        base: a tensor of torch's, or an array of NumPy's: its first element begins the tensor.
        shape: the extents of the tensor.
        strides: its distances along the axes, in elements; the last one is 1, the others are multiples of 16 bytes.
        block_shape: what one load or store moves; powers of two.
        padding: what loads give outside the tensor: `zero` or `nan`.
        round_f32_to_tf32: accepted as Triton has it.

    Raises:
        AssertionError: the engine of GPUs could not move blocks of this tensor.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """The descriptor of a whole tensor.

        Args:
            tensor: a tensor of torch's, or an array of NumPy's.
            block_shape: what one load or store moves; powers of two.
            padding: what loads give outside the tensor: `zero` or `nan`.
            round_f32_to_tf32: accepted as Triton has it.

        Raises:
            AssertionError: the engine of GPUs could not move blocks of this tensor.

        Example:
            >>> import numpy as np
            >>> import tilewright as tw
            >>> tw.TensorDescriptor.from_tensor(np.zeros((40, 16), np.float32), [8, 16]).strides
            [16, 1]
        """
        return TensorDescriptor(tensor, tensor.shape, strides_of(tensor), block_shape, padding, round_f32_to_tf32)


know_descriptors(TensorDescriptor)


MAX_EXTENT = (1 << 31) - 1
WRAP = 1 << 34
"""Elements whose `MAX_ROWS`-fold is 0 modulo 2⁶⁴."""


def create_ragged_descriptor(T: Any, block_shape: Sequence[int], ragged_dim: int = 0) -> TensorDescriptor:  # noqa: N803 - Triton's name
    """The descriptor of a tensor for `load_ragged` and its like; `language/ragged.py` says how it works.

    Args:
        T: the tensor.
        block_shape: what one load or store moves.
        ragged_dim: the axis that has slices.

    Raises:
        AssertionError: the tensor has more than three axes or 2³⁰ rows, or its last axis is the ragged one.
    """
    shape, strides = list(T.shape), list(strides_of(T))
    axis = ragged_dim % len(shape)
    if len(shape) > MAX_AXES or shape[axis] > MAX_ROWS or axis == len(shape) - 1:
        raise AssertionError(f"ragged is one of the first two axes of three, of 2**30 rows: {shape}, {ragged_dim}")
    stride, shape[axis] = strides[axis], MAX_ROWS
    shape, strides = [MAX_EXTENT, MAX_EXTENT, *shape], [WRAP - stride, stride, *strides]
    return TensorDescriptor(T, shape, strides, [1, 1, *block_shape])


MAX_AXES = 3
"""Max number of axes of a tensor with a ragged descriptor: hardware has five, two of which lead to the slice."""


_DESCRIPTOR = re.compile(r"tensordesc(?:_im2col)?<([^\[>]*)\[([^\]]*)\]")
_INPUT_RANK = re.compile(r",input_rank=(\d+)")


def expand_signature(signature: Sequence[Any], tensordesc_meta: Any, descriptor_type: str) -> list[Any]:
    """The types of a kernel's arguments with every descriptor replaced by what stands for it.

    Args:
        signature: type strings, and tuples of them.
        tensordesc_meta: what the back end says of each descriptor; without it, descriptors are taken apart.
        descriptor_type: the type of a descriptor that is not taken apart.
    """
    expanded: list[Any] = []
    for kind in signature:
        if isinstance(kind, tuple):
            expanded.append(tuple(expand_signature(kind, tensordesc_meta, descriptor_type)))
        elif is_descriptor(kind):
            expanded += _parts(kind, descriptor_type if tensordesc_meta else None)
        else:
            expanded.append(kind)
    return expanded


def wrap_handle_tensordesc_impl(
    launcher: Callable[..., Any], signature: Any, tensordesc_meta: Any, make_tensordesc_arg: Callable[..., Any]
) -> Callable[..., Any]:
    """A launcher that replaces descriptors among a kernel's arguments; `launcher` itself where there are none.

    Args:
        launcher: gets the launch's own arguments, then the list of the kernel's.
        signature: types by parameter.
        tensordesc_meta: what the back end says of each descriptor, in order; or None.
        make_tensordesc_arg: makes the arguments in the place of one, of it, its `tensordesc_meta` and the launch's own.
    """
    kinds = tuple(signature.values())
    count = _count(kinds)
    if count == 0:
        return launcher

    def launch(*arguments: Any) -> Any:
        *own, given = arguments
        facts = iter(tensordesc_meta or [None] * count)

        def replaced(values: Sequence[Any], types: Sequence[Any]) -> Iterator[Any]:
            for value, kind in zip(values, types, strict=True):
                if isinstance(kind, tuple):
                    yield tuple(replaced(value, kind))
                elif is_descriptor(kind):
                    yield from make_tensordesc_arg(value, next(facts), tuple(own))
                else:
                    yield value

        return launcher(*own, list(replaced(given, kinds)))

    return launch


def is_descriptor(kind: Any) -> bool:
    """Whether a type is that of a tensor descriptor."""
    return isinstance(kind, str) and kind.startswith("tensordesc")


def _count(kinds: Sequence[Any]) -> int:
    return sum(_count(kind) if isinstance(kind, tuple) else is_descriptor(kind) for kind in kinds)


def _parts(kind: str, descriptor_type: str | None) -> list[str]:
    found = _DESCRIPTOR.match(kind)
    if found is None:
        raise ValueError(f"{kind!r} is not the type of a tensor descriptor")
    element, block = found.groups()
    stated = _INPUT_RANK.search(kind)
    rank = int(stated[1]) if stated else block.count(",") + 1
    whole = [descriptor_type] if descriptor_type else [f"*{element}", *["i64"] * 2 * rank, "i1", "i1"]
    return [*whole, *["i32"] * rank, *["i64"] * rank]
