"""Kernels where there is no native runtime: all programs on the thread that launches."""

from __future__ import annotations

import ctypes
from time import monotonic

from tilewright.runtime.drivers.cpu.native.structs import Memory

_SLICE_SECONDS = 0.02


def run_alone(entry: int, launch: Memory, programs: int, scratch_bytes: int) -> None:
    """Slices take a moment at most if programs are short: between them Python handles signals."""
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    scratch = Memory(b"", scratch_bytes + 64)
    aligned = -(-scratch.address // 64) * 64
    run = ctypes.CFUNCTYPE(word, pointer, word, word, pointer)(entry)
    begin, size = 0, 1
    while begin < programs:
        started = monotonic()
        begin = run(launch.address, begin, min(programs, begin + size), aligned)
        size = size * 2 if monotonic() - started < _SLICE_SECONDS else max(1, size // 2)
