"""Every float through a function of the math library, and how far each result is from the exact one.

    python tests/llvm/every_float.py exp tanh                                  # all of them, all ways
    python tests/llvm/every_float.py exp --level x86-64-v3 --lanes 8 --every 64

Everything is native: the function of float over tiles of numbers, then the library's own function of double, which is
some 2^28 times as exact as is needed (`test_llvm_math.py` has its errors against wider types), and the distance in ulp.
Of odd and even functions, negative numbers are compared with positive ones.
"""

import argparse
import ctypes
import time
from collections.abc import Sequence
from functools import cache

import numpy as np
from avx512_emulation import can_run, machine_for, writer_for
from llvm_native import load

from tilewright.backends.llvm.lanes import LaneType
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.backends.llvm.mathlib import FUNCTIONS
from tilewright.backends.llvm.writer import LlvmWriter

Way = tuple[Target, int]
"""A processor, and lanes."""

TILE = 1 << 14
SIGN = 1 << 31
INFINITE = 0x7F800000
MIRRORED = {"cos": 0, "erf": SIGN, "sin": SIGN, "tanh": SIGN}
"""The bits that change with the operand's sign."""
X86 = {"x86-64-v2": (4,), "x86-64-v3": (4, 8), "x86-64-v4": (4, 8, 16)}
LEVELS = {"aarch64": (4,)} if host_target().neon else X86
"""Lanes whose code differs. Four with AVX2 are what single numbers, GPUs and ARM have: fused, without tables."""


@cache
def function_of_floats(name: str, target: Target, lanes: int):
    """The function over `TILE` numbers: (address of results, address of operands)."""
    w = writer_for(target)
    with w.function("f", [("ptr", "%out"), ("ptr", "%x")]), w.loop(0, TILE, lanes) as loop:
        k = LaneType(w, "float", lanes)
        x = k(w.load(k.type, w.offset("%x", "float", loop.index), align=4))
        w.store(k.type, FUNCTIONS[name](x).name, w.offset("%out", "float", loop.index), align=4)
    return load(w.render(), machine_for(target), "f", ctypes.c_void_p, ctypes.c_void_p)


@cache
def exact_values(name: str):
    """The function of double over a tile of floats: (address of results, address of operands)."""
    target = host_target()
    w, lanes = LlvmWriter(target), target.lanes(32)
    with w.function("f", [("ptr", "%out"), ("ptr", "%x")]), w.loop(0, TILE, lanes) as loop:
        k, double = LaneType(w, "float", lanes), LaneType(w, "double", lanes)
        x = k(w.load(k.type, w.offset("%x", "float", loop.index), align=4))
        wanted = FUNCTIONS[name](double.cast("fpext", x))
        w.store(double.type, wanted.name, w.offset("%out", "double", loop.index), align=8)
    return load(w.render(), target, "f", *[ctypes.c_void_p] * 2)


@cache
def errors_of_tile():
    """Errors in ulp of the exact result: (address of errors, of exact, of results); infinite where all is wrong."""
    target = host_target()
    w, lanes = LlvmWriter(target), target.lanes(32)
    with w.function("f", [("ptr", "%out"), ("ptr", "%wanted"), ("ptr", "%got")]), w.loop(0, TILE, lanes) as loop:
        k, double = LaneType(w, "float", lanes), LaneType(w, "double", lanes)
        wanted = double(w.load(double.type, w.offset("%wanted", "double", loop.index), align=8))
        got = k(w.load(k.type, w.offset("%got", "float", loop.index), align=4))
        w.store(k.type, _error(k, double, got, wanted).name, w.offset("%out", "float", loop.index), align=4)
    return load(w.render(), target, "f", *[ctypes.c_void_p] * 3)


def _error(k: LaneType, double: LaneType, got, wanted):
    """The distance over the distance of floats next to `wanted`; 2^-149 is the smallest."""
    rounded = k.cast("fptrunc", wanted)
    power = double.from_bits(wanted.bits & (0x7FF << 52))
    step = double.maximum(power, 2.0**-126) * 2.0**-23
    distance = abs(double.cast("fpext", got) - wanted) / step
    has_sign = ~((got.bits ^ rounded.bits) < 0)
    is_same = (got.equals(rounded) & has_sign) | (got.is_nan() & rounded.is_nan())
    is_number = (abs(got) < float("inf")) & (abs(rounded) < float("inf")) & has_sign
    return k.select(is_number, k.cast("fptrunc", distance), k.select(is_same, 0.0, float("inf")))


def tiles(name: str, *, every: int = 1, far: int = 1) -> np.ndarray:
    """The starts of tiles: one of `every`, in steps that visit all their residues, and one of `far` from 2^20 on."""
    count = (SIGN if name in MIRRORED else 2 * SIGN) // TILE
    numbers = np.arange(0, count, every) if every == 1 else np.arange(0, count - every, every + 1)
    starts = numbers.astype(np.int64) * TILE
    magnitude = starts % SIGN
    is_far = (magnitude >= (127 + 20) << 23) & (magnitude < INFINITE)
    return starts[~is_far | (np.arange(len(starts)) % far == 0)]


def largest_errors(name: str, ways: Sequence[Way], starts: np.ndarray) -> list[tuple[float, np.float32]]:
    """The largest error in ulp of each way and where, over the tiles of bit patterns that begin at `starts`."""
    functions, exact, errors_of = [function_of_floats(name, *way) for way in ways], exact_values(name), errors_of_tile()
    offsets = np.arange(TILE, dtype=np.uint32)
    x, opposite, got, mirrored, errors = (np.empty(TILE, np.float32) for _ in range(5))
    wanted = np.empty(TILE, np.float64)
    worst = [(-1.0, np.float32(0))] * len(ways)
    for start in starts:
        np.add(offsets, np.uint32(start), out=x.view(np.uint32))
        np.negative(x, out=opposite)
        exact(wanted.ctypes.data, x.ctypes.data)
        for way, f in enumerate(functions):
            f(got.ctypes.data, x.ctypes.data)
            errors_of(errors.ctypes.data, wanted.ctypes.data, got.ctypes.data)
            place = int(errors.argmax())
            if errors[place] > worst[way][0]:
                worst[way] = (float(errors[place]), x[place])
            if name in MIRRORED:
                f(mirrored.ctypes.data, opposite.ctypes.data)
                differs = (mirrored.view(np.uint32) ^ got.view(np.uint32)) != MIRRORED[name]
                assert not (differs & ~np.isnan(got)).any(), (name, ways[way], x[differs][:4])
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="+")
    parser.add_argument("--level", choices=LEVELS)
    parser.add_argument("--lanes", type=int)
    parser.add_argument("--every", type=int, default=1, help="one tile of so many")
    options = parser.parse_args()
    ways = [(level, lanes) for level in LEVELS for lanes in LEVELS[level] if can_run(host_target(level))]
    chosen = [way for way in ways if options.level in (None, way[0]) and options.lanes in (None, way[1])]
    for name in options.functions:
        for level, lanes in chosen:
            began = time.perf_counter()
            ((error, where),) = largest_errors(name, [(host_target(level), lanes)], tiles(name, every=options.every))
            seconds = time.perf_counter() - began
            print(f"{name:8} {level} x{lanes:<3} {error:.4f} ulp at {where!r}  {seconds:.1f} s", flush=True)  # noqa: T201 - run by hand, it prints a table


if __name__ == "__main__":
    main()
