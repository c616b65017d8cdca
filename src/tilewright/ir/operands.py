"""Operands by name, for op kinds that name them.

    declare("ttg.local_load", operand_names=("src", "token?"), …)
    operand(op, "token")           the value, or None if it is absent

A name with `?` may be absent, one with `*` stands for any number. If several of these are declared, the attribute
`operandSegmentSizes` of the op has the number of each, as in MLIR.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op, Value
from tilewright.ir.errors import VerificationError
from tilewright.ir.types import i32

SEGMENTS = "operandSegmentSizes"


def operand(op: Op, name: str) -> Value | None:
    """The operand `name` of `op`; None if it has none."""
    found = operand_group(op, name)
    return found[0] if found else None


def operand_group(op: Op, name: str) -> list[Value]:
    """The operands with this name."""
    return operand_groups(op)[name]


def operand_groups(op: Op) -> dict[str, list[Value]]:
    """All operands of `op` by name.

    Raises:
        VerificationError: when their number does not fit.
    """
    names, varying = _names(op.definition.operand_names)
    operands = op.operands
    if not varying:
        sizes: Sequence[int] = (1,) * len(names)
    elif len(varying) == 1:
        sizes = [1] * len(names)
        sizes[varying[0]] = len(operands) - len(names) + 1
    else:
        sizes = _segments(op, op.definition.operand_names)
    if len(sizes) != len(names) or sum(sizes) != len(operands):
        raise VerificationError(op, f"its operands do not divide into {', '.join(op.definition.operand_names)}")
    groups: dict[str, list[Value]] = {}
    first = 0
    for name, size in zip(names, sizes, strict=True):
        groups[name] = operands[first : first + size]
        first += size
    return groups


def _segments(op: Op, operand_names: tuple[str, ...]) -> Sequence[int]:
    """The sizes that the op gives for its groups; () if they cannot be."""
    segments = op.attributes.get(SEGMENTS)
    if not isinstance(segments, DenseArray) or len(segments.values) != len(operand_names):
        return ()
    fits = all(
        size == 1 if name[-1] not in "?*" else 0 <= size <= (1 if name[-1] == "?" else size)
        for name, size in zip(operand_names, segments.values, strict=True)
    )
    return segments.values if fits else ()


def has_varying_groups(operand_names: tuple[str, ...]) -> bool:
    """Whether ops with such operands give the numbers of operands for their groups."""
    return len(_names(operand_names)[1]) > 1


def check_operand_groups(op: Op) -> None:
    """Check the numbers of operands that an op gives for its groups, where it gives them; raises VerificationError."""
    if has_varying_groups(op.definition.operand_names):
        operand_groups(op)


def operand_groups_fit(op: Op) -> bool:
    """Whether the operands of `op` can be accessed by name."""
    try:
        check_operand_groups(op)
    except VerificationError:
        return False
    return True


def set_operand_groups(op: Op, groups: dict[str, Sequence[Value]]) -> None:
    """Replace the operands of `op`; missing names keep their operands."""
    merged: dict[str, Sequence[Value]] = {**operand_groups(op), **groups}
    op.set_operands(value for group in merged.values() for value in group)
    op.attributes.update(segment_attribute(op.definition.operand_names, [len(group) for group in merged.values()]))


def segment_attribute(operand_names: tuple[str, ...], sizes: Sequence[int]) -> dict[str, DenseArray]:
    """The attribute that an op with such operands needs; none where the sizes can be computed."""
    if not has_varying_groups(operand_names):
        return {}
    return {SEGMENTS: DenseArray(i32, tuple(sizes))}


@cache
def _names(operand_names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names without their signs, and the positions of those with one."""
    varying = tuple(i for i, name in enumerate(operand_names) if name[-1] in "?*")
    return tuple(name.rstrip("?*") for name in operand_names), varying
