"""Policies for caches as values of Gluon's programs, which loads, stores and copies take.

CachePolicy("cg")                                               as cache_modifier=".cg"
CachePolicy(eviction_policy="evict_first")                      as eviction_policy="evict_first"
NvidiaCachePolicy(l1="no_allocate", l2=FractionalEvictionPolicy("evict_last", 0.5), l2_prefetch_size=128)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from tilewright.dialects.cache_policies import ATTRIBUTE, L2Policy
from tilewright.dialects.cache_policies import CachePolicy as Policy
from tilewright.dialects.tt_memory import EVICTION_POLICIES
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.semantics.buffers import require
from tilewright.semantics.constexpr import unwrap

MODIFIERS = ("ca", "cg", "wb", "cs", "wt", "cv")
"""All cache modifiers."""
LOADS, STORES = ("ca", "cg", "cs", "cv"), ("wb", "cg", "cs", "wt")
"""The cache modifiers of loads, and of stores."""
PRIMARY = ("evict_normal", "evict_unchanged", "evict_first", "evict_last")
L1_EVICTIONS = (*PRIMARY, "no_allocate")
SECONDARY = ("evict_unchanged", "evict_first")
"""The words for keeping lines: in both caches, in L2, in L1, and for the other lines of a fraction of L2."""
PREFETCHES = (64, 128, 256)
"""Bytes that the L2 cache may fetch around an access."""


def _demand(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {', '.join(map(str, allowed))}, not {value!r}")


class _Constant:
    """A record whose fields are plain values, also where a program gives constants for them."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            object.__setattr__(self, field.name, unwrap(getattr(self, field.name)))
        self.check()

    def check(self) -> None:
        """Raise ValueError or TypeError for fields that no hardware has."""

    def mangle(self) -> str:
        """The part of a mangled function name for this value."""
        words = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]  # as above
        told = "_".join(word.mangle() if isinstance(word, _Constant) else str(word) for word in words)
        return f"{type(self).__name__}_{told}".replace(".", "d").replace("-", "m")


@dataclass(frozen=True)
class CachePolicy(_Constant):
    """A cache modifier and an eviction policy as one value.

    Attributes:
        cache_modifier: `none`, or a word with or without its point: `cg`.
        eviction_policy: `evict_normal`, `evict_first` or `evict_last`.
    """

    cache_modifier: str = "none"
    eviction_policy: str = "evict_normal"

    def check(self) -> None:
        """Raise for words that are none."""
        object.__setattr__(self, "cache_modifier", str(self.cache_modifier).removeprefix("."))
        _demand("cache_modifier", self.cache_modifier, ("none", *MODIFIERS))
        _demand("eviction_policy", self.eviction_policy, EVICTION_POLICIES)


@dataclass(frozen=True)
class FractionalEvictionPolicy(_Constant):
    """A policy for lines of the L2 cache: `fraction` of them as `primary` says, the others as `secondary` says."""

    primary: str
    fraction: float
    secondary: str = "evict_unchanged"

    def check(self) -> None:
        """Raise for words that are none, and for no fraction."""
        _demand("primary", self.primary, PRIMARY)
        _demand("secondary", self.secondary, SECONDARY)
        number = isinstance(self.fraction, (int, float)) and math.isfinite(self.fraction)
        if not number or not 0 < self.fraction <= 1:
            raise ValueError(f"fraction is a number above 0 and up to 1, not {self.fraction!r}")


@dataclass(frozen=True)
class NvidiaCachePolicy(_Constant):
    """A policy for NVIDIA's caches; at least one of the fields is given.

    Attributes:
        cache_modifier: a word with or without its point: `cg`.
        l1: how the L1 cache keeps lines.
        l2: how the L2 cache keeps them.
        l2_prefetch_size: how many bytes the L2 cache may fetch around the access: 64, 128 or 256.
    """

    cache_modifier: str | None = None
    l1: str | None = None
    l2: FractionalEvictionPolicy | None = None
    l2_prefetch_size: int | None = None

    def check(self) -> None:
        """Raise for unknown words, and if nothing is set."""
        if self.cache_modifier is not None:
            object.__setattr__(self, "cache_modifier", str(self.cache_modifier).removeprefix("."))
        _demand("cache_modifier", self.cache_modifier, (None, *MODIFIERS))
        _demand("l1", self.l1, (None, *L1_EVICTIONS))
        _demand("l2_prefetch_size", self.l2_prefetch_size, (None, *PREFETCHES))
        if not isinstance(self.l2, FractionalEvictionPolicy | None):
            raise TypeError(f"l2 is a FractionalEvictionPolicy, not {self.l2!r}")
        if (self.cache_modifier, self.l1, self.l2, self.l2_prefetch_size) == (None,) * 4:
            raise ValueError("a CachePolicy has a cache_modifier, l1, l2 or l2_prefetch_size")


def attributes_of_policy(
    function: str, given: Any, others: tuple[Any, ...], modifiers: tuple[str, ...]
) -> dict[str, Attribute] | None:
    """The attributes of an access for its `cache_policy`; None without one.

    Args:
        function: what the user calls.
        given: the policy.
        others: the `cache_modifier` and `eviction_policy`, which cannot be given beside it.
        modifiers: the cache modifiers that the access has.
    """
    policy = unwrap(given)
    if policy is None:
        return None
    require(not any(map(unwrap, others)), f"{function} takes cache_policy, or cache_modifier and eviction_policy")
    require(isinstance(policy, (CachePolicy, NvidiaCachePolicy)), f"cache_policy is a CachePolicy, not {policy!r}")
    modifier = None if policy.cache_modifier == "none" else policy.cache_modifier
    fits = modifier is None or modifier in modifiers
    has = f"the cache modifiers {', '.join(modifiers)}, and not" if modifiers else "no cache modifiers, and here is"
    require(fits, f"{function} has {has} {modifier}")
    if isinstance(policy, CachePolicy):
        evict = "" if policy.eviction_policy == "evict_normal" else policy.eviction_policy
        return {name: Keyword(word) for name, word in (("cache", modifier), ("evict", evict)) if word}
    given_both = f"hardware takes a cache modifier or l1, and here are {modifier} and {policy.l1}"
    require(not (modifier and policy.l1), given_both)
    l2 = policy.l2 and L2Policy(policy.l2.primary, policy.l2.secondary, float(policy.l2.fraction))
    found = Policy(modifier or "", policy.l1 or "", l2, policy.l2_prefetch_size or 0)
    require(modifiers is not STORES or not found.prefetch, f"{function} fetches nothing: leave l2_prefetch_size out")
    return {ATTRIBUTE: found.attribute}


def attributes_of_copy(function: str, given: Any) -> dict[str, Attribute]:
    """The attributes of a copy by descriptor for its `cache_policy`, which affects the L2 cache only."""
    policy = unwrap(given)
    found = attributes_of_policy(function, policy, (), ())
    if isinstance(policy, NvidiaCachePolicy):
        only_l2 = policy.l1 is None and policy.l2_prefetch_size is None
        require(only_l2, f"{function} tells the L2 cache how to keep lines: leave l1 and l2_prefetch_size out")
    return found or {}
