"""All lowerings by the name of the op; every file of lowerings ends with its own table."""

from __future__ import annotations

from tilewright.backends.llvm import elementwise
from tilewright.backends.nvidia.lower import (
    arithmetic,
    async_copies,
    atomics,
    buffers,
    calls,
    cluster_launch,
    control,
    conversions,
    convert_layout,
    gather,
    inline_assembly,
    mathematics,
    mbarriers,
    memory,
    packed_arithmetic,
    reduce,
    reports,
    reshapes,
    scan,
    tiles,
    tma_copies,
    warp_groups,
)
from tilewright.backends.nvidia.lower.dot import mma_sync, tcgen05, tensor_memory, wgmma
from tilewright.backends.nvidia.lower.lowerer import Lowering
from tilewright.backends.nvidia.lower.rules import Rule, per_register, shared_rule

PROGRAMS = (calls, cluster_launch, control, inline_assembly, reports, warp_groups)
TILES = (conversions, convert_layout, gather, packed_arithmetic, reduce, reshapes, scan, tiles)
MEMORY = (async_copies, atomics, buffers, mbarriers, memory, tma_copies)
PRODUCTS = (mma_sync, tcgen05, tensor_memory, wgmma)
RULES: dict[str, Rule] = {
    **dict.fromkeys(elementwise.LOWERINGS, shared_rule),
    **arithmetic.RULES,
    **conversions.RULES,
    **mathematics.RULES,
}
"""Elementwise ops, one register at a time; rules of `backends/llvm` serve where a GPU has nothing better."""
LOWERINGS: dict[str, Lowering] = {name: per_register(rule) for name, rule in RULES.items()}
for _file in (*PROGRAMS, *TILES, *MEMORY, *PRODUCTS):
    LOWERINGS |= _file.LOWERINGS
