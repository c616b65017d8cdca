"""Stores to rows at arbitrary addresses with non-contiguous columns run along columns: such rows often are contiguous.

    "cpu.nest"() <{outer = array<i64: 128>}> ({        "cpu.nest"() <{outer = array<i64: 32>}> ({
      tt.store %p, %x, %mask                       →     tt.store (tt.trans %p), (tt.trans %x), (tt.trans %mask)
    })                                                 })

The pixels of a convolution's result are rows, its features columns, an image apart. Row by row, each element would go
to another cache line, and to one set of the L1 cache if an image is 4096 bytes. Along columns, pixels that turn out to
be contiguous are stored as one vector (`is_often_contiguous` in `nest/loads.py`).
"""

from __future__ import annotations

from functools import partial, reduce

from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.costs import SINKS, conjuncts, lazy_closure
from tilewright.backends.cpu.strides import steps_along
from tilewright.dialects.cpu import Nest, Read, Write
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType, i1, i32, i64
from tilewright.transforms.op_builder import OpBuilder

MIN_ROWS = 8
"""Min rows for which a vector along a column pays off."""


def store_columns(module: Op) -> bool:
    """Interchange the nests of `module` (ttcir) whose stores run along columns; returns whether there is one."""
    nests = [op for op in module.ops_of(Nest) if not op.optimize_size]
    stores = [store for nest in nests if (store := _only_store(nest)) is not None and _goes_along_columns(store)]
    for store in stores:
        _transpose(store)
    return bool(stores)


def _only_store(nest: Nest) -> Store | None:
    """The store of a nest of rows that does nothing else."""
    sinks = nest.body.ops_of(SINKS)
    store = sinks[0] if len(sinks) == 1 else None
    return store if isinstance(store, Store) and nest.mode == "rows" and len(nest.outer) == 1 else None


def _goes_along_columns(store: Store) -> bool:
    """Whether rows lie anywhere, as is computed and not loaded, and columns at one distance that is not 1."""
    pointer, shape = store.pointer, store.pointer.type.shape or ()
    if len(shape) != 2 or shape[0] < MIN_ROWS or shape[1] == 1 or is_affine(pointer):
        return False
    steps = steps_along(pointer)
    is_apart = steps.get(1) not in (0, 1, None) and steps.get(0, 0) in (1, None)
    return is_apart and not _is_loaded(pointer)


def _is_loaded(value: Value) -> bool:
    """Whether `value` depends on a load, possibly through buffers."""
    stack, seen = [value], set[Value]()
    while stack:
        for op in lazy_closure(stack.pop()):
            if isinstance(op, Load):
                return True
            if isinstance(op, Read) and op.buffer not in seen:
                seen.add(op.buffer)
                stack.extend(user.value for user in op.buffer.uses if isinstance(user, Write))
    return False


def _transpose(store: Store) -> None:
    """Let the nest of `store` run over its columns, and store rows of each."""
    nest, (rows, columns) = store.parent, store.pointer.type.shape or (1, 1)
    assert nest is not None, "it stands in a nest"
    at = OpBuilder(store)

    def turned(value: Value) -> Value:
        height, width = value.type.shape or (1, 1)
        type = TensorType((width, height), value.type.scalar)
        return at.emit("tt.trans", (value,), type, {"order": DenseArray(i32, (1, 0))})

    def whole(condition: Value) -> Value:
        type = TensorType((columns, rows), i1)
        return condition if condition.type is type else at.emit("tt.broadcast", (condition,), type)

    # condition by condition, so that each shows which rows or columns it ends
    conditions = [whole(turned(part)) for part in conjuncts(store.mask)] if store.mask is not None else []
    mask = [reduce(partial(at.compute, "arith.andi"), conditions)] if conditions else []
    store.set_operands([turned(store.pointer), turned(store.value), *mask])
    nest.attributes["outer"] = DenseArray(i64, (columns,))
