"""Every elementwise op on every element type: machine code computes what the op means, lane by lane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import Array, close, compiled_and_run, parsed, random_numbers

from tilewright.dialects.arith import CMPF, CMPI, FLOAT_BINARY, INTEGER_BINARY
from tilewright.dialects.math import APPROXIMATE, EXACT
from tilewright.dialects.tile_semantics import LIBRARY
from tilewright.interpreter.run_ir import run_ir

COUNT = 256
NUMPY = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
MATH_TOLERANCE = {"f32": 1e-6, "f64": 1e-12}


def tile(element: str) -> str:
    """The text of the tile type."""
    return f"tensor<{COUNT}x{element}>"


def module(sources: Sequence[str], steps: Sequence[tuple[str, str]]) -> str:
    """TTIR that loads one tile per source element type, and stores the result of each step (op text, element type).

    In the op's text `%0`, `%1` … are the sources.
    """
    results = [element for _, element in steps]
    memory = ["i8" if element == "i1" else element for element in (*sources, *results)]
    arguments = ", ".join(f"%p{i}: !tt.ptr<{element}>" for i, element in enumerate(memory))
    lines = [f"%range = tt.make_range {{end = {COUNT} : i32, start = 0 : i32}} : {tile('i32')}"]
    for i, element in enumerate(memory):
        pointers = tile(f"!tt.ptr<{element}>")
        lines += [
            f"%s{i} = tt.splat %p{i} : !tt.ptr<{element}> -> {pointers}",
            f"%q{i} = tt.addptr %s{i}, %range : {pointers}, {tile('i32')}",
        ]
        if i < len(sources):
            narrow = sources[i] == "i1"
            lines.append(f"%{'w' if narrow else 'a'}{i} = tt.load %q{i} : {pointers}")
            if narrow:
                lines.append(f"%a{i} = arith.trunci %w{i} : {tile('i8')} to {tile('i1')}")
    for step, (text, element) in enumerate(steps):
        i = len(sources) + step
        name = f"%r{step}"
        lines.append(f"{name} = {text}")
        if element == "i1":
            lines.append(f"%x{step} = arith.extui {name} : {tile('i1')} to {tile('i8')}")
            name = f"%x{step}"
        lines.append(f"tt.store %q{i}, {name} : {tile(f'!tt.ptr<{memory[i]}>')}")
    body = "\n    ".join(lines)
    return f"module {{\n  tt.func public @kernel({arguments}) {{\n    {body}\n    tt.return\n  }}\n}}\n"


def compare(
    sources: Sequence[str], inputs: Sequence[Array], steps: Sequence[tuple[str, str]], tolerance: float = 0.0
) -> None:
    """Both executions of the steps agree."""
    text = module(sources, steps)
    results = [np.zeros(COUNT, np.int8 if element == "i1" else NUMPY[element]) for _, element in steps]
    expected = [result.copy() for result in results]
    compiled_and_run(text, [*inputs, *results])
    run_ir(parsed(text), [*inputs, *expected])
    for (op, _), found, wanted in zip(steps, results, expected, strict=True):
        close(found, wanted, tolerance, f"{op} on {[list(x[:0]) for x in inputs]}")


def binary(name: str, element: str) -> tuple[str, str]:
    """The step `%a0 name %a1`."""
    return f"arith.{name} %a0, %a1 : {tile(element)}", element


def pairs(element: str, seed: int = 0) -> tuple[Array, Array]:
    """Two arrays with all kinds of numbers."""
    first, second = (random_numbers(NUMPY[element], COUNT, seed + i, special=True) for i in range(2))
    return first, second


@pytest.mark.parametrize("element", INTEGERS)
def test_integers(element: str) -> None:
    """Also x / 0, the smallest number / -1, and shifts by more than the width: they have a result, and never trap."""
    compare((element, element), pairs(element), [binary(name, element) for name in INTEGER_BINARY])


@pytest.mark.parametrize("element", INTEGERS)
def test_integer_relations(element: str) -> None:
    a, b = pairs(element)
    b[::3] = a[::3]
    steps = [(f"arith.cmpi {relation}, %a0, %a1 : {tile(element)}", "i1") for relation in CMPI]
    steps.append((f"math.absi %a0 : {tile(element)}", element))
    steps += [(f"math.{name} %a0 : {tile(element)}", element) for name in ("ctlz", "ctpop")]
    steps.append((f"tt.mulhiui %a0, %a1 : {tile(element)}", element))
    compare((element, element), (a, b), steps if element in ("i32", "i64") else steps[:-1])


def test_truth_values() -> None:
    a, b = (random_numbers(np.bool_, COUNT, seed).astype(np.int8) for seed in (1, 2))
    names = ("andi", "ori", "xori", "addi", "subi", "muli", "minsi", "maxui")
    steps = [binary(name, "i1") for name in names]
    steps += [(f"arith.cmpi {relation}, %a0, %a1 : {tile('i1')}", "i1") for relation in CMPI]
    steps.append((f"arith.select %a0, %a1, %a0 : {tile('i1')}, {tile('i1')}", "i1"))
    compare(("i1", "i1"), (a, b), steps)


@pytest.mark.parametrize("element", FLOATS)
def test_floats(element: str) -> None:
    names = [name for name in FLOAT_BINARY if name != "remf"]
    steps = [binary(name, element) for name in names]
    steps += [(f"math.{name} %a0 : {tile(element)}", element) for name in ("absf", "floor", "ceil", "sqrt")]
    steps.append((f"arith.negf %a0 : {tile(element)}", element))
    compare((element, element), pairs(element), steps)


@pytest.mark.parametrize("element", FLOATS)
def test_clamp(element: str) -> None:
    clamp = f"tt.clampf %a0, %a1, %a2, propagateNan = {{}} : {tile(element)}"
    a, _ = pairs(element)
    low, width = (random_numbers(NUMPY[element], COUNT, seed) for seed in (1, 2))
    high = low + np.abs(width)
    compare((element,) * 3, (a, low, high), [(clamp.format(mode), element) for mode in ("none", "all")])


@pytest.mark.parametrize("element", FLOATS)
def test_float_remainder(element: str) -> None:
    a, b = (random_numbers(NUMPY[element], COUNT, seed) for seed in (3, 4))
    compare((element, element), (a, b), [binary("remf", element)], 1e-6)


@pytest.mark.parametrize("element", FLOATS)
def test_fused_multiply_add(element: str) -> None:
    arrays = [random_numbers(NUMPY[element], COUNT, seed, special=seed == 7) for seed in (5, 6, 7)]
    compare((element,) * 3, arrays, [(f"math.fma %a0, %a1, %a2 : {tile(element)}", element)])


@pytest.mark.parametrize("element", FLOATS)
def test_float_relations(element: str) -> None:
    a, b = pairs(element)
    b[::3] = a[::3]
    steps = [(f"arith.cmpf {relation}, %a0, %a1 : {tile(element)}", "i1") for relation in CMPF]
    compare((element, element), (a, b), steps)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_mathematical_functions(element: str) -> None:
    a = random_numbers(NUMPY[element], COUNT, special=True)
    steps = [(f"math.{name} %a0 : {tile(element)}", element) for name in (*APPROXIMATE, *EXACT)]
    steps.append((f"tt.precise_sqrt %a0 : {tile(element)}", element))
    compare((element,), (a,), steps, MATH_TOLERANCE[element])


@pytest.mark.spared
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_library_functions(element: str) -> None:
    two = ("pow", "atan2", "fmod", "copysign")
    steps = []
    for name in LIBRARY:
        operands, types = ("%a0, %a1", f"{tile(element)}, {tile(element)}") if name in two else ("%a0", tile(element))
        attributes = f'{{libname = "libdevice", libpath = "", pure = true, symbol = "__tw_{name}"}}'
        steps.append((f"tt.extern_elementwise {operands} {attributes} : ({types}) -> {tile(element)}", element))
    a, b = (random_numbers(NUMPY[element], COUNT, seed) for seed in (8, 9))
    compare((element, element), (np.abs(a), b), steps, MATH_TOLERANCE[element])
    compare((element, element), (a, b), steps, MATH_TOLERANCE[element])


def casts() -> Iterator[tuple[str, str, str]]:
    """(op, from, to) for all conversions between numbers of different types."""
    everything = (*INTEGERS, *FLOATS)
    for source in everything:
        for target in everything:
            if source == target:
                continue
            wider = np.dtype(NUMPY[source]).itemsize - np.dtype(NUMPY[target]).itemsize
            match source in INTEGERS, target in INTEGERS:
                case True, True:
                    yield from (
                        (("trunci", source, target),)
                        if wider > 0
                        else (
                            ("extsi", source, target),
                            ("extui", source, target),
                        )
                    )
                case True, False:
                    yield from ((f"{sign}itofp", source, target) for sign in "su")
                case False, True:
                    yield from ((f"fpto{sign}i", source, target) for sign in "su")
                case False, False if wider:
                    yield "truncf" if wider > 0 else "extf", source, target


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
def test_conversions(source: str) -> None:
    a = random_numbers(NUMPY[source], COUNT, 10, special=True)
    steps = [(f"arith.{op} %a0 : {tile(s)} to {tile(t)}", t) for op, s, t in casts() if s == source]
    compare((source,), (a,), steps)


@pytest.mark.parametrize("source", [*FLOATS, "f8E5M2", "f8E4M3FN"])
def test_float_conversions_with_rounding(source: str) -> None:
    a = random_numbers(NUMPY[source], COUNT, 11, special=True)
    steps = []
    for target in (*FLOATS, "f8E5M2", "f8E4M3FN"):
        narrowing = np.dtype(NUMPY[target]).itemsize < np.dtype(NUMPY[source]).itemsize
        for rounding in ("rtne", "rtz") if narrowing else ():
            steps.append((f"tt.fp_to_fp %a0, rounding = {rounding} : {tile(source)} -> {tile(target)}", target))
        if np.dtype(NUMPY[target]).itemsize > np.dtype(NUMPY[source]).itemsize:
            steps.append((f"tt.fp_to_fp %a0 : {tile(source)} -> {tile(target)}", target))
    if steps:
        compare((source,), (a,), steps)


@pytest.mark.parametrize(("source", "target"), [("i32", "f32"), ("f64", "i64"), ("i16", "bf16"), ("f16", "i16")])
def test_bits(source: str, target: str) -> None:
    a: Any = random_numbers(NUMPY[source], COUNT, 12)
    steps = [(f"{op} %a0 : {tile(source)} {word} {tile(target)}", target) for op, word in (
        ("arith.bitcast", "to"), ("tt.bitcast", "->"))]
    compare((source,), (a,), steps)
