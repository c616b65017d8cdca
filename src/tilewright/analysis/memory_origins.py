"""Origins of addresses in global memory, and the accesses of a loop that may meet there.

    scf.for %i … {
      %x = tt.load %p       %p = tt.addptr %a, %i               from %a
      tt.store %q, %x       %q = tt.addptr %a, (%i + 1)         from %a: the load of the next step may read it
      tt.store %r, %x       %r = tt.addptr %out, %i             from %out
    }

An address comes from the arguments of its function that are pointers or descriptors, from pointers that were loaded,
and from numbers that became pointers. Addresses with one origin may meet. Those of different origins are taken to be
apart, as Triton takes them: a pipelined loop loads ahead of what it stores through another argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from tilewright.analysis.value_flow import propagate
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
from tilewright.ir.types import PointerType, TensorDescType, TensorType, Type

READS = (Load, DescriptorRead, AsyncCopyGlobalToLocal, AsyncTmaCopyGlobalToLocal, AsyncTmaGather)
"""Ops that read global memory."""
WRITES = (WritesMemory, DescriptorCopyOut)
"""Ops that write it."""
ANYTHING = (Call, InlineAsm)
"""Ops that may read and write it wherever their operands lead to."""


class GlobalAccess(NamedTuple):
    """An op that reads or writes global memory, and where its addresses come from; nothing: it is not known."""

    op: Op
    origins: frozenset[Value]
    writes: bool

    def may_meet(self, other: GlobalAccess) -> bool:
        """Whether one of the two writes what the other may access."""
        is_known = bool(self.origins) and bool(other.origins)
        return (self.writes or other.writes) and not (is_known and self.origins.isdisjoint(other.origins))


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


def _origins(op: Op, origins: Mapping[Value, set[Value]]) -> frozenset[Value]:
    """Where the addresses that `op` accesses come from."""
    return frozenset[Value]().union(*(origins.get(value, ()) for value in _addresses(op)))


def reads_what_is_written(loop: Op) -> set[Op]:
    """The ops of `loop` that read what a step of it may have written, or another program in front of an atomic op."""
    accesses = global_accesses(loop)
    writes = [access for access in accesses if access.writes]
    if any(_acquires(access.op) for access in writes):
        return {access.op for access in accesses if not access.writes}
    reads = (access for access in accesses if not access.writes)
    return {read.op for read in reads if any(read.may_meet(write) for write in writes)}


def address_origins(op: Op) -> dict[Value, set[Value]]:
    """The values that each value of the function around `op` may be an address from."""
    while op.parent is not None and op.parent.parent is not None:
        op = op.parent
    arguments = op.regions[0].block.args
    start = {value: {value} for value in arguments if _is_address(value.type)}
    for pointer in (value for inner in op.walk() for value in _new_pointers(inner)):
        start[pointer] = {pointer}
    return propagate((inner for inner in op.walk() if not isinstance(inner, (*READS, *WRITES))), start)


def _new_pointers(op: Op) -> Iterator[Value]:
    """The results of `op` that are pointers which nothing else in the function has led to."""
    if isinstance(op, (Load, IntToPtr)):
        yield from (value for value in op.results if _is_address(value.type))


def _is_address(type: Type) -> bool:
    element = type.element if isinstance(type, TensorType) else type
    return isinstance(element, (PointerType, TensorDescType))


def _addresses(op: Op) -> list[Value]:
    if _may_do_anything(op):
        return op.operands
    return [op.descriptor if isinstance(op, (DescriptorAccess, DescriptorCopy)) else cast(PointerAccess, op).pointer]


def _acquires(op: Op) -> bool:
    """Whether a program can tell by the result of `op` what another program has written before."""
    return isinstance(op, Atomic) and op.sem in ("acquire", "acq_rel") and any(value.uses for value in op.results)
