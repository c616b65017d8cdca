"""How ops behave when tiles become loops: which are computed where they are used, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType

INDEXING = {
    "arith.constant",
    "tt.broadcast",
    "tt.cat",
    "tt.expand_dims",
    "tt.join",
    "tt.make_range",
    "tt.reshape",
    "tt.splat",
    "tt.split",
    "tt.trans",
    "ub.poison",
}
"""Ops that only say where an element comes from: no loop is ever made for them."""

POINTERS = {"tt.addptr", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int"}
LOADS = {"tt.load", "cpu.read"}
WHERE = {"cpu.store": (0, 3), "tt.load": (0, 1), "tt.store": (0, 2)}
"""The positions of the pointer and of the mask among the operands of memory ops; atomics may need all of theirs."""

ROOTS = {
    "cpu.store",
    "cpu.write",
    "tt.atomic_cas",
    "tt.atomic_rmw",
    "tt.histogram",
    "tt.reduce",
    "tt.scan",
    "tt.store",
}
"""Ops that need every element of their operands, so that a loop nest is made for them."""

STORES = {"cpu.store", "tt.store"}
ATOMICS = {"tt.atomic_rmw", "tt.atomic_cas", "tt.histogram"}
CLOBBERS = {"cpu.store", "tt.atomic_cas", "tt.atomic_rmw", "tt.store"}
"""Roots that change global memory."""

EXPENSIVE = 8
"""From this cost on, a value that is needed twice is kept in scratch. A scratch round trip costs about as much."""

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


def cost(op: Op) -> int:
    """About how many vector instructions one vector of the op's result takes, operands not counted."""
    if op.name in INDEXING or op.name == "tt.addptr":
        return 0
    return _COST.get(op.name, 12 if op.name.startswith("math.") else 1)


def is_tile(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def touches_tiles(op: Op) -> bool:
    return any(is_tile(v) for v in op.operands) or any(is_tile(v) for v in op.results)


def is_lazy(op: Op) -> bool:
    """A tile op that is computed element by element where its result is used."""
    name = op.name
    return name in INDEXING or name in POINTERS or name in LOADS or op.definition.elementwise or name == "tt.gather"


def makers(value: Value) -> Iterator[Op]:
    """The ops that the tile `value` is computed from, each once."""
    stack, seen = [value], set[Op]()
    while stack:
        op = stack.pop().op
        if op is not None and op not in seen:
            seen.add(op)
            yield op
            stack.extend(v for v in op.operands if is_tile(v))


def where_of(op: Op) -> list[Value]:
    """The operands that say where a memory op touches memory: the pointer, and the mask if there is one."""
    count = len(op.operands)
    return [op.operands[at] for at in WHERE.get(op.name, range(count)) if at < count]


def tile_operand(root: Op) -> Value:
    """The operand whose elements `root` runs over."""
    return root.operands[1] if root.name in STORES else root.operands[0]
