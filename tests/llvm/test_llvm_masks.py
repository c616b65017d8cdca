"""Masks as numbers: each lane, and whether any is set, for every width that a vector may have."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvm_native import load_all

from machine_levels import run_here
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.backends.llvm.masks import any_lane, lane_flags
from tilewright.backends.llvm.spelling import vector
from tilewright.backends.llvm.writer import LlvmWriter

CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "aarch64")
ELEMENTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
LANES = (1, 2, 4, 8, 16, 32, 64, 128)


def signs(target: Target, element: str) -> str:
    """`flags<n>(out, x)` stores a byte for each of n lanes, `any<n>` one for all: whether a number is negative."""
    w = LlvmWriter(target)
    for lanes in LANES:
        type = vector(element, lanes)
        for name in (f"flags{lanes}", f"any{lanes}"):
            with w.function(name, [("ptr", "%out"), ("ptr", "%x")]):
                zero = "zeroinitializer" if lanes > 1 else "0"
                negative = w.emit(f"icmp slt {type} {w.load(type, '%x', align=1)}, {zero}")
                every = name.startswith("flags")
                flags = lane_flags(w, negative, lanes, range(lanes)) if every else [any_lane(w, negative, lanes)]
                for lane, flag in enumerate(flags):
                    place = w.emit(f"getelementptr i8, ptr %out, i64 {lane}")
                    w.store("i8", w.emit(f"zext i1 {flag} to i8"), place, align=1)
    return w.render()


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_lanes_of_signs(element: str, cpu: str) -> None:
    """A register for masks has 64 lanes; LLVM ended the process that asked for one of 128."""
    target, address = host_target(cpu), (ctypes.c_void_p,) * 2
    functions = load_all(signs(target, element), target, {f"{k}{n}": address for k in ("flags", "any") for n in LANES})
    for lanes in LANES:
        for x in _numbers(lanes, ELEMENTS[element]):
            found, any_found = np.full(lanes, 7, np.uint8), np.full(1, 7, np.uint8)
            functions[f"flags{lanes}"](found.ctypes.data, x.ctypes.data)
            functions[f"any{lanes}"](any_found.ctypes.data, x.ctypes.data)
            np.testing.assert_array_equal(found, x < 0)
            assert any_found[0] == (x < 0).any()


def _numbers(lanes: int, dtype: type) -> list[np.ndarray]:
    """Positive numbers, with none, one, some or all of them negative."""
    rng = np.random.default_rng(lanes)
    some = [rng.choice([-3, 5], lanes).astype(dtype) for _ in range(4)]
    single = np.where(np.eye(lanes, dtype=bool), -1, 1).astype(dtype)
    return [np.ones(lanes, dtype), -np.ones(lanes, dtype), *some, *single]
