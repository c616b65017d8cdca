"""Hints for the caches, as parts of instructions.

    tt.load %p {cachePolicy = #ttng.cache_policy<l1 = no_allocate, l2_primary = evict_last, l2_fraction = 0.5, …>}

    createpolicy.fractional.L2::evict_last.b64 %rd2, 0.5;
    ld.global.L1::no_allocate.L2::cache_hint.v4.b32 { … }, [ %rd1 + 0 ], %rd2;
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.dialects.cache_policies import ATTRIBUTE, CachePolicy, L2Policy, cache_policy_of
from tilewright.ir.core import Op
from tilewright.ir.literals import round_float
from tilewright.ir.types import f32

L2_SINCE = 80
"""The first compute capability with hints for the L2 cache."""


class Hints(NamedTuple):
    """Modifiers of an instruction, and the operand that goes with them, if there is one."""

    suffix: str
    operands: list[Typed]


def access_hints(lowerer: Lowerer, op: Op, caches: Sequence[str]) -> Hints:
    """The hints of a load or store, whose instruction has the modifiers `caches`.

    One that has a modifier and one word for both caches keeps the modifier: the hardware has no instruction with both.
    """
    policy = cache_policy_of(op)
    modifier = policy.modifier if policy.modifier in caches else ""
    if modifier and ATTRIBUTE not in op.attributes:
        policy = CachePolicy(modifier)
    suffix = f".{modifier}" if modifier else ""
    suffix += f".L1::{policy.l1}" if policy.l1 else ""
    more, operands = l2_hints(lowerer, op, policy)
    return Hints(suffix + more, operands)


def l2_hints(lowerer: Lowerer, op: Op, policy: CachePolicy) -> Hints:
    """The part of a policy that is for the L2 cache; one for both applies to L1 only where L2 has no hints."""
    fetches = f".L2::{policy.prefetch}B" if policy.prefetch else ""
    is_old = lowerer.target.capability < L2_SINCE
    if policy.l2 is None or (is_old and ATTRIBUTE not in op.attributes):
        return Hints(fetches, [])
    if is_old:
        raise refused(op, "a policy for the L2 cache", f"GPUs have it from sm_{L2_SINCE} on")
    text = _creation(policy.l2)
    created = lowerer.once(text, lambda: lowerer.computed("i64", text, []))
    return Hints(f"{fetches}.L2::cache_hint", [("i64", created)])


def _creation(policy: L2Policy) -> str:
    second = "" if policy.secondary == "evict_unchanged" else f".L2::{policy.secondary}"
    fraction = f"{round_float(policy.fraction, f32):.9g}"
    fraction += "" if "." in fraction or "e" in fraction else ".0"
    return f"createpolicy.fractional.L2::{policy.primary}{second}.b64 $0, {fraction};"
