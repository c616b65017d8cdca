"""The reference semantics of one kind of instruction: what it computes, and of which types.

"shl": Semantics(shift_left, only("b16 b32 b64"), then(uint32))

shl.b64 d, a, n      a is a uint64, n is a uint32
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.semantics.types import dtype

Kinds = Callable[[dtype, int], Sequence[dtype]]
"""The types of the operands, from the type that the instruction names and their number."""


def alike(kind: dtype, count: int) -> Sequence[dtype]:
    """All operands are of the type that the instruction names."""
    return [kind] * count


def then(*last: dtype) -> Kinds:
    """Kinds as those of `alike`, but the last operands are of these types."""
    return lambda kind, count: [*[kind] * (count - len(last)), *last]


def only(types: str) -> frozenset[str]:
    """A set of types of PTX, from a line of them."""
    return frozenset(types.split())


@dataclass(frozen=True)
class Semantics:
    """`compute` takes tiles of `kinds`; `types` are those that may stand at the end of the name.

    With `halves` the operands are registers of 32 bits with two halves each. With `extends` the target may have more
    bits than the result. With `constant` the last operand is a number, and `compute` takes it as one.
    """

    compute: Callable[..., Any]
    types: frozenset[str]
    kinds: Kinds = alike
    extends: bool = False
    constant: bool = False
