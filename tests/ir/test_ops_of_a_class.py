"""The ops of a class are found wherever they stand, and in the order of a walk."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.dialects.builtin import Module
from tilewright.dialects.traits import ControlFlow
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

MODULE = parse_module((Path(__file__).parent / "every_op.ttir").read_text())


@pytest.mark.parametrize("kind", [Op, Module, ControlFlow, (Load, Store)], ids=str)
def test_order_is_that_of_a_walk(kind: type[Op] | tuple[type[Op], ...]) -> None:
    found = MODULE.ops_of(kind)
    assert found
    assert found == [op for op in MODULE.walk() if isinstance(op, kind)]


def test_an_op_is_among_its_own() -> None:
    loop = MODULE.ops_of(ControlFlow)[0]
    assert loop.ops_of(ControlFlow)[0] is loop
    assert loop.ops_of(Module) == []
