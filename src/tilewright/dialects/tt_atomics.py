"""Atomic memory accesses: `tt.atomic_rmw`, `tt.atomic_cas`."""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.rules import keyword_in, pointer, types_match
from tilewright.dialects.traits import Atomic
from tilewright.dialects.tt_memory import pointee_type
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declares
from tilewright.ir.fields import Operand, OptionalOperand, Word
from tilewright.ir.types import i1, with_element

RMW_OPS = ("and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch")
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("gpu", "cta", "sys", "launch")
"""The other users of the memory: programs of any launch, none, other devices, or programs of the same launch only."""


def _verify_order(op: Op) -> None:
    keyword_in(op, "sem", SEMANTICS)
    keyword_in(op, "scope", SCOPES)


def _verify_rmw(op: Op) -> None:
    pointer(op, op.operands[0])
    value = pointee_type(op.operands[0].type)
    wanted = (value, with_element(value, i1))[: len(op.operands) - 1]
    types_match(op, op.operands[1:], wanted, "value and mask")
    types_match(op, op.results, [value], "result")
    keyword_in(op, "atomic_rmw_op", RMW_OPS)
    _verify_order(op)


def _verify_cas(op: Op) -> None:
    pointer(op, op.operands[0])
    value = pointee_type(op.operands[0].type)
    types_match(op, op.operands[1:], (value, value), "compared and new value")
    types_match(op, op.results, [value], "result")
    _verify_order(op)


@declares(
    "tt.atomic_rmw",
    effect=Effect.READ_WRITE,
    verify=_verify_rmw,
    **assembly(" @atomic_rmw_op, @sem, @scope, %ptr, %val?(, %mask){} : =>", "ptr val mask?", "result"),
)
class AtomicRmw(Atomic):
    """Replaces what is at `pointer` by `operation` of it and `value`, where `mask` holds; returns the old value."""

    __slots__ = ()
    value = Operand(1)
    mask = OptionalOperand(2)
    operation = Word("atomic_rmw_op")


@declares(
    "tt.atomic_cas",
    effect=Effect.READ_WRITE,
    verify=_verify_cas,
    **assembly(" @sem, @scope, %ptr, %cmp, %val{} : =>", "ptr cmp val", "result"),
)
class AtomicCas(Atomic):
    """Puts `value` at `pointer` if `compared` is there; returns the old value."""

    __slots__ = ()
    compared, value = Operand(1), Operand(2)
