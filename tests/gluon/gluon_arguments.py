"""The arguments of the kernels in `gluon_programs.py`, as tensors and descriptors without memory."""

from __future__ import annotations

from typing import Any

import gluon_programs as programs

from tilewright import MockTensor
from tilewright.compat.gluon import TensorDescriptor
from tilewright.semantics.types import float16, float32, int32

ELEMENTS = {"fp16": float16, "fp32": float32, "i32": int32}


def arguments_of(name: str) -> dict[str, Any]:
    """The arguments, constants and number of CTAs that the kernel of that name is called with."""
    _, types, constants, descriptors = programs.CASES[name]
    found = {key: _argument(kind) for key, kind in types.items()}
    for key, (block, layout) in descriptors.items():
        element = float16 if layout.element_bitwidth == 16 else float32
        found[key] = TensorDescriptor.from_tensor(MockTensor(element, [1024] * len(block)), block, layout)
    return {**found, **constants, "num_ctas": programs.CTAS.get(name, 1)}


def _argument(kind: str) -> Any:
    """A tensor or a number of this type, such as `*fp32`."""
    if kind.startswith("*"):
        return MockTensor(ELEMENTS[kind[1:]], [1024])
    return 49 if kind == "i32" else 0.5
