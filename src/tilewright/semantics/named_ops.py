"""Ops with named operands, made from values of the language.

emit_named("ttng.wait_barrier", {"alloc": bar, "phase": phase, "pred": pred, "deps": [a, b]})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Value
from tilewright.ir.declare import OPS
from tilewright.ir.operands import segment_attribute
from tilewright.ir.types import Type
from tilewright.semantics.active import active

Attributes = dict[str, Attribute]


def emit_named(
    name: str, operands: Mapping[str, Any], results: Sequence[Type] = (), attributes: Attributes | None = None
) -> list[Value]:
    """Emit an op.

    Args:
        name: its kind.
        operands: values (or sequences of them) by name; None and names that are missing stand for nothing.
        results: their types.
        attributes: of the op.

    Returns:
        its results.
    """
    names = OPS[name].operand_names
    groups = [_handles(operands.get(operand.rstrip("?*"))) for operand in names]
    given: Attributes = {**(attributes or {}), **segment_attribute(names, [len(group) for group in groups])}
    return active().emit(name, [value for group in groups for value in group], results, given)


def _handles(values: Any) -> list[Value]:
    if values is None:
        return []
    return [value.handle for value in values] if isinstance(values, (list, tuple)) else [values.handle]
