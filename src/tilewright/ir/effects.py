"""Queries about the side effects of ops: whether they may be removed, merged or moved."""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.declare import Effect


def effect_of(op: Op) -> Effect:
    """The effect of `op` besides computing its results; `RECURSIVE` is resolved by looking inside."""
    definition = op.definition
    if definition.effect_of is not None:
        return definition.effect_of(op)
    if definition.effect is Effect.RECURSIVE:
        return _effect_inside(op)
    return definition.effect


def is_pure(op: Op) -> bool:
    """Whether `op` only computes its results."""
    return effect_of(op) is Effect.NONE


def writes_memory(op: Op) -> bool:
    """Whether `op` may change memory, or do something else that others can see."""
    return effect_of(op) in (Effect.WRITE, Effect.READ_WRITE, Effect.UNKNOWN)


def is_removable(op: Op) -> bool:
    """Whether `op` may be removed once its results are unused."""
    definition = op.definition
    return (
        not definition.terminator
        and not definition.symbol
        and effect_of(op) in (Effect.NONE, Effect.READ, Effect.ALLOCATE)
    )


def is_dead(op: Op) -> bool:
    """Whether `op` can be erased: no result is used, and it is removable."""
    for result in op.results:
        if result.uses:
            return False
    return is_removable(op)


def _effect_inside(op: Op) -> Effect:
    """The union of the effects of all ops in the regions of `op`."""
    reads = writes = False
    for region in op.regions:
        for block in region.blocks:
            for inner in block:
                match effect_of(inner):
                    case Effect.UNKNOWN:
                        return Effect.UNKNOWN
                    case Effect.READ:
                        reads = True
                    case Effect.WRITE:
                        writes = True
                    case Effect.READ_WRITE | Effect.ALLOCATE:
                        reads = writes = True
    if writes:
        return Effect.READ_WRITE if reads else Effect.WRITE
    return Effect.READ if reads else Effect.NONE
