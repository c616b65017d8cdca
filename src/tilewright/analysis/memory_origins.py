"""Origins of addresses in global memory, and the accesses of a loop that may overlap.

    scf.for %i … {
      %x = tt.load %p       %p = tt.addptr %a, %i               from %a
      tt.store %q, %x       %q = tt.addptr %a, (%i + 1)         from %a: the load of the next step may read it
      tt.store %r, %x       %r = tt.addptr %out, %i             from %out
    }

The origins of an address are the arguments of its function that are pointers or descriptors, loaded pointers, and
integers that were cast to pointers. Addresses with a common origin may overlap. Those of different origins are assumed
to be disjoint, as in Triton: a pipelined loop loads ahead of what it stores through another argument.

    %s = tt.load %t            %q = tt.int_to_ptr %s         from the pointers in %table
    %d = tt.load %u            %r = tt.int_to_ptr %d         from the pointers in %table, too: they may be equal
                               %t, %u = tt.addptr %table, …

All pointers loaded from memory of one origin are one further origin. Pointers loaded from their memory in turn have the
same origin, as the nodes of a linked list do. Those of two tables are assumed to be different, as two arguments are. A
loaded pointer may equal any argument, though, and so may what a function returns:

    %q = tt.int_to_ptr %s  tt.store %q, %x : f32             may be read by: tt.load %p : f32
                                                             not by: tt.load %t : i64, an entry of a table

Stores through it are assumed not to write tables of pointers, unless what they store has the type of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from tilewright.analysis.value_flow import Edge, flow_edges, propagate
from tilewright.dialects.traits import Atomic, PointerAccess, WritesMemory
from tilewright.dialects.tt_descriptors import DescriptorAccess, DescriptorRead
from tilewright.dialects.tt_elementwise import InlineAsm
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_memory import IntToPtr, Load
from tilewright.dialects.ttg_async import AsyncCopyGlobalToLocal
from tilewright.dialects.ttng_descriptors import (
    AsyncTmaCopyGlobalToLocal,
    AsyncTmaGather,
    DescriptorCopy,
    DescriptorCopyOut,
)
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.types import PointerType, TensorDescType, TensorType, Type, i64

READS = (Load, DescriptorRead, AsyncCopyGlobalToLocal, AsyncTmaCopyGlobalToLocal, AsyncTmaGather)
"""Ops that read global memory."""
WRITES = (WritesMemory, DescriptorCopyOut)
"""Ops that write it."""
ANYTHING = (Call, InlineAsm)
"""Ops that may read and write it wherever their operands lead to."""


class Origin(NamedTuple):
    """Where addresses come from: a value, or any that was loaded from where that value leads to."""

    value: Value
    is_loaded: bool = False

    def may_equal(self, other: Origin) -> bool:
        """Whether an address from here may be one from there; two arguments are different."""
        return self == other or self.is_loaded != other.is_loaded


Origins = dict[Value, set[Origin]]


class GlobalAccess(NamedTuple):
    """An op that reads or writes global memory, and where its addresses come from (empty if unknown)."""

    op: Op
    origins: frozenset[Origin]
    writes: bool

    def may_meet(self, other: GlobalAccess) -> bool:
        """Whether one of the two writes what the other may access."""
        if not (self.writes or other.writes):
            return False
        if not (self.origins and other.origins) or not self.origins.isdisjoint(other.origins):
            return True
        if {_may_hold_pointers(self.op), _may_hold_pointers(other.op)} == {True, False}:
            return False
        return any(one.may_equal(two) for one in self.origins for two in other.origins)


def global_accesses(loop: Op) -> list[GlobalAccess]:
    """The accesses of `loop` to global memory in their order, if it writes there at all."""
    ops = [op for op in loop.walk() if isinstance(op, (*READS, *WRITES)) or _may_do_anything(op)]
    if all(isinstance(op, READS) for op in ops):
        return []
    origins = address_origins(loop)
    found = (GlobalAccess(op, _origins(op, origins), not isinstance(op, READS)) for op in ops)
    return [access for access in found if access.origins or not _may_do_anything(access.op)]


def _may_do_anything(op: Op) -> bool:
    return isinstance(op, ANYTHING) and not is_pure(op)


def _may_hold_pointers(op: Op) -> bool | None:
    """Whether the memory that `op` accesses has elements that pointers are loaded from; None if that is not known."""
    if _may_do_anything(op):
        return None
    (type,) = (address.type for address in _addresses(op))
    pointer = type.element if isinstance(type, TensorType) else type
    element = pointer.block.element if isinstance(pointer, TensorDescType) else cast(PointerType, pointer).pointee
    return isinstance(element, PointerType) or element == i64


def _origins(op: Op, origins: Mapping[Value, set[Origin]]) -> frozenset[Origin]:
    """Where the addresses that `op` accesses come from."""
    return frozenset[Origin]().union(*(origins.get(value, ()) for value in _addresses(op)))


def reads_what_is_written(loop: Op) -> set[Op]:
    """The ops of `loop` that read what a step of it may have written, or another program before an atomic op."""
    return {read for read, _ in reads_after_writes(loop)}


def reads_after_writes(loop: Op) -> list[tuple[Op, Op]]:
    """The ops of `loop` that read memory, each with those that may write there, and with atomic ops that acquire."""
    accesses = global_accesses(loop)
    writes = [access for access in accesses if access.writes]
    reads = [access for access in accesses if not access.writes]
    pairs = ((read, write) for read in reads for write in writes)
    return [(read.op, write.op) for read, write in pairs if _acquires(write.op) or read.may_meet(write)]


def address_origins(op: Op) -> Origins:
    """Where each value of the function around `op` may be an address from."""
    while op.parent is not None and op.parent.parent is not None:
        op = op.parent
    arguments = op.regions[0].block.args
    start = {value: {Origin(value)} for value in arguments if _is_address(value.type)}
    numbers = {value: {Origin(value)} for value in arguments if not _is_address(value.type)}
    ops = [inner for inner in op.walk() if not isinstance(inner, (*READS, *WRITES))]
    sources = [inner for inner in op.walk() if isinstance(inner, (*READS, Atomic, IntToPtr, Call))]
    found = propagate(ops, start)
    if not any(_is_address(value.type) for source in sources for value in source.results):
        return found
    may_be_new = False
    while True:
        of_numbers = propagate(ops, numbers, _edges_of_numbers)
        changed = _add_sources(sources, found, of_numbers, start, numbers, may_be_new=may_be_new)
        if may_be_new and not changed:
            return found
        may_be_new = not changed
        found = propagate(ops, start)


def _add_sources(
    sources: Sequence[Op], addresses: Origins, found: Origins, start: Origins, numbers: Origins, *, may_be_new: bool
) -> bool:
    """Add the origins of what `sources` give to `start`, or to `numbers` if it is none; whether any is new.

    Args:
        sources: ops that load, and those that make addresses of numbers.
        addresses, found: the origins of all addresses and numbers, as far as they are known.
        start, numbers: those that are not what an op makes of others.
        may_be_new: what has no origin by now is one of its own.
    """
    changed = False
    for op in sources:
        read = [addresses.get(operand, set()) for operand in op.operands if _is_address(operand.type)]
        if isinstance(op, Call):
            read += [found.get(operand, set()) for operand in op.operands]
        origins = {Origin(origin.value, is_loaded=True) for known in read for origin in known}
        if isinstance(op, IntToPtr):
            origins = found.get(op.operand, set()) | addresses.get(op.operand, set())
        for value in op.results:
            known = (start if _is_address(value.type) else numbers).setdefault(value, set())
            added = origins or ({Origin(value, is_loaded=True)} if may_be_new else set())
            changed |= not added <= known
            known |= added
    return changed


def _edges_of_numbers(op: Op) -> Iterator[Edge]:
    """The ways of numbers that may become addresses, but not as distances from others."""
    return (edge for edge in flow_edges(op) if not any(_is_address(value.type) for value in edge))


def _is_address(type: Type) -> bool:
    element = type.element if isinstance(type, TensorType) else type
    return isinstance(element, (PointerType, TensorDescType))


def _addresses(op: Op) -> list[Value]:
    if _may_do_anything(op):
        return op.operands
    return [op.descriptor if isinstance(op, (DescriptorAccess, DescriptorCopy)) else cast(PointerAccess, op).pointer]


def _acquires(op: Op) -> bool:
    """Whether the result of `op` may show a program that another program has written before."""
    return isinstance(op, Atomic) and op.sem in ("acquire", "acq_rel") and any(value.uses for value in op.results)
