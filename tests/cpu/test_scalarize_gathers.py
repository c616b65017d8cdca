"""Gathers whose numbers lie in memory: each is loaded as an address, if nothing was stored meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here
from tilewright.backends.cpu.scalarize_gathers import scalarize_gathers
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5", "aarch64")
TEXT = """
tt.func public @f(%p: !tt.ptr<{element}>, %n: !tt.ptr<i64>, %o: i64, %s: i64, %on: vector<{lanes}xi1>) {{
  %seven = arith.constant dense<7> : vector<{lanes}xi64>
  %none = arith.constant dense<0> : vector<{lanes}xi64>
  %other = arith.constant dense<{zero}> : vector<{lanes}x{element}>
  %lane = vector.step : vector<{lanes}xi64>
  %same = vector.broadcast %s : i64 to vector<{lanes}xi64>
  %i = vector.load {loaded} {{{marks}}} : !tt.ptr<i64> -> vector<{lanes}xi64>
  {between}
  {computed}
  %v = vector.gather %p[{number}]{masked} : !tt.ptr<{element}>, vector<{lanes}xi64> -> vector<{lanes}x{element}>
  vector.store %v, %p[%o] : !tt.ptr<{element}>, vector<{lanes}x{element}>
  tt.return
}}
"""
LOADED = {"element": "f32", "zero": "0.0", "lanes": "4", "loaded": "%n[%o]", "between": "", "computed": ""}
LOADED |= {"number": "%i", "masked": "", "marks": "alignment = 8 : i64"}
ROW = """
  %r = arith.muli %i, %seven : vector<4xi64>
  %q = arith.addi %same, %lane : vector<4xi64>
  %j = arith.addi %r, %q : vector<4xi64>
"""
WRAPPED = """
  %c = arith.cmpi slt, %i, %none : vector<4xi64>
  %w = arith.addi %i, %same : vector<4xi64>
  %j = arith.select %c, %w, %i : vector<4xi1>, vector<4xi64>
"""
CHOSEN = """
  %x = vector.load %n[%s] : !tt.ptr<i64> -> i64
  %c = arith.cmpi slt, %x, %s : i64
  %j = arith.select %c, %i, %seven : vector<4xi64>
"""


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"computed": CHOSEN, "number": "%j"},
        {"element": "i64", "zero": "0"},
        {"computed": ROW, "number": "%j"},
        {"computed": WRAPPED, "number": "%j"},
        {"between": "vector.prefetch %n[%o] {locality = 3 : i64} : !tt.ptr<i64>"},
    ],
    ids=str,
)
def test_numbers_are_loaded_one_by_one(changes: dict[str, str]) -> None:
    module = parse_module(TEXT.format(**LOADED | changes))
    assert scalarize_gathers(module)
    verify(module)
    text = print_op(module)
    assert "vector.gather" not in text
    elements = 4 if changes.get("element") == "i64" else 0
    assert text.count(": !tt.ptr<i64> -> i64") == 4 + elements + ("%x =" in text)


@pytest.mark.parametrize(
    "changes",
    [
        {"masked": ", %on, %other"},
        {"element": "f16"},
        {"lanes": "2"},
        {"marks": "alignment = 8 : i64, volatile"},
        {"loaded": "%n[%o, %s]"},
        {"between": "vector.store %seven, %n[%s] {alignment = 8 : i64} : !tt.ptr<i64>, vector<4xi64>"},
        {"computed": "%j = arith.divsi %i, %seven : vector<4xi64>", "number": "%j"},
        {"computed": "%j = arith.addi %same, %lane : vector<4xi64>", "number": "%j"},
    ],
    ids=str,
)
def test_others_stay(changes: dict[str, str]) -> None:
    module = parse_module(TEXT.format(**LOADED | changes))
    before = print_op(module)
    assert not scalarize_gathers(module)
    assert print_op(module) == before


@tw.jit
def rows(x, places, out, n, width, WRAP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(places + i, mask=i < n, other=0)
    if WRAP:
        at = tl.where(at < 0, at + width, at)
    if ROWS:
        at = at * 3 + i % 3
    tl.store(out + i, tl.load(x + at, mask=i < n), mask=i < n)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("number", [np.int32, np.int64])
@pytest.mark.parametrize("size", [1, 100, 256, 1000])
def test_elements_by_number(size: int, number: Any, dtype: Any, cpu: str) -> None:
    drawn = np.random.default_rng(7)
    x = np.arange(300).astype(dtype)
    x[:3] = [0, 1, 5] if dtype == np.int32 else [np.nan, np.inf, -0.0]
    for wrap, in_rows in ((False, False), (True, False), (False, True)):
        places = drawn.integers(-100 if wrap else 0, 100, size).astype(number)
        found = np.full(size, 99, dtype)
        with tw.knobs.tilewright.scope():
            tw.knobs.tilewright.cpu = cpu
            rows[(tw.cdiv(size, 128),)](x, places, found, size, 100, WRAP=wrap, ROWS=in_rows, BLOCK=128)
        wanted = places * 3 + np.arange(size) % 3 if in_rows else places % 100
        np.testing.assert_array_equal(found, x[wanted])


@tw.jit
def onto_its_numbers(x, places, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(places + i, tl.load(x + tl.load(places + i)))


def test_numbers_that_the_results_replace() -> None:
    """All numbers are read before the first result is stored."""
    drawn = np.random.default_rng(3)
    x, places = drawn.integers(0, 64, 64), drawn.permutation(64)
    for at in (0, 1, 5):
        memory = np.concatenate([places, places])
        expected = memory.copy()
        expected[at : at + 64] = x[memory[at : at + 64]]
        onto_its_numbers[(1,)](x, memory[at:], BLOCK=64)
        np.testing.assert_array_equal(memory, expected)
    memory = np.arange(128) % 64
    expected = memory.copy()
    expected[3:67] = memory[memory[3:67]]
    onto_its_numbers[(1,)](memory, memory[3:], BLOCK=64)
    np.testing.assert_array_equal(memory, expected)


def loops_of(kernel: Any, **values: Any) -> str:
    types = {"x": "*fp32", "places": "*i64", "on": "*i1", "out": "*fp32", "n": "i32", "width": "i32"}
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    source = tw.ASTSource(kernel, signature, values)
    return str(tw.compile(source, target=tw.GPUTarget("cpu", "znver5", 0)).asm["loops"])


def test_a_gather_of_a_kernel_is_taken_apart() -> None:
    assert "vector.from_elements" in loops_of(rows, WRAP=False, ROWS=False, BLOCK=128)


@tw.jit
def pairs(x, places, on, out, VOLATILE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(places + i, volatile=VOLATILE) + tl.load(on + i, volatile=VOLATILE)
    tl.store(out + i, tl.load(x + at) * tl.load(x + at + 1))


@pytest.mark.parametrize("is_volatile", [False, True])
@code_on("znver5")
def test_what_is_volatile_is_read_once(is_volatile: bool) -> None:
    """Another thread may change the numbers: both elements of a pair have to be near each other nevertheless."""
    text = loops_of(pairs, VOLATILE=is_volatile, BLOCK=64)
    assert ("vector.from_elements" in text) != is_volatile
    assert text.count("volatile}" if is_volatile else ": !tt.ptr<i64> -> i64") == (2 if is_volatile else 16)
