"""Ops of pipelined loops that must not run in every step.

    %r = "ttg.mask"(%p) ({ %x = tt.load %q, %m; ttg.mask.return %x })     until the arithmetic of %p is simplified

    %s = tt.splat %p                                                      then
    %n = arith.andi %s, %m
    %r = tt.load %q, %n

In the first and last steps of a pipelined loop some stages have no step of the original loop to work for. What their
ops compute does not matter then, but they must not access memory that the original loop did not. Copies that do nothing
still close their group, so that waits can count.
"""

from __future__ import annotations

from tilewright.dialects.builtin import Assume
from tilewright.dialects.scf import If
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.ttg_async import AsyncCommitGroup, AsyncWait
from tilewright.dialects.ttg_memory import LocalAlloc, LocalGather, LocalLoad, LocalStore
from tilewright.dialects.ttg_program import Mask
from tilewright.dialects.ttng_barriers import FenceAsyncShared
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_pure
from tilewright.ir.operands import operand, set_operand_groups
from tilewright.ir.rewriter import Rule
from tilewright.ir.types import TensorType, i1
from tilewright.transforms import arith_rules
from tilewright.transforms.canonicalize import FOLDS
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.gpu.pipelining.writer import Writer

MASKED = (Load, Store, AtomicRmw)
"""Accesses that may get a mask."""
HARMLESS = (
    *(Assume, FenceAsyncShared, AsyncCommitGroup, AsyncWait),
    *(LocalLoad, LocalGather, LocalStore, LocalAlloc),
    *(TmemAlloc, TmemLoad),
)
"""Ops that may run in every step: they have no visible effect."""
RULES: dict[str, tuple[Rule, ...]] = {name: tuple(rules) for name, rules in arith_rules.RULES.items()}


def needs_predicate(op: Op) -> bool:
    """Whether `op` must not run in a step that the original loop did not have; ops that nobody declared always may."""
    return not is_pure(op) and not isinstance(op, HARMLESS) and op.name in OPS


def can_be_predicated(op: Op) -> bool:
    """Whether `op` can be told not to run."""
    if not needs_predicate(op) or isinstance(op, (If, *MASKED)):
        return True
    return bool({"mask?", "pred", "pred?"} & set(op.definition.operand_names))


def wrap(op: Op, predicate: Value) -> Op:
    """Put `op` into a `ttg.mask`, which takes its place; returns that."""
    writer = Writer(op)
    types = [result.type for result in op.results]
    body = Block()
    mask = writer.op("ttg.mask", [[predicate]], types, regions=[Region([body])])
    for old, new in zip(op.results, mask.results, strict=True):
        old.replace_by(new)
    op.unlink()
    body.append(op)
    body.append(Op.create("ttg.mask.return", op.results, location=op.location))
    return mask


def resolve_masks(module: Op) -> None:
    """Let the ops in `ttg.mask` stand alone, with a predicate of their own."""
    simplify_arithmetic(module)
    for mask in [op for op in module.walk() if isinstance(op, Mask)]:
        predicate = mask.condition
        for op in mask.body:
            if op.definition.terminator:
                mask.replace(op.operands)
                break
            op.unlink()
            assert mask.block is not None, "a mask is in a loop"
            mask.block.insert(op, mask)
            _predicate(op, predicate)


def simplify_arithmetic(module: Op) -> bool:
    """Fold constants, and bring arithmetic into canonical form."""
    return rewrite_functions(module, RULES, folds=FOLDS)


def _predicate(op: Op, predicate: Value) -> None:
    """Let `op` run only if `predicate` is true, too."""
    if not needs_predicate(op):
        return
    if isinstance(op, If):
        op.condition = Writer(op).compute("arith.andi", predicate, op.condition)
    elif isinstance(op, MASKED):
        op.mask = _both(op, op.pointer, predicate, op.mask)
    else:
        name = "mask" if "mask?" in op.definition.operand_names else "pred"
        old = operand(op, name)
        like = op.pointer if isinstance(op, PointerAccess) else predicate
        set_operand_groups(op, {name: [_both(op, like, predicate, old)]})


def _both(op: Op, like: Value, predicate: Value, old: Value | None) -> Value:
    """`predicate` and `old`, in the shape of `like`."""
    writer, type = Writer(op), like.type
    if isinstance(type, TensorType):
        mask = TensorType(type.shape, i1, type.encoding)
        predicate = writer.op("tt.splat", [[predicate]], (mask,)).result
    return predicate if old is None else writer.compute("arith.andi", predicate, old)
