"""The program of `test_valgrind.py`: launches and calls of all kinds, and one mistake that valgrind has to find.

    python valgrind_program.py arguments cycles         runs these; without names, all

The first run, without valgrind, leaves all that is compiled in the cache; the second imports no compiler.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.drivers.cpu.process import native_runtime


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


@tw.jit
def numbers(out_ptr, several, whole, real, flag):
    tl.store(out_ptr, several[0] + several[1] + whole + real + flag)


@tw.vectorize
def scaled(x, by):
    return x * by + 1


x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)


def launches(rounds: int) -> None:
    """Grids of all kinds, keywords, sizes; more programs than one thread takes."""
    out = np.zeros_like(x)
    bound = add[(10,)]
    for _ in range(rounds):
        for launch in (bound, add[10, 1], add[[10]], add[lambda meta: (tw.cdiv(meta["n"], meta["BLOCK"]),)]):
            for n in (0, 1, 100, 299, 300):
                out[:] = 0
                launch(x, y, out, n, BLOCK=32)
                launch(x_ptr=x, y_ptr=y, out_ptr=out, n=n, BLOCK=32)
                assert np.array_equal(out[:n], (x + y)[:n]), n
                assert not out[n:].any(), n


def arguments(rounds: int) -> None:
    """Tuples, numbers of several widths, of which each has its specialisation; what no kernel can have."""
    out = np.zeros(1, np.float64)
    for _ in range(rounds):
        for whole in (1, 2, 16, -5, 2**40, 2**63):
            numbers[(1,)](out, (whole, 3), 5, 0.5, True)
            assert out[0] == np.float32(0.5) + (whole + 9), (whole, out)
        for grid, values in (((1,), (out, 7)), ((-1,), (out, (1, 2), 5, 0.5, True)), ((1,), (SimpleNamespace(),))):
            try:
                numbers[grid](*values)
            except (TypeError, ValueError, AttributeError, tw.TilewrightError):
                continue
            raise AssertionError("that was no call")


def cycles(rounds: int) -> None:
    """Bound launches that only the collector can take away, and those that it shows."""
    out = np.zeros_like(x)
    for _ in range(rounds):
        holder: Any = SimpleNamespace()
        holder.launch = add[[10, holder]]
        kept = [thing for thing in gc.get_objects() if type(thing) is type(holder.launch)]
        add[(10,)](x, y, out, 300, BLOCK=32)
        del holder, kept
        gc.collect()


def functions(rounds: int) -> None:
    """Numbers, new arrays, small and large, and given ones."""
    large = np.ones(1 << 16)
    for _ in range(rounds):
        assert scaled(2, 3) == 7
        assert scaled(2.5, 2) == 6
        given = np.empty_like(large)
        assert scaled(large, 2.0, out=given) is given
        assert given[-1] == scaled(large, 2.0)[0] == 3
        assert scaled(x, by=y).tolist() == (x + 1).tolist()


class Packed:
    """An array that only DLPack tells of."""

    def __init__(self, array: np.ndarray) -> None:
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


class Stated:
    """An array that only its interface tells of."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


def foreign(rounds: int) -> None:
    """Arrays that native code reads from capsules and dicts, and those that it leaves to NumPy."""
    out = np.zeros_like(x)
    calls = ((300, Packed(x), Stated(y)), (150, Stated(x[::2]), Packed(y)), (0, Packed(x[:0]), Stated(y)))
    for _ in range(3 * rounds):
        for n, first, second in calls:
            out[:] = 0
            add[(10,)](first, second, Packed(out), n, BLOCK=32)
            assert np.array_equal(out[:n], (x + y)[:n]), n
            assert not out[n:].any(), n


def in_threads(rounds: int) -> None:
    threads = [Thread(target=launches, args=(rounds,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def mistake() -> None:
    """Native code reads three words where there are two: the test looks for this one, and for no other."""
    runtime = native_runtime()
    assert runtime is not None
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    words = libc.malloc(16)
    ctypes.memset(words, 0, 16)
    runtime.key_hash(0, words, 3)


WORKS = {work.__name__: work for work in (launches, arguments, cycles, foreign, functions, in_threads)}
for name in sys.argv[1:] or WORKS:
    WORKS[name](1)
mistake()
sys.stdout.write(f"done {'llvmlite' in sys.modules}\n")
