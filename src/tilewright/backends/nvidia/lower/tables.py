"""All lowerings, by the name of the op: every file of lowerings ends with its own table."""

from __future__ import annotations

from tilewright.backends.llvm import elementwise
from tilewright.backends.nvidia.lower import (
    arithmetic,
    async_copies,
    atomics,
    buffers,
    calls,
    control,
    conversions,
    convert_layout,
    descriptors,
    fp4,
    gather,
    histogram,
    indexed_buffers,
    inline_assembly,
    mathematics,
    mbarriers,
    memory,
    program,
    reduce,
    reports,
    reshapes,
    scan,
    tiles,
    tma_copies,
    tma_gather,
)
from tilewright.backends.nvidia.lower.dot import dots, tcgen05, tensor_copy, tensor_memory, wgmma
from tilewright.backends.nvidia.lower.lowerer import Lowering
from tilewright.backends.nvidia.lower.rules import Rule, per_register, shared_rule

RULES: dict[str, Rule] = {
    **dict.fromkeys(elementwise.LOWERINGS, shared_rule),
    **arithmetic.RULES,
    **conversions.RULES,
    **mathematics.RULES,
}
"""Elementwise ops, one register at a time; rules of `backends/llvm` serve where a GPU has nothing better."""
LOWERINGS: dict[str, Lowering] = {
    **async_copies.LOWERINGS,
    **atomics.LOWERINGS,
    **buffers.LOWERINGS,
    **calls.LOWERINGS,
    **control.LOWERINGS,
    **convert_layout.LOWERINGS,
    **descriptors.LOWERINGS,
    **dots.LOWERINGS,
    **{name: per_register(rule) for name, rule in RULES.items()},
    **conversions.LOWERINGS,
    **fp4.LOWERINGS,
    **gather.LOWERINGS,
    **histogram.LOWERINGS,
    **indexed_buffers.LOWERINGS,
    **mbarriers.LOWERINGS,
    **inline_assembly.LOWERINGS,
    **memory.LOWERINGS,
    **program.LOWERINGS,
    **reduce.LOWERINGS,
    **reports.LOWERINGS,
    **reshapes.LOWERINGS,
    **tma_gather.LOWERINGS,
    **scan.LOWERINGS,
    **tma_copies.LOWERINGS,
    **tcgen05.LOWERINGS,
    **tensor_copy.LOWERINGS,
    **tensor_memory.LOWERINGS,
    **tiles.LOWERINGS,
    **wgmma.LOWERINGS,
}
