"""PTX's types as NumPy sees them: `types["s32"]` has 32 bits, kind "s" and dtype int32.

Formats without a NumPy dtype (bf16, fp8, packed pairs) are read as unsigned bits of their width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tilewright.support.ptx_syntax import TYPE_BITS

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


def _type(name: str, bits: int) -> Type:
    kind = "p" if name == "pred" else name[0] if name in _NUMBERS else "x"
    return Type(name, bits, kind, UNSIGNED[bits] if kind in "pbx" else np.dtype(f"{_NUMPY[kind]}{bits // 8}"))


_NUMPY = {"u": "u", "s": "i", "f": "f"}
_NUMBERS = {f"{kind}{bits}" for kind in "busf" for bits in (8, 16, 32, 64)}
TYPES: dict[str, Type] = {name: _type(name, bits) for name, bits in TYPE_BITS.items()}
