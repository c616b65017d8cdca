"""The signature that a kernel is compiled for: one entry per parameter, by type string.

    x_ptr: pointer to fp32, aligned     ArgumentSpec("x_ptr", "*fp32", divisibility=16)
    n = 1                               ArgumentSpec("n", "constexpr", constant=1)
    shape = (4096, 1)                   ArgumentSpec("shape", "tuple", elements=(… "i32" …, … "constexpr" …))

The runtime, which specialises arguments, and the compiler, which makes language types of them, share these classes.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from tilewright.support.named_tuple import NamedTuple

CONSTEXPR: Final = "constexpr"
TUPLE: Final = "tuple"
NO_CONSTANT: Final = object()
Place: TypeAlias = tuple[int, ...]


class HostDescriptor(tuple[Any, ...]):
    """Stands for the class of a tuple: its parts are those of a tensor descriptor that was made on the host."""


class GluonDescriptor(HostDescriptor):
    """The same for Gluon: its parts are array (or tensor map), shape, strides, block shape, padding and layout."""


class ArgumentSpec(NamedTuple):
    """One parameter of a kernel, as compiled.

    Attributes:
        name: the parameter; elements of tuples are called `shape.0`.
        type: `*fp32`, `*kfp32` (const), `i32`, `u64`, `fp32`, `u1`, `constexpr` or `tuple`.
        divisibility: what the value (or address) is known to be a multiple of.
        sequence: the class of a tuple, which may be a NamedTuple, or HostDescriptor.
    """

    name: str
    type: str
    divisibility: int = 1
    constant: Any = NO_CONSTANT
    elements: tuple[ArgumentSpec, ...] = ()
    sequence: builtins.type[tuple[Any, ...]] = tuple

    @property
    def is_constant(self) -> bool:
        return self.type == CONSTEXPR

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


def places(specs: Sequence[ArgumentSpec], outer: Place = ()) -> Iterator[tuple[Place, ArgumentSpec]]:
    """The parameters that are no tuples, parts of tuples included, by path: (2, 0) is a part of the third."""
    for index, spec in enumerate(specs):
        if spec.type == TUPLE:
            yield from places(spec.elements, (*outer, index))
        else:
            yield (*outer, index), spec


def run_time_arguments(specs: Sequence[ArgumentSpec]) -> list[ArgumentSpec]:
    """The values that a compiled kernel takes, one per slot of the launch record."""
    return [spec for _, spec in places(specs) if not spec.is_constant]


DESCRIPTOR: Final = "tensordesc<"
"""The prefix of a tensor descriptor's type string; its element type and the extents of its blocks follow."""


IMAGES: Final = "tensordesc_im2col<"
"""The prefix of the type string of a descriptor of images, whose blocks are pixels and their channels."""


def descriptor_spec(name: str, text: str) -> ArgumentSpec:
    """A tensor descriptor that is made on the host, of whatever tensor."""
    element, bracket, extents = text.removeprefix(DESCRIPTOR).removesuffix(">").partition("[")
    if not bracket or not extents.endswith("]"):
        raise ValueError(f"a tensor descriptor is written as tensordesc<fp16[64, 64]>, not {text}")
    block = tuple(map(int, extents.removesuffix("]").split(",")))
    axes = range(len(block))
    shape = tuple(ArgumentSpec(f"{name}.1.{axis}", "i32") for axis in axes)
    strides = tuple(ArgumentSpec(f"{name}.2.{axis}", "i64") for axis in axes[:-1])
    contiguous = ArgumentSpec(f"{name}.2.{axes[-1]}", CONSTEXPR, constant=1)
    parts = (
        ArgumentSpec(f"{name}.0", f"*{element}", divisibility=16),
        ArgumentSpec(f"{name}.1", TUPLE, elements=shape),
        ArgumentSpec(f"{name}.2", TUPLE, elements=(*strides, contiguous)),
        ArgumentSpec(f"{name}.3", CONSTEXPR, constant=block),
        ArgumentSpec(f"{name}.4", CONSTEXPR, constant="zero"),
    )
    return ArgumentSpec(name, TUPLE, elements=parts, sequence=HostDescriptor)


def descriptor_type_string(spec: ArgumentSpec) -> str:
    """`tensordesc<fp16[64, 64]>` for the parts of a descriptor."""
    base, shape, _, block, *_ = spec.elements
    return descriptor_text(base.type, len(shape.elements), block.constant)


def descriptor_text(base: str, axes: int, block: Sequence[int]) -> str:
    """The type string of a descriptor of a tensor with so many axes; blocks with fewer are those of images.

    Args:
        base: the type string of the pointer to its elements.
    """
    prefix = DESCRIPTOR if axes == len(block) else IMAGES
    return f"{prefix}{base.removeprefix('*').removeprefix('k')}{list(block)}>"
