"""The facts that a launch needs about the tensor descriptors among a kernel's parameters, under Triton's names.

!tt.tensordesc<tensor<64x64xf16, #nvmma_128>>
    {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [64, 64], "fp4_padded": False}
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Op
from tilewright.ir.types import TensorDescType
from tilewright.layouts.encodings import NvmmaShared, encoding
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.gpu.tma_lowering import PADDED_FP4, SWIZZLE_MODES, box_of, element_type


def tensor_map_facts(module: Op) -> list[dict[str, Any]]:
    """One record per descriptor among the parameters of the kernel in TTGIR.

    Each has `swizzle` (the number of the mode), `elem_size` (bytes), `elem_type` (PTX's number of the element type),
    `block_size` (elements of one copy, outermost first) and `fp4_padded` (16 elements of 4 bits take 16 bytes).
    """
    kernels = [function for function in functions_of(module) if is_public(function)]
    parameters = [value.type for kernel in kernels for value in kernel.regions[0].blocks[0].args]
    return [_facts(kind) for kind in parameters if isinstance(kind, TensorDescType)]


def _facts(kind: TensorDescType) -> dict[str, Any]:
    block = kind.block
    assert block.encoding, f"{kind} has no layout"
    layout = encoding(block.encoding)
    padded = isinstance(layout, NvmmaShared) and layout.fp4_padded
    return {
        "swizzle": SWIZZLE_MODES[getattr(layout, "swizzling_byte_width", 0)],
        "elem_size": block.bits // 8,
        "elem_type": PADDED_FP4 if padded else element_type(block.element),
        "block_size": list(box_of(layout, block.shape)),
        "fp4_padded": padded,
    }
