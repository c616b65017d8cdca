"""Policies for NVIDIA's caches, in full: `#ttng.cache_policy<l1 = evict_last, l2_prefetch_size = 128 : i32>`.

Accesses with only a modifier, or with one policy for both caches, have these as `cache` and `evict` instead.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tilewright.ir.attributes import Opaque
from tilewright.ir.core import Op
from tilewright.ir.literals import float_text, round_float
from tilewright.ir.types import f32

ATTRIBUTE = "cachePolicy"
"""The attribute of an access that has its policy."""
_FIELD = re.compile(r"(\w+) = ([\w.+-]+)")


class L2Policy(NamedTuple):
    """How the L2 cache keeps lines: a fraction of them as `primary` says, the others as `secondary` says."""

    primary: str
    secondary: str = "evict_unchanged"
    fraction: float = 1.0


class CachePolicy(NamedTuple):
    """The policy of an access for the caches; empty fields are unset.

    Attributes:
        modifier: `ca`, `cg`, …
        l1: how the L1 cache keeps lines.
        l2: how the L2 cache keeps them.
        prefetch: how many bytes the L2 cache may fetch around the access.
    """

    modifier: str = ""
    l1: str = ""
    l2: L2Policy | None = None
    prefetch: int = 0

    @property
    def attribute(self) -> Opaque:
        """The policy in the IR."""
        fields = {"cache_modifier": self.modifier, "l1": self.l1}
        if self.l2 is not None:
            fields |= {"l2_primary": self.l2.primary, "l2_secondary": self.l2.secondary}
            fields["l2_fraction"] = f"{float_text(round_float(self.l2.fraction, f32), f32)} : f32"
        fields["l2_prefetch_size"] = f"{self.prefetch} : i32" if self.prefetch else ""
        return Opaque(f"#ttng.cache_policy<{', '.join(f'{name} = {word}' for name, word in fields.items() if word)}>")


def cache_policy_of(op: Op) -> CachePolicy:
    """The policy of a load, a store or a copy, however it says so."""
    detailed = op.attributes.get(ATTRIBUTE)
    if isinstance(detailed, Opaque):
        return _read(detailed.text)
    modifier, evict = (getattr(op.attributes.get(name), "name", "") for name in ("cache", "evict"))
    if evict in ("", "evict_normal"):
        return CachePolicy(modifier)
    return CachePolicy(modifier, evict, L2Policy(evict))


def _read(text: str) -> CachePolicy:
    fields = dict(_FIELD.findall(text))
    l2 = None
    if "l2_primary" in fields:
        l2 = L2Policy(fields["l2_primary"], fields["l2_secondary"], float(fields["l2_fraction"]))
    return CachePolicy(
        fields.get("cache_modifier", ""), fields.get("l1", ""), l2, int(fields.get("l2_prefetch_size", 0))
    )
