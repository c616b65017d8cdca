"""The costs of ops when tiles become loops, and which ops are computed where they are used."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.value_flow import backward_slice
from tilewright.dialects.cpu import Accumulate, GuardedStore, Read, Write
from tilewright.dialects.traits import Atomic, Indexing
from tilewright.dialects.tt_memory import AddPtr, Load, Store
from tilewright.dialects.tt_reduce import Fold
from tilewright.dialects.tt_shape import Broadcast, Gather, Histogram
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OPS, classes_of
from tilewright.ir.types import TensorType

LOADS = (Load, Read)
STORES = (Store, GuardedStore)
ACCESSES = (Load, Store, GuardedStore)
"""Loads and stores, whose address and mask say where they touch memory; an atomic may need all of its operands."""
ATOMICS = (Atomic, Histogram)
SINKS = (Fold, *STORES, Write, *ATOMICS)
"""Ops that need every element of their operands, so that a loop nest is made for them."""

EXPENSIVE = 8
"""Least cost at which a value that is needed twice is kept in scratch. A scratch round trip costs about as much."""

_COST = {
    "arith.divf": 6,
    "arith.divsi": 10,
    "arith.divui": 10,
    "arith.remsi": 10,
    "arith.remui": 10,
    "arith.remf": 20,
    "math.absf": 1,
    "math.fma": 1,
    "math.floor": 1,
    "math.ceil": 1,
    "tt.extern_elementwise": 20,
    "tt.load": 2,
    "cpu.read": 1,
    "tt.mulhiui": 3,
}


def is_sink(op: Op) -> bool:
    """Whether `op` is of a class of `SINKS`: asking for each class in turn takes ten times as long."""
    return type(op) in classes_of(SINKS, len(OPS))


def cost(op: Op) -> int:
    """The approximate number of vector instructions for one vector of the op's result, operands not counted."""
    if isinstance(op, (Indexing, AddPtr)):
        return 0
    return _COST.get(op.name, 12 if op.name.startswith("math.") else 1)


def is_tile(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def touches_tiles(op: Op) -> bool:
    if op.results and isinstance(op.results[0].type, TensorType):  # nearly always: it is asked 500 times for a product
        return True
    return any(isinstance(value.type, TensorType) for value in (*op.results, *op.operands))


_LAZY: dict[str, bool] = {}
"""Whether ops are lazy, by their names: a cache, since it is looked up dozens of times for each op."""


def is_lazy_tile(op: Op) -> bool:
    """Whether `op` touches tiles and is computed element by element where its result is used."""
    is_lazy = _LAZY.get(op.name)
    if is_lazy is None:
        is_lazy = _LAZY[op.name] = op.definition.elementwise or isinstance(op, (Indexing, Load, Read, Gather))
    return is_lazy and isinstance(op.results[0].type, TensorType)


def lazy_closure(value: Value) -> list[Op]:
    """The lazy ops that compute `value` from buffers, memory and scalars, users first."""
    seen: dict[Op, None] = {}
    stack = [value]
    while stack:
        op = stack.pop().op
        if op is not None and op not in seen and is_lazy_tile(op):
            seen[op] = None
            stack.extend(op.operands)
    return list(seen)


def weight(value: Value) -> float:
    """The cost of computing an element of `value` where it is used, down to buffers and memory.

    An op per row or column counts as often as it is computed.
    """
    elements = _elements_of(value)
    return sum(cost(op) * min(1.0, _elements_of(op.results[0]) / elements) for op in lazy_closure(value))


def _elements_of(value: Value) -> int:
    return value.type.numel if isinstance(value.type, TensorType) else 1


def inputs(op: Op) -> list[Value]:
    """The values that `op` is computed from: its operands, and those that the body of a cpu.accumulate uses."""
    return [*op.operands, *op.captured] if isinstance(op, Accumulate) else op.operands


def makers(value: Value) -> dict[Op, None]:
    """The ops with tiles as results that the tile `value` is computed from."""
    return backward_slice(value, lambda op: any(map(is_tile, op.results)))


def conjuncts(mask: Value) -> Iterator[Value]:
    """The conditions whose conjunction `mask` is, as tiles of the mask's rank, each once."""
    stack, seen = [mask], set[Value]()
    while stack:
        part = stack.pop()
        if part in seen:
            continue
        seen.add(part)
        op = part.op
        if op is not None and is_tile(part) and (op.name == "arith.andi" or isinstance(op, Broadcast)):
            stack.extend(reversed(op.operands))
        else:
            yield part


def where_of(op: Op) -> list[Value]:
    """The operands that say where a memory op touches memory: the pointer, and the mask if there is one."""
    if not isinstance(op, ACCESSES):
        return list(op.operands)
    return [op.pointer] if op.mask is None else [op.pointer, op.mask]


def tile_operand(sink: Op) -> Value:
    """The operand whose elements `sink` runs over; for a cpu.accumulate, a result."""
    if isinstance(sink, Accumulate):
        return next(filter(is_tile, sink.results))
    first, *_ = sink.operands
    return sink.value if isinstance(sink, STORES) else first
