"""The eager interpreter as the judge of kernels that share memory: it refuses what is not defined.

    with watched(repeats=False) as memories: kernel[(3,)](…)       # raises Undefined

Not defined is a store two lanes of which put different values at one address, and programs that touch what another
program writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.interpreter import eager
from tilewright.interpreter.machine import Interpreter
from tilewright.interpreter.memory import Memory
from tilewright.ir.core import Op

GRANULE = 8
"""Programs are told apart by so many bytes."""
ORDERED = ("xchg", "cas", "exch")


class Undefined(Exception):
    """The program has no one result."""


class WatchedMemory(Memory):
    """Memory that looks at the addresses of each access.

    Attributes:
        repeats: whether lanes of an atomic may meet, because nobody asks for what was there before.
        touched, written: the granules, per program.
    """

    repeats = True

    def __init__(self, buffers: Any) -> None:
        super().__init__(buffers)
        self.program = (0, 0, 0)
        self.touched: dict[tuple[int, int, int], set[int]] = {}
        self.written: dict[tuple[int, int, int], set[int]] = {}

    def read(self, addresses: Any, dtype: Any, mask: Any, op: Op) -> Any:
        self._enter(self.touched, _active(addresses, mask))
        return super().read(addresses, dtype, mask, op)

    def write(self, addresses: Any, values: Any, mask: Any, op: Op) -> None:
        where = _active(addresses, mask)
        if np.unique(where).size < where.size:
            self._check_equal(where, _active(np.broadcast_to(values, np.shape(addresses)), mask))
        if op.name.startswith("tt.atomic") and np.ndim(addresses) == 0 and op.results[0].type.shape:
            self._check_meeting(op)
        self._enter(self.written, where)
        super().write(addresses, values, mask, op)

    def _enter(self, table: dict[tuple[int, int, int], set[int]], where: Any) -> None:
        table.setdefault(self.program, set()).update((where // GRANULE).tolist())

    def _check_equal(self, where: Any, values: Any) -> None:
        order = np.argsort(where, kind="stable")
        same = np.diff(where[order]) == 0
        bits = np.ascontiguousarray(values[order]).view(f"u{values.dtype.itemsize}")
        if (same & (bits[1:] != bits[:-1])).any():
            raise Undefined("a store puts two values at one address")

    def _check_meeting(self, op: Op) -> None:
        """Lanes of an atomic meet: then their order must not matter."""
        if not self.repeats or any(word in str(op.attributes.get("atomic_rmw_op", "cas")) for word in ORDERED):
            raise Undefined("lanes of an atomic meet")

    def check_apart(self) -> None:
        """No program touches what another one writes."""
        for program, written in self.written.items():
            for other in {*self.written, *self.touched} - {program}:
                if written & (self.touched.get(other, set()) | self.written.get(other, set())):
                    raise Undefined("two programs touch the same memory")


def _active(values: Any, mask: Any) -> Any:
    flat = np.asarray(values).reshape(-1)
    return flat if mask is None else flat[np.broadcast_to(mask, np.shape(values)).reshape(-1)]


@contextmanager
def watched(*, repeats: bool) -> Iterator[None]:
    """The interpreter looks at all that kernels touch; behind the block programs must have been apart."""
    memories: list[WatchedMemory] = []

    def memory_of(buffers: Any) -> WatchedMemory:
        memories.append(WatchedMemory(buffers))
        memories[-1].repeats = repeats
        return memories[-1]

    def machine_of(memory: WatchedMemory, *, program: Any, grid: Any, functions: Any) -> Interpreter:
        memory.program = program
        return Interpreter(memory, program=program, grid=grid, functions=functions)

    before = eager.Memory, eager.Interpreter
    eager.Memory, eager.Interpreter = memory_of, machine_of
    try:
        yield
    finally:
        eager.Memory, eager.Interpreter = before
    for memory in memories:
        memory.check_apart()
