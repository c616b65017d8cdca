"""Arrays that lie against pages which must not be touched."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None)
NO_ACCESS = 0


def between_guards(count: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of random bits: one begins where a page that must not be touched ends, one ends where one begins."""
    dtype = np.dtype(dtype)
    size = -(-count * dtype.itemsize // PAGE) * PAGE
    memory = mmap.mmap(-1, size + 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (address, address + PAGE + size):
        assert LIBC.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), NO_ACCESS) == 0
    whole = np.frombuffer(memory, np.uint8, size, PAGE)
    whole[:] = np.random.default_rng(count).integers(0, 100, size)
    return whole[: count * dtype.itemsize].view(dtype), whole[size - count * dtype.itemsize :].view(dtype)


def small_integers(rows: int, columns: int, dtype: Any, end: int) -> np.ndarray:
    """A matrix of small integers that begins (`end` = 0) or ends (1) at a page that must not be touched."""
    flat = between_guards(rows * columns, dtype)[end]
    flat[:] = np.random.default_rng((rows, columns)).integers(-4, 5, flat.size)
    return flat.reshape(rows, columns)
