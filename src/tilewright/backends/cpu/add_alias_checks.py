"""Stores of a nest that might overlap other memory that the nest accesses get a fall-back buffer.

    cpu.nest { %x = tt.load %p        →    %o = …scalar ops… ; %b = cpu.alloc
               tt.store %q, %x }           cpu.nest(%o) { %x = tt.load %p ; cpu.store %q, %x, %b }

A nest interleaves its loads and stores. Where `analysis/memory_dependences.py` cannot prove that this is right, the
condition under which it is becomes scalar ops. If they find that the tile at %q overlaps the tile at %p without being
the same tile, or that elements of it share an address, the store goes to the buffer, and the buffer is copied to %q
after the nest. A mask that is computed from loads is kept for that copy, too. Two stores may also be in each other's
gaps, as those to the halves of the rows of one array are.
"""

from __future__ import annotations

from tilewright.analysis.guard_conditions import ALWAYS, NEVER, Condition, Connection, either
from tilewright.analysis.memory_accesses import MemoryAccesses
from tilewright.analysis.memory_dependences import Dependence, Guarded, Independent, SameElement, dependence
from tilewright.backends.cpu.alignment import asked_for
from tilewright.backends.cpu.costs import LOADS, SINKS, is_tile, makers
from tilewright.backends.cpu.guard_ops import GuardOps, Known
from tilewright.dialects.cpu import Nest, buffer_type
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.transforms.functions import functions_of


def add_alias_checks(module: Op) -> bool:
    """Guard nests whose stores may disturb other accesses by a condition, and give these stores a buffer.

    Returns whether there is any.
    """
    changed = False
    for function in functions_of(module):
        accesses, known = MemoryAccesses(), dict[Block, Known]()
        for nest in function.ops_of(Nest):
            conditions, stores = _undisturbed(nest, accesses)
            if conditions:
                changed = True
                assert nest.block is not None
                writer = GuardOps(nest, known.setdefault(nest.block, {}))
                nest.set_operands([writer.fails(Connection("and", tuple(conditions)))])
                for store in stores:
                    _guard(store, nest)
    return changed


def _undisturbed(nest: Nest, accesses: MemoryAccesses) -> tuple[list[Condition], list[Store]]:
    """The conditions under which the nest may interleave its accesses, and the stores that may disturb others."""
    conditions, disturbing = list[Condition](), dict[Store, None]()
    ops = [op for op in nest.body.ops() if isinstance(op, (Load, Store)) and is_tile(op.pointer)]
    stores = [op for op in ops if isinstance(op, Store)]
    if not stores or len(ops) == 1:
        return [], []
    elsewhere = _asked_elsewhere(nest)
    places = {op: accesses.of(op) for op in ops}
    for number, store in enumerate(stores):
        for other in (op for op in ops if op not in stores[: number + 1]):
            answer = dependence(places[store], places[other], accesses, gaps=other in stores)
            if not isinstance(answer, Independent):
                disturbing.update((op, None) for op in (store, other) if isinstance(op, Store))
            condition = _condition(answer, may_be_same=other not in elsewhere)
            if condition != ALWAYS:
                conditions.append(condition)
    return conditions, list(disturbing)


def _asked_elsewhere(nest: Nest) -> set[Op]:
    """The ops whose elements are asked for at other indices than those of the loops."""
    sinks = nest.body.ops_of(SINKS)
    return {op for sink in sinks for op, straight in asked_for(sink) if not straight}


def _condition(answer: Dependence, *, may_be_same: bool) -> Condition:
    """The condition under which two accesses that have this to do with each other may share a loop."""
    if isinstance(answer, Guarded):
        return either((answer.apart, answer.same)) if may_be_same else answer.apart
    return ALWAYS if isinstance(answer, Independent) or (may_be_same and isinstance(answer, SameElement)) else NEVER


def _guard(store: Store, nest: Nest) -> None:
    assert store.block is not None
    mask = store.mask
    operands = [store.pointer, store.value, _buffer(store.value, nest)]
    if mask is not None:
        operands.append(mask)
    if mask is not None and _may_change(mask):
        kept = _buffer(mask, nest)
        store.block.insert(Op.create("cpu.write", (mask, kept), location=store.location), store)
        operands.append(kept)
    guarded = Op.create("cpu.store", operands, (), dict(store.attributes), location=store.location)
    store.block.insert(guarded, store)
    store.erase()


def _buffer(value: Value, nest: Nest) -> Value:
    assert nest.block is not None
    alloc = Op.create("cpu.alloc", (), (buffer_type(tile_type(value)),), location=nest.location)
    return nest.block.insert(alloc, nest).result


def _may_change(mask: Value) -> bool:
    """Whether `mask` depends on memory or on a reduction, so that it is not the same any more after the nest."""
    return is_tile(mask) and any(isinstance(op, (*LOADS, *SINKS)) for op in makers(mask))
