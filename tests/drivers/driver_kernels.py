"""Tiny kernels in LLVM text, with the entry point that all kernels have, and a stand-in for JITFunction."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.runtime.drivers.cpu.launcher import Miss, NativeKernel, Specialization, run_grid
from tilewright.runtime.drivers.cpu.records import Parameter, Slot, launch_record
from tilewright.support.executable_memory import map_code

ADD = """
define i64 @kernel(ptr %launch, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %px = getelementptr i8, ptr %launch, i64 24
  %py = getelementptr i8, ptr %launch, i64 32
  %po = getelementptr i8, ptr %launch, i64 40
  %pn = getelementptr i8, ptr %launch, i64 48
  %x = load ptr, ptr %px
  %y = load ptr, ptr %py
  %o = load ptr, ptr %po
  %n = load i64, ptr %pn
  %first = mul i64 %begin, 1024
  %last = mul i64 %end, 1024
  %short = icmp slt i64 %last, %n
  %stop = select i1 %short, i64 %last, i64 %n
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %stop
  br i1 %more, label %body, label %done
body:
  %ax = getelementptr float, ptr %x, i64 %i
  %ay = getelementptr float, ptr %y, i64 %i
  %ao = getelementptr float, ptr %o, i64 %i
  %vx = load float, ptr %ax
  %vy = load float, ptr %ay
  %sum = fadd float %vx, %vy
  store float %sum, ptr %ao
  %next = add i64 %i, 1
  br label %loop
done:
  ret i64 %end
}
"""
"""o[i] = x[i] + y[i] for i < n, 1024 elements per program."""

COUNT = """
define i64 @kernel(ptr %launch, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %pc = getelementptr i8, ptr %launch, i64 24
  %pw = getelementptr i8, ptr %launch, i64 32
  %counts = load ptr, ptr %pc
  %work = load i64, ptr %pw
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %counted ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %spin, label %done
spin:
  %k = phi i64 [ 0, %loop ], [ %k1, %spin ]
  store volatile i64 %i, ptr %scratch
  %seen = load volatile i64, ptr %scratch
  %k1 = add i64 %k, 1
  %again = icmp slt i64 %k1, %work
  br i1 %again, label %spin, label %counted
counted:
  %same = icmp eq i64 %seen, %i
  %one = select i1 %same, i64 1, i64 1000
  %place = getelementptr i64, ptr %counts, i64 %i
  %old = atomicrmw add ptr %place, i64 %one seq_cst
  %next = add i64 %i, 1
  br label %loop
done:
  ret i64 %end
}
"""
"""counts[i] += 1 for every program i, after `work` writes to scratch; += 1000 if another thread wrote there."""

NOTE_CHUNK = """
define i64 @kernel(ptr %launch, i64 %begin, i64 %end, ptr %scratch) {
  %ps = getelementptr i8, ptr %launch, i64 24
  %sizes = load ptr, ptr %ps
  %place = getelementptr i64, ptr %sizes, i64 %begin
  %size = sub i64 %end, %begin
  store i64 %size, ptr %place
  ret i64 %end
}
"""
"""sizes[i] = the number of programs that the thread took which began with program i."""

COPY_SLOTS = """
define i64 @kernel(ptr %launch, i64 %begin, i64 %end, ptr %scratch) {
  %po = getelementptr i8, ptr %launch, i64 24
  %o = load ptr, ptr %po
  %first = load <2 x i64>, ptr %launch, align 8
  store <2 x i64> %first, ptr %o, align 8
  %ps = getelementptr i8, ptr %launch, i64 32
  %slots = load <4 x i64>, ptr %ps, align 8
  %to = getelementptr i8, ptr %o, i64 16
  store <4 x i64> %slots, ptr %to, align 8
  ret i64 %end
}
"""
"""Copies the grid and four slots after the first to the array in the first."""


@cache
def entry(ir: str) -> int:
    blob = link(compile_object(ir, host_target()))
    return map_code(blob.image).address + blob.symbols["kernel"]


class Jit:
    """Compiles nothing: installs one machine code for whatever it is called with, and counts its slow calls."""

    def __init__(self, ir: str, names: str, types: dict[str, str], *, scratch: int = 0, **defaults: Any) -> None:
        self.entry, self.types, self.scratch = entry(ir), types, scratch
        self.names = names.split()
        constants = [name for name in self.names if name not in types]
        self.parameters = [
            Parameter(name, defaults[name], name in constants)
            if name in defaults
            else Parameter(name, is_constant=name in constants)
            for name in self.names
        ]
        self.result = object()
        self.slow_calls: list[Miss | None] = []
        self.native: NativeKernel = NativeKernel(self.parameters, self.slow)

    def slow(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any], miss: Miss | None) -> object:
        self.slow_calls.append(miss)
        bound = {p.name: p.default for p in self.parameters} | dict(zip(self.names, args, strict=False)) | kwargs
        if callable(grid):
            grid = grid(bound)
        slots = tuple(Slot(self.names.index(name), kind) for name, kind in self.types.items())
        self.native.install(miss, Specialization(self.entry, self.result, slots, self.scratch))
        record = launch_record(grid, [address(bound[name]) for name in self.types], list(self.types.values()))
        run_grid(self.entry, record, int(np.prod(grid)), scratch_bytes=self.scratch)
        return self.result


def address(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    if value is None:
        return 0
    return value.data_ptr() if hasattr(value, "data_ptr") else value


def adder(**defaults: Any) -> Jit:
    return Jit(ADD, "x y o n BLOCK", {"x": "*fp32", "y": "*fp32", "o": "*fp32", "n": "i32"}, **defaults)


def arrays(count: int = 3, n: int = 1000, dtype: Any = np.float32) -> list[np.ndarray[Any, Any]]:
    """Arrays whose addresses are multiples of 64."""
    memory = np.zeros(count * (n + 64) * 8, np.uint8)
    start = -memory.ctypes.data % 64
    size = -(-n * np.dtype(dtype).itemsize // 64) * 64
    found = [memory[start + i * size :][: n * np.dtype(dtype).itemsize].view(dtype) for i in range(count)]
    for index, array in enumerate(found):
        array[:] = np.arange(n) % 7 + index
    return found


def slow_calls(kernel: Jit, grid: Any, *args: Any, **kwargs: Any) -> int:
    """The number of two equal calls that go to Python: 1 when the second is native."""
    before = len(kernel.slow_calls)
    for _ in range(2):
        assert kernel.native[grid](*args, **kwargs) is kernel.result
    return len(kernel.slow_calls) - before
