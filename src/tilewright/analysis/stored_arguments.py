"""The arguments of a kernel that it stores through.

    tt.func @k(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) { … tt.store %p, %v … }      %p comes from %out: {1}

An address flows from an argument through every op but loads to its results, and through loops and branches; what flows
into a store or an atomic marks the argument. So the answer may name too many arguments, never too few.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.analysis.value_flow import propagate
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.tt_memory import Load
from tilewright.ir.core import Op, Value
from tilewright.ir.types import PointerType

ENDS = (WritesMemory, Load)
"""Ops whose results are values from memory, not the address."""


def stored_arguments(module: Op) -> set[int]:
    """Indices of the arguments of the module's public function that its stores and atomics may write through.

    A function that calls itself counts as one that stores through all pointers it gets.
    """
    functions = {op.symbol: op for op in module.regions[0].block if isinstance(op, Func)}
    return _stored(next(op for op in functions.values() if op.is_public), functions, ())


def _stored(function: Func, functions: Mapping[str, Func], callers: tuple[Func, ...]) -> set[int]:
    origins = pointer_origins(function)
    found: set[int] = set()
    for op in function.walk():
        written = [op.address] if isinstance(op, WritesMemory) else []
        if isinstance(op, Call):
            written = _stored_by_call(op, functions, (*callers, function))
        found.update(index for value in written for index in origins[value])
    return found


def _stored_by_call(call: Call, functions: Mapping[str, Func], callers: tuple[Func, ...]) -> list[Value]:
    callee = functions[call.callee]
    if callee in callers or not callee.region.blocks:
        return call.arguments
    stored = _stored(callee, functions, callers)
    return [v for i, v in enumerate(call.arguments) if i in stored or not isinstance(v.type, PointerType)]


def pointer_origins(function: Op) -> dict[Value, set[int]]:
    """The pointer arguments that each value of `function` may be an address from."""
    arguments = function.regions[0].block.args
    start = {argument: {argument.index} for argument in arguments if isinstance(argument.type, PointerType)}
    return propagate((op for op in function.walk() if not isinstance(op, ENDS)), start)
