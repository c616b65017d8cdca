"""Elementwise ops on a GPU compute what they mean, or what the hardware says where that differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from element_ops import FP8, INTEGERS, WIDE, Array, Case, case, results_of, samples
from simulated import compiled, launch, run

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.llvm.nvptx import emit_ptx
from tilewright.backends.nvidia.lower.lowerer import Target
from tilewright.backends.nvidia.lower.module import LowerOptions, lower_module
from tilewright.dialects.arithmetic_semantics import ARITHMETIC_SEMANTICS
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.ir.parser import parse_module
from tilewright.ir.types import Type, bf16, f16, f32, f64, i1, i8, i16, i32, i64

CAPABILITIES = [pytest.param(c, marks=pytest.mark.slow) for c in (75, 80, 89, 90, 100, 120)]
"""One device of each family; 8.9 is the first with conversions of 8-bit floats."""
WITH_FAST = [90, *(each for each in CAPABILITIES if each.values != (90,))]
"""Capabilities for tests of which one case runs always."""
PREDICATES = {
    "i": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "f": ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
}


def inputs_of(cases: Sequence[Case]) -> dict[tuple[Type, int], Array]:
    keys = {(type, position) for each in cases for position, type in enumerate(each.operands)}
    return {key: samples(*key) for key in sorted(keys, key=lambda key: (key[0].text, key[1]))}


def check(
    cases: Sequence[Case], capability: int, *, units: int = 0, inputs: dict[tuple[Type, int], Array] | None = None
) -> None:
    """All cases give what they mean, up to `units` in the last place."""
    given = inputs or inputs_of(cases)
    for each, found in zip(cases, results_of(cases, given, capability), strict=True):
        arrays = [given[type, position] for position, type in enumerate(each.operands)]
        with np.errstate(all="ignore"):
            expected = np.asarray(ARITHMETIC_SEMANTICS[each.name](each.alone(), *arrays)).astype(found.dtype)
        wrong = ~same(found, expected, units)
        shown = [(*(a[i] for a in arrays), found[i], expected[i]) for i in np.flatnonzero(wrong)[:5]]
        assert not wrong.any(), (each, shown)


def same(found: Array, expected: Array, units: int = 0) -> Any:
    if found.dtype.kind in "biu":
        return found == expected
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), expected.astype(np.float64)
        close = np.abs(a - b) <= units * np.abs(b) * float(_epsilon(found))
    return (a == b) | (np.isnan(a) & np.isnan(b)) | close


def _epsilon(array: Array) -> float:
    return {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}.get(array.dtype.name, 2.0**-52)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_integers(capability: int) -> None:
    names = ("addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui")
    shifts = ("shli", "shrsi", "shrui")
    cases = [case(f"arith.{name}", [type, type], type) for type in INTEGERS for name in (*names, *shifts)]
    cases += [case("arith.cmpi", [t, t], i1, predicate=p) for t in INTEGERS for p in PREDICATES["i"]]
    cases += [case("math.absi", [type], type) for type in INTEGERS[1:]]
    cases += [case(f"math.{name}", [type], type) for name in ("ctlz", "ctpop") for type in INTEGERS]
    check(cases, capability)


@pytest.mark.parametrize("capability", WITH_FAST)
def test_shifts_by_numbers_of_which_the_instructions_see_one_half(capability: int) -> None:
    cases = [case(f"arith.{name}", [i64, i64], i64) for name in ("shli", "shrsi", "shrui")]
    inputs = inputs_of(cases)
    amounts = np.array([0, 3, 63, 64, 2**32, 2**32 + 3, 2**40, -(2**63), -(2**63) + 1, -(2**32)], np.int64)
    inputs[i64, 1] = np.resize(amounts, len(inputs[i64, 1]))
    check(cases, capability, inputs=inputs)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_division(capability: int) -> None:
    """Divisors are not 0, and not -1 for the smallest integer: there the hardware may give anything."""
    names = ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi")
    cases = [case(f"arith.{name}", [type, type], type) for type in INTEGERS[1:] for name in names]
    inputs = inputs_of(cases)
    for (type, position), array in inputs.items():
        if position:
            array[array == 0] = 5
            array[(inputs[type, 0] == np.iinfo(array.dtype).min) & (array == -1)] = 3
    check(cases, capability, inputs=inputs)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_upper_half_of_products(capability: int) -> None:
    types = INTEGERS[1:]
    cases = [case("tt.mulhiui", [type, type], type) for type in types]
    inputs = inputs_of(cases)
    for type, found in zip(types, results_of(cases, inputs, capability), strict=True):
        mask = 2**type.bits - 1
        pairs = zip(inputs[type, 0].tolist(), inputs[type, 1].tolist(), strict=True)
        assert [x & mask for x in found.tolist()] == [(a & mask) * (b & mask) >> type.bits for a, b in pairs]


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_floats(capability: int) -> None:
    names = ("addf", "subf", "mulf", "maximumf", "minimumf")
    cases = [case(f"arith.{name}", [type, type], type) for type in WIDE for name in names]
    cases += [case("arith.cmpf", [t, t], i1, predicate=p) for t in WIDE for p in PREDICATES["f"]]
    cases += [case(name, [type], type) for type in WIDE for name in ("arith.negf", "math.absf")]
    cases += [case(name, [type], type) for type in WIDE for name in ("math.floor", "math.ceil")]
    cases += [case("arith.divf", [type, type], type) for type in (f16, f64)]
    cases += [case("arith.select", [i1, type, type], type) for type in (*WIDE, *INTEGERS, *FP8)]
    check(cases, capability)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_extremes_prefer_numbers(capability: int) -> None:
    cases = [case(f"arith.{name}", [type, type], type) for type in WIDE for name in ("maxnumf", "minnumf")]
    inputs = inputs_of(cases)
    for array in inputs.values():  # a signalling NaN may stay one
        array[np.isnan(array.astype(np.float64))] = np.nan
    check(cases, capability, inputs=inputs)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_functions(capability: int) -> None:
    """Functions use instructions of limited accuracy in f32, and are as elsewhere in f64; for numbers not too large."""
    names = ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "tanh", "sqrt", "rsqrt")
    for type, units in ((f32, 12), (f64, 4), (f16, 1), (bf16, 1)):
        cases = [case(f"math.{name}", [type], type) for name in names]
        values = (np.random.default_rng(3).standard_normal(512) * 4).astype(numpy_dtype(type))
        check(cases, capability, units=units, inputs={(type, 0): np.abs(values) + values.dtype.type(0.5)})
    check([case("arith.divf", [f32, f32], f32)], capability, units=2)


@tw.jit
def power_of_two(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.exp2(tl.load(x + i)))


@pytest.mark.parametrize("flush", [True, False])
def test_powers_of_two_flush_denormals_where_the_program_lets_them(flush: bool) -> None:
    x = np.array([-127.0, -140.0, -126.0, 3.0] * 32, np.float32)
    made = compiled(power_of_two, [x, x], B=128, enable_reflect_ftz=flush)
    assert ("ex2.approx.ftz.f32" in made.asm["ptx"], "ex2.approx.f32" in made.asm["ptx"]) == (flush, not flush)
    found = launch(made, (1,), [x, np.zeros_like(x)])[1]
    assert found[:4].tolist() == [0.0 if flush else 2.0**-127, 0.0 if flush else 2.0**-140, 2.0**-126, 8.0]


@tw.jit
def logarithms(x, one_more, decimal, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i)
    tl.store(one_more + i, tl.extra.libdevice.log1p(value))
    tl.store(decimal + i, tl.extra.libdevice.log10(value))


@pytest.mark.slow
def test_logarithms() -> None:
    rng = np.random.default_rng(0)
    edges = [0.0, -0.0, np.inf, -1.0, -2.0, np.nan, 1e30, 3e38, 1e-40, 2.0**-24]
    values = [rng.standard_normal(400) * 10.0 ** rng.integers(-12, 5, 400), np.linspace(-0.99, 3, 614), edges]
    x = np.concatenate(values).astype(np.float32)
    _, one_more, decimal = run(logarithms, (1,), x, np.zeros_like(x), np.zeros_like(x), B=1024)
    with np.errstate(all="ignore"):
        for found, rule in ((one_more, np.log1p), (decimal, np.log10)):
            expected = rule(x.astype(np.float64))
            assert same(found, expected.astype(np.float32), 2).all()
            assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


@tw.jit
def natural_and_binary(x, natural, binary, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i)
    tl.store(natural + i, tl.log(value))
    tl.store(binary + i, tl.log2(value))


def test_logarithms_of_what_is_rare_and_of_what_is_not() -> None:
    """Within one unit in the last place from the smallest denormal to the largest number, and what IEEE says beyond."""
    rng = np.random.default_rng(1)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -1e-40, -1e-45, 1e-45, 1e-40, 2.0**-126, 3.4028235e38, 1.0]
    values = [rng.uniform(0.7, 1.42, 500), 2.0 ** rng.uniform(-149, 127, 511), edges]
    x = np.concatenate(values).astype(np.float32)
    _, natural, binary = run(natural_and_binary, (1,), x, np.zeros_like(x), np.zeros_like(x), B=1024)
    with np.errstate(all="ignore"):
        for found, rule in ((natural, np.log), (binary, np.log2)):
            expected = rule(x.astype(np.float64))
            ordinary = np.isfinite(expected)
            unit = np.spacing(np.abs(expected[ordinary]).astype(np.float32))
            assert np.max(np.abs(found[ordinary] - expected[ordinary]) / unit) < 1
            np.testing.assert_array_equal(found[~ordinary], expected[~ordinary].astype(np.float32))


@pytest.mark.parametrize("capability", WITH_FAST)
def test_precise_functions(capability: int) -> None:
    cases = [case("tt.precise_divf", [f32, f32], f32), case("tt.precise_sqrt", [f32], f32)]
    inputs = inputs_of(cases)
    a, b = inputs[f32, 0], inputs[f32, 1]
    quotient, root = results_of(cases, inputs, capability)
    with np.errstate(all="ignore"):
        assert same(quotient, a / b).all()
        assert same(root, np.sqrt(a)).all()


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_conversions_of_integers(capability: int) -> None:
    cases = []
    for source in INTEGERS:
        for target in INTEGERS:
            names = ("trunci",) if source.bits > target.bits else ("extsi", "extui") if source is not target else ()
            cases += [case(f"arith.{name}", [source], target) for name in names]
        exact = (f16, f32, f64) if source.bits <= 32 else (f64,)
        cases += [case(f"arith.{name}", [source], target) for target in exact for name in ("sitofp", "uitofp")]
    check(cases, capability)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_floats_to_integers_saturate(capability: int) -> None:
    targets = (i8, i16, i32, i64)
    cases = [case(f"arith.fpto{s}i", [source], target) for source in WIDE for target in targets for s in "su"]
    inputs = inputs_of(cases)
    for each, found in zip(cases, results_of(cases, inputs, capability), strict=True):
        bits, (source,) = each.result.bits, each.operands
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if each.name == "arith.fptosi" else (0, 2**bits - 1)
        for value, got in zip(inputs[source, 0].astype(np.float64).tolist(), found.tolist(), strict=True):
            expected = 0 if np.isnan(value) else low if value < low else high if value > high else int(value)
            assert got % 2**bits == expected % 2**bits, (each, value, got)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_conversions_of_floats(capability: int) -> None:
    cases = []
    for source in (*WIDE, *FP8):
        for target in (*WIDE, *FP8):
            if source.bits < target.bits:
                cases.append(case("arith.extf", [source], target))
            elif source.bits > target.bits > 8:
                cases.append(case("arith.truncf", [source], target))
    check(cases, capability)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_conversions_to_eight_bits(capability: int) -> None:
    """Beyond the range, infinity included, comes the largest number, on devices without such conversions, too."""
    sources = (f16, bf16, f32)
    cases = [case("tt.fp_to_fp", [source], target, rounding="rtne") for source in sources for target in FP8]
    inputs = inputs_of(cases)
    for each, found in zip(cases, results_of(cases, inputs, capability), strict=True):
        with np.errstate(all="ignore"):
            wide = inputs[each.operands[0], 0].astype(np.float32)
            most = float(ml_dtypes.finfo(found.dtype).max)
            wide = np.where(np.isnan(wide), wide, np.clip(wide, -most, most))
            expected = wide.astype(found.dtype)
        wrong = ~same(found, expected)
        assert not wrong.any(), (each, [(wide[i], found[i], expected[i]) for i in np.flatnonzero(wrong)[:5]])


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_conversions_from_eight_bits(capability: int) -> None:
    cases = [case("tt.fp_to_fp", [source], target) for source in FP8 for target in (f16, bf16, f32)]
    inputs = {(type, 0): np.resize(np.arange(256, dtype=np.uint8), 512).view(numpy_dtype(type)) for type in FP8}
    for each, found in zip(cases, results_of(cases, inputs, capability), strict=True):
        assert same(found, inputs[each.operands[0], 0].astype(np.float32).astype(found.dtype)).all(), each


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_rounding_towards_zero(capability: int) -> None:
    cases = [case("tt.fp_to_fp", [f32], target, rounding="rtz") for target in (f16, bf16, *FP8[:2])]
    rng = np.random.default_rng(5)
    values = (rng.standard_normal(512) * 2.0 ** rng.integers(-20, 12, 512)).astype(np.float32)
    for each, found in zip(cases, results_of(cases, {(f32, 0): values}, capability), strict=True):
        wide, nearest = found.astype(np.float64), values.astype(found.dtype).astype(np.float64)
        assert (np.abs(wide) <= np.abs(values)).all(), each
        finite = np.isfinite(nearest)
        assert (np.abs(nearest - values)[finite] <= np.abs(wide - values)[finite]).all(), each


@pytest.mark.parametrize("capability", WITH_FAST)
def test_bits(capability: int) -> None:
    pairs = ((f32, i32), (i32, f32), (f16, i16), (i16, bf16), (i64, f64), (FP8[0], i8))
    cases = [case("tt.bitcast", [source], target) for source, target in pairs]
    inputs = inputs_of(cases)
    for each, found in zip(cases, results_of(cases, inputs, capability), strict=True):
        assert found.tobytes() == inputs[each.operands[0], 0].tobytes(), each


def _finite(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(values.astype(np.float64)), values, values.dtype.type(2.0))


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_clamp(capability: int) -> None:
    cases = [case("tt.clampf", [type] * 3, type, propagateNan=mode) for type in WIDE for mode in ("none", "all")]
    inputs = inputs_of(cases)
    for type in WIDE:
        a, b = (_finite(inputs[type, place]) for place in (1, 2))
        inputs[type, 1], inputs[type, 2] = np.where(a < b, a, b), np.where(a < b, b, a)
    for each, found in zip(cases, results_of(cases, inputs, capability), strict=True):
        x, low, high = (inputs[each.operands[0], place].astype(np.float64) for place in range(3))
        start = np.maximum(x, low) if dict(each.keywords)["propagateNan"] == "all" else np.fmax(x, low)
        assert same(found, np.minimum(start, high).astype(found.dtype)).all(), each


@pytest.mark.slow
def test_equal_divisions_are_done_once() -> None:
    """Instructions that LLVM does not know still are computations to it."""
    ops = "%q = arith.divsi %n, %m : i32 %r = arith.divsi %n, %m : i32 %s = arith.addi %q, %r : i32"
    body = f"{ops} tt.store %p, %s : !tt.ptr<i32> tt.return"
    text = f"module {{ tt.func public @f(%p: !tt.ptr<i32>, %n: i32, %m: i32) {{ {body} }} }}"
    lowered = lower_module(parse_module(text), LowerOptions(Target(80, 84)))
    assert emit_ptx(lowered.text, "sm_80", "+ptx84").count("div.s32") == 1
