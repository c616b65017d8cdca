"""Kernels for the static figures of GPU code beside Triton's: the anchors, and forty in the style of libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_static_kernels
from gpu_static_kernels import Anchor

from gpu_library import norms, pointwise, products, rows

MODULES = (norms, pointwise, rows, products)
ROWS = tuple(row for module in MODULES for row in module.ROWS)
ALIGNED = ("stride", "n", "K", "N", "width")
"""Numbers that are multiples of 16, as pointers are."""


def function(name: str) -> Any:
    """The kernel of this name."""
    return next(getattr(module, name) for module in (gpu_static_kernels, *MODULES) if hasattr(module, name))


def anchors(capabilities: tuple[int, ...]) -> Iterator[Anchor]:
    """The kernels in the style of libraries, for each compute capability."""
    for row in ROWS:
        aligned = tuple(name for name, kind in row.types.items() if kind.startswith("*") or name in ALIGNED)
        for capability in capabilities:
            name = f"{row.name}_{capability}"
            yield Anchor(name, row.kernel, row.types, row.constants, aligned, row.warps, row.stages, capability)
