"""PTX's types as NumPy sees them: `types["s32"]` has 32 bits, kind "s" and dtype int32.

Formats without a NumPy dtype (bf16, fp8, packed pairs) are read as unsigned bits of their width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A NumPy array; operands have one element per lane, or one for all."""
Mask: TypeAlias = Any
"""One bool per lane; None stands for every lane of the machine."""

UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(bool), **{n: np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)}}
"""The NumPy types in which registers are stored, by their bits."""


@dataclass(frozen=True)
class Type:
    """A fundamental type of an instruction or a register.

    Attributes:
        name: as PTX spells it.
        bits: of one value.
        kind: `u`, `s`, `b` (untyped), `f` (a NumPy float), `p` (predicate), or `x`: a format without a dtype.
        dtype: what a register looks like when it is read with this type.
    """

    name: str
    bits: int
    kind: str
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return self.bits // 8


def _table() -> dict[str, Type]:
    found = {"pred": Type("pred", 1, "p", np.dtype(bool))}
    for bits in (8, 16, 32, 64):
        found[f"u{bits}"] = Type(f"u{bits}", bits, "u", np.dtype(f"u{bits // 8}"))
        found[f"s{bits}"] = Type(f"s{bits}", bits, "s", np.dtype(f"i{bits // 8}"))
        found[f"b{bits}"] = Type(f"b{bits}", bits, "b", np.dtype(f"u{bits // 8}"))
    for bits in (16, 32, 64):
        found[f"f{bits}"] = Type(f"f{bits}", bits, "f", np.dtype(f"f{bits // 8}"))
    formats = {"bf16": 16, "f16x2": 32, "bf16x2": 32, "tf32": 32, "f32x2": 64, "e4m3": 8, "e5m2": 8, "e4m3x2": 16}
    formats |= {"e5m2x2": 16, "ue8m0x2": 16, "e2m1x2": 8, "e2m3x2": 16, "e3m2x2": 16, "e4m3x4": 32, "e5m2x4": 32}
    formats |= {"e2m1x4": 16, "e2m3x4": 32, "e3m2x4": 32, "u16x2": 32, "s16x2": 32}
    for name, bits in formats.items():
        found[name] = Type(name, bits, "x", np.dtype(f"u{bits // 8}"))
    return found


TYPES: dict[str, Type] = _table()
