"""Host tensor descriptors as arguments of kernels for GPUs with a copy engine.

    TensorDescriptor(x, [m, n], [n, 1], [64, 64])       an argument
    HostMap(view of x, (m, n), (n, 1))                   passed by a launch, besides x, m and n
    MapFields(address, dimensions (n, m), …)             from which a driver makes a tensor map, 128 bytes

The layout of blocks in shared memory is known once the kernel is compiled, and is in `metadata.tensordesc_meta`.
Kernels for other machines get only the parts of a descriptor.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from tilewright.backends.base import GPUTarget
from tilewright.compiler.signature import (
    TUPLE,
    ArgumentSpec,
    GluonDescriptor,
    HostDescriptor,
    descriptor_text,
    descriptor_type_string,
)
from tilewright.runtime.arrays import ArrayView, view_of
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.specialize import Specialized
from tilewright.support.named_tuple import NamedTuple

FIRST_WITH_ENGINE, MAX_AXES, MIN_ROW, FILLED = 90, 5, 16, (2, 4)
"""Those of `semantics.tensor_descriptors`: first capability; max axes; min bytes of a row; bytes of floats with NaN."""
ALIGNMENT = 16
MAX_PLACES, FARTHEST = 1 << 32, 1 << 40
"""The longest dimension in elements, and the longest stride in bytes."""
NARROW = ("i1", "u1")
PARTS = 5
"""The number of a descriptor's parts: array, shape, strides, block shape, padding."""


class Images(NamedTuple):
    """The pixels that copies of a tensor of images go through; outermost axes first.

    Attributes:
        lower, upper: the corners of the box of pixels, from the first and from the last pixel of an image.
        steps: from one pixel to the next, for all axes of the tensor.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


class HostMap(NamedTuple):
    """A tensor that the engine moves blocks of; lengths in elements.

    Attributes:
        pads_with_nan: what a load gives outside the tensor is NaN, not 0.
        rounds_to_tf32: elements are rounded to tf32 on their way.
        images: the pixels that copies go through, of a tensor of images.
    """

    base: ArrayView
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pads_with_nan: bool
    rounds_to_tf32: bool
    images: Images | None = None


class MapFields(NamedTuple):
    """The fields of a tensor map; dimensions innermost first.

    Attributes:
        element: the number of the element type, as PTX has it.
        strides: in bytes, of all dimensions but the innermost.
        box: elements of one copy.
        swizzle: the number of the mode.
        images: of a tensor of images, innermost first; the box has channels and pixels.
    """

    address: int
    element: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    pads_with_nan: bool
    images: Images | None = None


_TF32, _TF32_SIZE = 11, 4


def with_maps(arguments: list[Specialized], target: GPUTarget) -> list[Specialized]:
    """Arguments as kernels for a GPU get them: with tensor maps, if it has an engine for blocks."""
    return list(map(with_map, arguments)) if _has_engine(target) else arguments


def specs_with_maps(specs: tuple[ArgumentSpec, ...], target: GPUTarget) -> tuple[ArgumentSpec, ...]:
    """Parameters as kernels for a GPU have them."""
    return tuple(map(spec_with_map, specs)) if _has_engine(target) else specs


def _has_engine(target: GPUTarget) -> bool:
    return target.backend == "cuda" and int(target.arch) >= FIRST_WITH_ENGINE


def with_map(argument: Specialized) -> Specialized:
    """An argument with the tensor maps of all descriptors in it that the engine can move blocks of."""
    if argument.type != TUPLE:
        return argument
    parts = tuple(map(with_map, argument.value.parts))
    if argument.value.sequence is HostDescriptor:
        parts += tuple(_map_part(*parts, source=argument.value.source))
    elif argument.value.sequence is GluonDescriptor:
        parts = (*_map_part(*parts[:PARTS], source=argument.value.source), *parts[1:])
    key = (argument.value.sequence, tuple((part.type, part.key) for part in parts))
    return Specialized(TUPLE, key, argument.value._replace(parts=parts))


def spec_with_map(spec: ArgumentSpec) -> ArgumentSpec:
    """A parameter with the tensor maps of all descriptors in it that the engine can move blocks of."""
    if spec.type != TUPLE:
        return spec
    elements = tuple(map(spec_with_map, spec.elements))
    if spec.sequence is HostDescriptor and len(elements) == PARTS:
        base, _, strides, block, padding = elements
        element = base.type.removeprefix("*").removeprefix("k")
        if _can_move(element, block.constant, strides.elements[-1].constant, padding.constant):
            elements += (ArgumentSpec(f"{spec.name}.{PARTS}", descriptor_type_string(spec)),)
    elif spec.sequence is GluonDescriptor:
        elements = (ArgumentSpec(f"{spec.name}.0", descriptor_type_string(spec)), *elements[1:])
    return spec._replace(elements=elements)


def _can_move(element: str, block: Sequence[int], last_stride: object, padding: object) -> bool:
    """Whether the engine can move such blocks of a tensor whose last stride this is, and pad them like this."""
    width = int("".join(takewhile(str.isdigit, element.lstrip("bfipu")))) // 8
    fits = len(block) <= MAX_AXES and last_stride == 1 and element not in NARROW
    return fits and block[-1] * width >= MIN_ROW and (padding == "zero" or width in FILLED)


def _map_part(
    base: Specialized,
    shape: Specialized,
    strides: Specialized,
    block: Specialized,
    padding: Specialized,
    *,
    source: Any,
) -> list[Specialized]:
    element = base.type.removeprefix("*").removeprefix("k")
    steps = _numbers(strides)
    if not _can_move(element, block.value, steps[-1], padding.value):
        return []
    tf32 = bool(getattr(source, "round_f32_to_tf32", False))
    found = HostMap(base.value, _numbers(shape), steps, padding.value == "nan", tf32, _images(source))
    return [Specialized(descriptor_text(base.type, len(steps), block.value), None, found)]


def _images(source: Any) -> Images | None:
    """The pixels that copies of a host's descriptor go through; None if its tensor has no images."""
    lower = getattr(source, "pixel_box_lower_corner", None)
    if lower is None:
        return None
    steps = source.element_strides or (1,) * len(source.shape)
    return Images(*(tuple(map(operator.index, axes)) for axes in (lower, source.pixel_box_upper_corner, steps)))


def _numbers(axes: Specialized) -> tuple[int, ...]:
    return tuple(part.value for part in axes.value.parts)


def host_parts(descriptor: Any) -> list[Any]:
    """The values of a descriptor's parts, its tensor map last."""
    shape, strides = (tuple(map(operator.index, axes)) for axes in (descriptor.shape, descriptor.strides))
    view = view_of(descriptor.base)
    assert view is not None, "a descriptor has an array"
    tf32 = bool(getattr(descriptor, "round_f32_to_tf32", False))
    padding = str(descriptor.padding)
    tensor = HostMap(view, shape, strides, padding == "nan", tf32, _images(descriptor))
    return [descriptor.base, shape, strides, tuple(descriptor.block_shape), padding, tensor]


def gluon_parts(descriptor: Any) -> list[Any]:
    """The values of a descriptor's parts as kernels of Gluon have them: the tensor map first."""
    _, shape, strides, block, padding, tensor = host_parts(descriptor)
    return [tensor, shape, strides, block, padding, descriptor.layout]


def map_fields(name: str, tensor: HostMap, facts: Mapping[str, Any]) -> MapFields:
    """The fields from which a driver makes the tensor map.

    Args:
        facts: the kernel's `tensordesc_meta` of it.

    Raises:
        ArgumentError: the engine cannot address such a tensor.
    """
    size, shape = facts["elem_size"], list(tensor.shape)
    if facts["fp4_padded"]:
        shape[-1] *= 2
    steps = [stride * size for stride in tensor.strides[:-1]]
    _check(name, tensor.base.address, shape, steps)
    rounds = tensor.rounds_to_tf32 and size == _TF32_SIZE
    return MapFields(
        address=tensor.base.address,
        element=_TF32 if rounds else facts["elem_type"],
        shape=tuple(reversed(shape)),
        strides=tuple(reversed(steps)),
        box=tuple(reversed(facts["block_size"])),
        swizzle=facts["swizzle"],
        pads_with_nan=tensor.pads_with_nan,
        images=None if tensor.images is None else Images(*(tuple(reversed(axes)) for axes in tensor.images)),
    )


def _check(name: str, address: int, shape: Sequence[int], steps: Sequence[int]) -> None:
    def refuse(what: str) -> ArgumentError:
        return ArgumentError(f"argument {name!r}: the tensor of a descriptor for a GPU {what}")

    if address % ALIGNMENT:
        raise refuse(f"begins at a multiple of {ALIGNMENT} bytes, not at {address:#x}")
    for axis, step in enumerate(steps):
        if step % ALIGNMENT or not 0 <= step < FARTHEST:
            raise refuse(f"has strides of multiples of {ALIGNMENT} bytes below 2**40; that of axis {axis} is {step}")
    for axis, extent in enumerate(shape):
        if not 0 < extent <= MAX_PLACES:
            raise refuse(f"has 1 to 2**32 elements along each axis; axis {axis} has {extent}")
