"""The workers of a kernel, as the attributes of a TTGIR module say.

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", …}
"""

from __future__ import annotations

from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.layouts.blocked import Workers


def _number(module: Op, name: str, default: int) -> int:
    value = module.attributes.get(name)
    return int(value.value) if isinstance(value, Number) else default


def module_of(op: Op) -> Op:
    """The module that `op` is in, or is."""
    while (parent := op.parent) is not None:
        op = parent
    return op


def warps_of(op: Op) -> int:
    """The number of warps that execute `op`: those of its partition, or all."""
    inner, parent = op, op.parent
    while parent is not None:
        if isinstance(parent, WarpSpecializePartitions) and isinstance(parent.parent, WarpSpecialize):
            index = next(i for i, region in enumerate(parent.regions) if region is _region_of(inner))
            return parent.parent.partition_warps[index]
        own = parent.attributes.get("ttg.num-warps")
        if isinstance(own, Number):
            return int(own.value)
        inner, parent = parent, parent.parent
    return _number(inner, "ttg.num-warps", 4)


def _region_of(op: Op) -> object:
    return op.block.region if op.block is not None else None


def workers_of(op: Op) -> Workers:
    """The warps, lanes and CTAs that execute `op`."""
    module = module_of(op)
    return Workers(warps_of(op), _number(module, "ttg.threads-per-warp", 32), _number(module, "ttg.num-ctas", 1))


def target_of(module: Op) -> str:
    """The device, as `cuda:90`; empty if the module does not say."""
    target = module.attributes.get("ttg.target")
    return target if isinstance(target, str) else ""


def capability_of(module: Op) -> int:
    """The compute capability of an NVIDIA device: 90 for `cuda:90`; 0 for anything else."""
    kind, _, number = target_of(module).partition(":")
    return int(number) if kind == "cuda" and number.isdigit() else 0
