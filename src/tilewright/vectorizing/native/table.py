"""Access to the TABLE from native code."""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import Function
from tilewright.vectorizing.native.structs import TABLE


def table_of(f: Function) -> Lanes:
    """The address of the TABLE."""
    return f.emit("ptr", "load ptr, ptr @runtime, align 8")


def outside(f: Function, name: str) -> Lanes:
    """The address of a function (or object) of Python, NumPy or the C library."""
    return f.get(TABLE, table_of(f), name)
