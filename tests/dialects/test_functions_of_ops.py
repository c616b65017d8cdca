"""Tables from names of ops to functions: each function takes ops of the class that these names have.

The tables cannot say so in their own types, which hold functions of ops of any class.
"""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest

from tilewright.backends.cpu import affine, strides
from tilewright.backends.cpu.emit_function import FunctionEmitter
from tilewright.backends.cpu.emit_scalars import SCALARS
from tilewright.backends.cpu.nest import evaluate, moves, sinks
from tilewright.backends.llvm import elementwise
from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.nvidia.lower import tables
from tilewright.interpreter import run_ir
from tilewright.interpreter.machine import EXECUTORS
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS

assert run_ir  # its import enters the executors
TABLES: dict[str, dict[str, Callable[..., Any]]] = {
    "executors": EXECUTORS,
    "LLVM": elementwise.LOWERINGS,
    "NVIDIA": tables.LOWERINGS,
    "NVIDIA rules": tables.RULES,
    "addresses": {**affine._KEEPS_LINES, **strides._RULES},
    "functions": FunctionEmitter.OWN,
    "lanes": evaluate.RULES,
    "loops": LoopEmitter.TABLE,
    "moves": moves.MOVES,
    "moved indices": moves._INDICES,
    "sinks": sinks.PREPARE,
    "scalars": SCALARS,
}


def _accepted(function: Callable[..., Any]) -> tuple[type, ...]:
    """The classes of ops that the function takes, by its annotation; a lambda, which has none, takes any."""
    hints = [hint for name, hint in get_type_hints(function).items() if name in ("op", "sink", "cast")]
    annotation = hints[0] if hints or function.__name__ != "<lambda>" else Op
    return get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)


@pytest.mark.parametrize(
    ("table", "name"),
    [pytest.param(table, name, id=f"{table}-{name}") for table in TABLES for name in TABLES[table] if name in OPS],
)
def test_a_function_takes_the_ops_that_it_gets(table: str, name: str) -> None:
    assert issubclass(OPS[name].kind or Op, _accepted(TABLES[table][name]))
