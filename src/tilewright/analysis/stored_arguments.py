"""Which arguments of a kernel it stores through.

    tt.func @k(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) { … tt.store %p, %v … }      %p comes from %out: {1}

An address flows from an argument through every op but loads to its results, and through loops and branches; what flows
into a store or an atomic marks the argument. So the answer may name too many arguments, never too few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product

from tilewright.ir.attributes import Attribute, Symbol
from tilewright.ir.core import Op, Value
from tilewright.ir.types import PointerType

STORES = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas"})
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
    symbol = call.attributes["callee"]
    assert isinstance(symbol, Symbol), "a call names its callee"
    callee = functions[symbol.name]
    if callee in callers or not callee.regions[0].blocks:
        return call.operands
    stored = _stored(callee, functions, callers)
    return [v for i, v in enumerate(call.operands) if i in stored or not isinstance(v.type, PointerType)]


def pointer_origins(function: Op) -> dict[Value, set[int]]:
    """For each value of `function` the pointer arguments that it may be an address from."""
    origins: dict[Value, set[int]] = defaultdict(set)
    for argument in function.regions[0].block.args:
        if isinstance(argument.type, PointerType):
            origins[argument].add(argument.index)
    while _flow(function, origins):
        pass
    return origins


def _is_public(function: Op) -> bool:
    return function.attributes.get("sym_visibility", "public") == "public"


def _flow(function: Op, origins: dict[Value, set[int]]) -> bool:
    """One round of propagation; whether it found anything new."""
    changed = False
    for op in function.walk():
        if op.name in ENDS:
            continue
        for source, target in _edges(op):
            if source in origins and not origins[source] <= origins[target]:
                origins[target] |= origins[source]
                changed = True
    return changed


def _edges(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of an operand and a value that it may turn up in."""
    parent = op.parent
    if op.name == "scf.for":
        yield from zip(op.operands[3:], op.regions[0].block.args[1:], strict=True)
        yield from zip(op.operands[3:], op.results, strict=True)
    elif op.name == "scf.while":
        yield from zip(op.operands, op.regions[0].block.args, strict=True)
    elif op.name == "scf.condition" and parent is not None:
        yield from zip(op.operands[1:], parent.results, strict=True)
        yield from zip(op.operands[1:], parent.regions[1].block.args, strict=True)
    elif op.name == "scf.yield" and parent is not None:
        yield from _yield_edges(op, parent)
    else:
        inner = [argument for region in op.regions for block in region.blocks[:1] for argument in block.args]
        after = [argument for block in op.successors for argument in block.args]
        yield from product(op.operands, [*op.results, *inner, *after])


def _yield_edges(op: Op, parent: Op) -> Iterator[tuple[Value, Value]]:
    if parent.name == "scf.while":
        yield from zip(op.operands, parent.regions[0].block.args, strict=True)
        return
    yield from zip(op.operands, parent.results, strict=True)
    if parent.name == "scf.for":
        yield from zip(op.operands, parent.regions[0].block.args[1:], strict=True)
