"""From sm_80 on: asynchronous copies, mbarriers, matrix products of warps."""

from __future__ import annotations

from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.language.gluon.nvidia.ampere import async_copy, mbarrier
from tilewright.language.gluon.tiles import check_operands, product
from tilewright.semantics.cache_policies import FractionalEvictionPolicy
from tilewright.semantics.cache_policies import NvidiaCachePolicy as CachePolicy
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.layout_values import NVMMADistributedLayout

__all__ = ["CachePolicy", "FractionalEvictionPolicy", "async_copy", "mbarrier", "mma_v2"]


def mma_v2(a: Any, b: Any, acc: Any, input_precision: Any = None) -> Any:
    """`a @ b + acc` by `mma.sync`.

    Args:
        a, b: tiles with a `DotOperandLayout` of the layout of `acc`.
        acc: a tile with an `NVMMADistributedLayout` of version [2, 0].
        input_precision: how fp32 operands are rounded: `tf32` (default), `ieee`, …
    """
    check_operands(a, b, acc, NVMMADistributedLayout, "an NVMMADistributedLayout")
    assert acc.type.layout.version == [2, 0], "MMA layout must have version 2.0"
    return product(a, b, acc, unwrap(input_precision))


accept_semantic(globals())
