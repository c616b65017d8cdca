"""Elements here and there: by an instruction where it is fast, else by scalar loads; masked-off lanes touch nothing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here

CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5", "aarch64")
N = 64
FAR = 1 << 40
"""An element that no array has: whoever touches it, ends the process."""
MASKS = {
    "all": np.ones(N, bool),
    "none": np.zeros(N, bool),
    "one on": np.arange(N) == 13,
    "any": np.random.default_rng(5).integers(0, 2, N).astype(bool),
}


@tw.jit
def fetched(x, places, on, out, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(places + i)
    tl.store(out + i, tl.load(x + at, mask=tl.load(on + i) != 0, other=7))


@tw.jit
def spread(x, places, on, out, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(places + i)
    tl.store(out + at, tl.load(x + i), mask=tl.load(on + i) != 0)


@tw.jit
def followed(pointers, on, out, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(pointers + i).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(at, mask=tl.load(on + i) != 0, other=7))


def places_under(mask: str) -> tuple[np.ndarray, np.ndarray]:
    """Whether each lane is on, and the number of its element, which is far from everything where it is off."""
    on = MASKS[mask]
    return on, np.where(on, np.random.default_rng(3).permutation(N), FAR)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("mask", MASKS)
def test_lanes_that_are_off_read_and_write_nothing(mask: str, dtype: Any, cpu: str) -> None:
    on, places = places_under(mask)
    x = between_guards(N, dtype)[1]
    x[:] = np.arange(N)
    read, written = np.full(N, 99, dtype), np.full(N, 99, dtype)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        fetched[(1,)](x, places, on.view(np.uint8), read, B=N)
        spread[(1,)](x, places, on.view(np.uint8), written, B=N)
    np.testing.assert_array_equal(read, np.where(on, x[np.where(on, places, 0)], np.array(7, dtype)))
    expected = np.full(N, 99, dtype)
    expected[places[on]] = x[on]
    np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("mask", MASKS)
def test_pointers_of_lanes_that_are_off_are_not_followed(mask: str, cpu: str) -> None:
    on, places = places_under(mask)
    x, out = np.arange(N, dtype=np.float32), np.full(N, 99, np.float32)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        followed[(1,)](x.ctypes.data + 4 * places, on.view(np.uint8), out, B=N)
    np.testing.assert_array_equal(out, np.where(on, x[np.where(on, places, 0)], 7))


def text_for(cpu: str, *, element: str = "fp32", lanes: int = N) -> str:
    types = {"x": f"*{element}", "places": "*i64", "on": "*u8", "out": f"*{element}", "B": "constexpr"}
    source = tw.ASTSource(fetched, types, {"B": lanes})
    return str(tw.compile(source, target=tw.GPUTarget("cpu", cpu, 0)).asm["llir"])


@pytest.mark.parametrize(("cpu", "has"), [("znver5", True), ("znver4", False), ("x86-64-v3", False)])
def test_which_processors_have_a_fast_instruction(cpu: str, has: bool) -> None:
    assert ("@llvm.masked.gather" in text_for(cpu)) == has


@pytest.mark.parametrize(
    ("element", "lanes", "has"),
    [("i32", N, True), ("fp64", N, True), ("fp16", N, False), ("i8", N, False), ("fp64", 2, False)],
)
def test_which_elements_it_reads(element: str, lanes: int, has: bool) -> None:
    assert ("@llvm.masked.gather" in text_for("znver5", element=element, lanes=lanes)) == has


def test_one_selection_stands_for_the_lanes_of_a_mask() -> None:
    text = text_for("x86-64-v4")
    assert re.search(r"select <(\d+) x i1> %\w+, <\1 x ptr>", text)
    assert len(re.findall(r"= select i1 %\w+, ptr", text)) < N // 8


@tw.jit
def spaced(x, on, out, n, STEP: tl.constexpr, PREFIX: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = i < n if PREFIX else tl.load(on + i) != 0
    tl.store(out + i, tl.load(x + STEP * i, mask=mask, other=7))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("step", [2, 3])
def test_elements_in_between_are_not_touched(step: int, dtype: Any, cpu: str) -> None:
    """Behind the last element whose lane is on is no memory; a prefix ends anywhere."""
    ends = {0: np.arange(N) < 0, 1: np.arange(N) < 1, 27: np.arange(N) < 27, N: np.arange(N) < N}
    for n, on in [*ends.items(), *((-1, mask) for mask in MASKS.values())]:
        last = np.flatnonzero(on)
        x = between_guards(step * int(last[-1]) + 1 if last.size else 1, dtype)[1]
        x[:] = np.arange(x.size)
        x[-1:] = 3 if np.issubdtype(dtype, np.integer) else np.nan
        out = np.full(N, 99, dtype)
        with tw.knobs.tilewright.scope():
            tw.knobs.tilewright.cpu = cpu
            spaced[(1,)](x, on.view(np.uint8), out, n, step, n >= 0, N)
        np.testing.assert_array_equal(
            out, np.where(on, x[np.minimum(step * np.arange(N), x.size - 1)], np.array(7, dtype))
        )


@pytest.mark.parametrize(
    ("cpu", "element", "step", "has"),
    [
        ("x86-64-v4", "fp32", 2, True),
        ("znver5", "i64", 2, True),
        ("znver5", "fp32", 3, False),
        ("znver5", "fp16", 2, False),
        ("x86-64-v3", "fp32", 2, False),
    ],
)
def test_where_every_other_element_is_read_by_whole_registers(cpu: str, element: str, step: int, has: bool) -> None:
    types = {"x": f"*{element}", "on": "*u8", "out": f"*{element}", "n": "i32"}
    signature = types | dict.fromkeys(("STEP", "PREFIX", "B"), "constexpr")
    source = tw.ASTSource(spaced, signature, {"STEP": step, "PREFIX": True, "B": N})
    assert ("pdep" in tw.compile(source, target=tw.GPUTarget("cpu", cpu, 0)).asm["llir"]) == has
