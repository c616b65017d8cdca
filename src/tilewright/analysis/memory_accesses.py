"""The accesses to memory of a function in program order: where each element is touched, on which lanes, how.

    %p = tt.addptr %x, %pid · 64 + range ; tt.store %p, %v, %p < %n      base %x, x + 256·pid + 4·i0, 4 bytes, writes
    tt.load (tt.addptr %x, loaded indices)                               base %x, x + 4·indices: each lane has its own
    cpu.write %v, %buffer                                                base %buffer, buffer + 4·i0, writes
    tt.call @f(%x)                                                       no address: it may touch anything

Invariants: every op that touches memory is there; an address equals its form modulo `address.modulus` (0: 2^64); lanes
that the mask leaves out touch nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.analysis.index_tables import Shape, Table, uniform
from tilewright.analysis.integer_forms import Form, Symbol, form_text
from tilewright.analysis.lane_masks import ALL, Mask, mask_of
from tilewright.analysis.value_forms import ValueForms, is_integral, size_of
from tilewright.dialects.cpu import Alloc, CpuDot, GuardedStore, Read, Write, tile_of
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect
from tilewright.ir.effects import effect_of
from tilewright.ir.types import PointerType

MASKED = (Load, Store, GuardedStore, AtomicRmw)


class MemoryAccess(NamedTuple):
    """What one op does to memory.

    Attributes:
        op: the op.
        base: the argument or the allocation that the address hangs on; None if it is not known, or several.
        address: the address of each lane, in bytes; None if nothing is known.
        mask: which lanes are active.
        size: bytes of one element.
        reads, writes: what it does.
    """

    op: Op
    base: Value | None
    address: Form | None
    mask: Mask
    size: int
    reads: bool
    writes: bool

    @property
    def shape(self) -> Shape:
        """The shape of the tile whose elements are touched."""
        return () if self.address is None else self.address.shape

    @property
    def is_private(self) -> bool:
        """Whether the base is memory that no other base leads to."""
        return self.base is not None and isinstance(self.base.op, Alloc)

    @property
    def text(self) -> str:
        """One line for people and tests."""
        does = "reads" if self.reads else ""
        does += " and " * (self.reads and self.writes) + "writes" * self.writes
        if self.address is None:
            return f"{self.op.name} {does} anything"
        shape = "x".join(map(str, self.shape)) or "one"
        return f"{self.op.name} {does} {shape} of {self.size} bytes at {form_text(self.address)}{_mask_text(self.mask)}"


def memory_accesses(function: Op, forms: ValueForms | None = None) -> list[MemoryAccess]:
    """The accesses of `function` in program order, those of the ops inside of it included."""
    known = ValueForms() if forms is None else forms
    return [access for op in function.walk() if op is not function for access in accesses_of(op, known)]


def accesses_of(op: Op, forms: ValueForms) -> list[MemoryAccess]:
    """What `op` itself does to memory. What its regions do is up to the ops in them."""
    effect = effect_of(op) if op.definition.effect is not Effect.RECURSIVE else Effect.NONE
    if effect in (Effect.NONE, Effect.ALLOCATE) or isinstance(op, Alloc):
        return []
    reads = effect in (Effect.READ, Effect.READ_WRITE, Effect.UNKNOWN)
    writes = effect in (Effect.WRITE, Effect.READ_WRITE, Effect.UNKNOWN)
    if isinstance(op, CpuDot):
        buffers = ((op.a, False), (op.b, False), (op.accumulator, True))
        return [_of_buffer(op, buffer, forms, reads=True, writes=changes) for buffer, changes in buffers]
    if isinstance(op, (Read, Write)):
        return [_of_buffer(op, op.buffer, forms, reads=reads, writes=writes)]
    if isinstance(op, PointerAccess) and is_integral(op.pointer):
        address = forms.of(op.pointer)
        mask = mask_of(forms, op.mask) if isinstance(op, MASKED) else ALL
        return [MemoryAccess(op, _base_of(address), address, mask, size_of(op.pointer), reads, writes)]
    return [MemoryAccess(op, None, None, ALL, 1, reads, writes)]


def _of_buffer(op: Op, buffer: Value, forms: ValueForms, *, reads: bool, writes: bool) -> MemoryAccess:
    """An access to a buffer: to all elements, which lie in row-major order, or to the row that a nest works on."""
    tile = tile_of(buffer.type)
    size = max(1, tile.element.bits // 8)
    address, step = forms.symbol(buffer)._replace(shape=tile.shape), size
    if isinstance(op, (Read, Write)) and op.row:
        return MemoryAccess(op, buffer, None, ALL, size, reads, writes)
    (monomial,) = address.terms
    steps = list[int]()
    for extent in reversed(tile.shape):
        steps.insert(0, step if extent > 1 else 0)
        step *= extent
    terms = {monomial: uniform(1, tile.shape)} | ({(): Table(tile.shape, 0, tuple(steps))} if any(steps) else {})
    return MemoryAccess(op, buffer, address._replace(terms=terms), ALL, size, reads, writes)


def _base_of(address: Form) -> Value | None:
    """The pointer that the address hangs on, if it is one, and counted once on each lane."""
    found: Value | None = None
    for monomial, table in address.terms.items():
        pointers = [symbol for symbol in monomial if is_pointer(symbol)]
        if not pointers:
            continue
        source = pointers[0].source
        is_plain = len(monomial) == 1 and table.is_uniform and table.first == 1 and not pointers[0].is_lane
        if found is not None or not is_plain or not isinstance(source, Value):
            return None
        found = source
    return found


def is_pointer(symbol: Symbol) -> bool:
    """Whether a symbol is an address, or a tile of them."""
    return isinstance(symbol.source, Value) and isinstance(symbol.source.type.scalar, PointerType)


def _mask_text(mask: Mask) -> str:
    """` where …`, if not all lanes are active."""
    words = [f"{form_text(form)} >= 0" for form in mask.bounds]
    words += [] if mask.on is None else [f"{int(np.count_nonzero(mask.on))} lanes of {mask.on.size}"]
    if not (words or mask.is_exact):
        words = ["something"]
    return f" where {' and '.join(words)}" if words else ""
