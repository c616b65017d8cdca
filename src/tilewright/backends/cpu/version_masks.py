"""Nests with masks get a version without any, for tiles that are wholly inside.

    "cpu.nest"(%overlaps) …  cpu.store %p, %x, %b, %mask     →     scf.if all masks are on, and not %overlaps {
                                                                     "cpu.nest"() …  tt.store %p, %x
                                                                   } else {
                                                                     "cpu.nest"(%overlaps) …
                                                                   }

Otherwise each row would ask whether it is inside, and where it is to be stored. A tile of one row would gain nothing,
nor would one that comes from a buffer, such as a product, or element by element; and where programs run together
(`merge_programs.py`), or squares are transposed, there is such a version already.
"""

from __future__ import annotations

from math import prod

from tilewright.backends.cpu.costs import ACCESSES, SINKS, STORES
from tilewright.backends.cpu.loop_builder import LoopBuilder, operand_of
from tilewright.backends.cpu.nest_masks import inside, without_masks
from tilewright.backends.cpu.strides import run_time_strides
from tilewright.backends.cpu.version_strides import put_version
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import Nest, Read
from tilewright.dialects.scf import If
from tilewright.ir.core import Block, Op, Value
from tilewright.transforms.functions import functions_of


def version_masks(module: Op, target: Target) -> bool:
    """Give nests of `module` (ttcir) that only store a version without masks; returns whether any does."""
    found = False
    for function in functions_of(module):
        nests = [op for op in function.walk() if isinstance(op, Nest)]
        b = LoopBuilder(Block(), entry=function.body)
        for nest in nests if all(nest.programs is None for nest in nests) else ():
            b.location = nest.location
            with b.into(Block()):
                if _may_gain(nest) and (condition := inside(b, nest, target)) is not None:
                    put_version(b, nest, condition, without_masks(nest))
                    found = True
    return found


def _may_gain(nest: Nest) -> bool:
    """Whether the nest has several rows that go from memory to memory under masks."""
    sinks = [op for op in nest.body if isinstance(op, SINKS)]
    is_plain = nest.mode == "rows" and prod(nest.outer) > 1 and not (nest.square or nest.optimize_size)
    is_masked = any(isinstance(op, ACCESSES) and op.mask is not None for op in nest.body)
    is_spaced = any(isinstance(operand_of(stride), Value) for stride in run_time_strides(nest))
    if not is_plain or not is_masked or is_spaced or _has_squares(nest):
        return False
    return not any(isinstance(op, Read) for op in nest.body) and all(isinstance(op, STORES) for op in sinks)


def _has_squares(nest: Nest) -> bool:
    """Whether the nest is the other version of one by squares."""
    around = nest.parent
    branches = [region.block for region in around.regions] if isinstance(around, If) else []
    return any(isinstance(op, Nest) and op.square for block in branches for op in block)
