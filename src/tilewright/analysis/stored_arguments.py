"""Which arguments of a kernel it stores through.

    tt.func @k(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) { … tt.store %p, %v … }      %p comes from %out: {1}

An address flows from an argument through every op but loads to its results, and through loops and branches; what flows
into a store or an atomic marks the argument. So the answer may name too many arguments, never too few.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.analysis.value_flow import propagate
from tilewright.dialects.tt_function import callee_of
from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Op, Value
from tilewright.ir.types import PointerType

STORES = frozenset(
    {
        *("tt.store", "tt.atomic_rmw", "tt.atomic_cas"),
        *("tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter"),
    }
)
ENDS = STORES | {"tt.load"}
"""What they give is a value from memory, not the address."""


def stored_arguments(module: Op) -> set[int]:
    """Indices of the arguments of the module's public function that its stores and atomics may write through.

    A function that calls itself counts as one that stores through all pointers it gets.
    """
    functions = {op.attributes["sym_name"]: op for op in module.regions[0].block if op.name == "tt.func"}
    return _stored(next(op for op in functions.values() if _is_public(op)), functions, ())


def _stored(function: Op, functions: Mapping[Attribute, Op], callers: tuple[Op, ...]) -> set[int]:
    origins = pointer_origins(function)
    found: set[int] = set()
    for op in function.walk():
        written = op.operands[:1] if op.name in STORES else []
        if op.name == "tt.call":
            written = _stored_by_call(op, functions, (*callers, function))
        found.update(index for value in written for index in origins[value])
    return found


def _stored_by_call(call: Op, functions: Mapping[Attribute, Op], callers: tuple[Op, ...]) -> list[Value]:
    callee = functions[callee_of(call)]
    if callee in callers or not callee.regions[0].blocks:
        return call.operands
    stored = _stored(callee, functions, callers)
    return [v for i, v in enumerate(call.operands) if i in stored or not isinstance(v.type, PointerType)]


def pointer_origins(function: Op) -> dict[Value, set[int]]:
    """For each value of `function` the pointer arguments that it may be an address from."""
    arguments = function.regions[0].block.args
    start = {argument: {argument.index} for argument in arguments if isinstance(argument.type, PointerType)}
    return propagate((op for op in function.walk() if op.name not in ENDS), start)


def _is_public(function: Op) -> bool:
    return function.attributes.get("sym_visibility", "public") == "public"
