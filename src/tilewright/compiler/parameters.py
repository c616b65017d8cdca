"""Type strings of signatures → types of the language.

language_type("*kfp32")                     pointer_type(float32, const=True)
language_type("tensordesc<fp16[64, 64]>")   a descriptor of blocks for a GPU's copy engine
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tilewright.compiler.signature import DESCRIPTOR, IMAGES, TUPLE, ArgumentSpec, GluonDescriptor, HostDescriptor
from tilewright.frontends.signature import Parameter
from tilewright.language.descriptors import host_descriptor
from tilewright.semantics.errors import NotOnThisTarget
from tilewright.semantics.tensor_descriptors import descriptor_type
from tilewright.semantics.tma_descriptors import GluonTensor, tma_type
from tilewright.semantics.types import block_type, dtype, pointer_type
from tilewright.support.diagnostics import Unsupported


def front_end_parameters(specs: Sequence[ArgumentSpec]) -> tuple[Parameter, ...]:
    """The parameters as the front end wants them."""
    return tuple(_parameter(spec.name, spec) for spec in specs)


def gluon_descriptor(parts: Sequence[Any]) -> GluonTensor:
    """The value of a descriptor that a host makes for Gluon."""
    made, shape, strides, *_ = parts
    return GluonTensor(made, shape, strides)


@cache
def language_type(text: str) -> dtype:
    """The type that a type string stands for.

    Raises:
        ValueError: there is no such type.
    """
    if text.startswith((DESCRIPTOR, IMAGES)):
        return _descriptor(text)
    if text.startswith("*k"):
        return pointer_type(language_type(text[2:]), const=True)
    if text.startswith("*"):
        return pointer_type(language_type(text[1:]))
    if text[0] in "iu" and text[1:].isdecimal():
        if text[1:] == "1":
            return dtype("int1")
        return dtype(("int" if text[0] == "i" else "uint") + text[1:])
    return dtype(text)


def container_of(sequence: Any) -> Any:
    """The maker of a tuple parameter's value from its parts: the class, or a function for a host's descriptor."""
    return host_descriptor if sequence is HostDescriptor else sequence


def _descriptor(text: str) -> descriptor_type:
    element, _, shape = text.removeprefix(IMAGES).removeprefix(DESCRIPTOR).removesuffix("]>").partition("[")
    return descriptor_type(block_type(language_type(element), list(map(int, shape.split(",")))))


def _gluon_map(spec: ArgumentSpec) -> Parameter:
    """The descriptor itself of a descriptor that a host makes for Gluon.

    Raises:
        Unsupported: the device has no engine that moves blocks.
    """
    made, layout = spec.elements[0], spec.elements[-1].constant
    if not made.type.startswith((DESCRIPTOR, IMAGES)):
        raise Unsupported(NotOnThisTarget("a tensor descriptor", "the device moves no blocks", "take sm_90"))
    return Parameter("0", tma_type(_descriptor(made.type).block, layout, of_images=made.type.startswith(IMAGES)))


def _parameter(name: str, spec: ArgumentSpec) -> Parameter:
    if spec.is_constant:
        return Parameter(name, constant=spec.constant)
    if spec.type == TUPLE:
        elements = tuple(_parameter(str(i), element) for i, element in enumerate(spec.elements))
        if spec.sequence is GluonDescriptor:
            return Parameter(name, elements=(_gluon_map(spec), *elements[1:]), container=gluon_descriptor)
        return Parameter(name, elements=elements, container=container_of(spec.sequence))
    return Parameter(name, language_type(spec.type), divisibility=spec.divisibility)
