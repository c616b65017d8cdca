"""All that is declared of each op, and what the classes of ops say of their operands and attributes, as one text."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.declare import OPS, OpDefinition


def told(value: object) -> str:
    """A fact as text: functions and classes by their names."""
    if isinstance(value, Enum):
        return value.name
    return getattr(value, "__qualname__", None) or str(value)


@pytest.mark.quick
def test_declarations(golden: Callable[[str, str], None]) -> None:
    lines = []
    for name, definition in sorted(OPS.items()):
        facts = {fact: getattr(definition, fact) for fact in vars(OpDefinition) if fact in OpDefinition.__annotations__}
        said = [f"{fact} = {told(value)}" for fact, value in facts.items() if value != getattr(OpDefinition, fact)]
        lines.append(f"{name}: {', '.join(said)}\n")
    golden("".join(lines), "dialects/declarations.txt")
