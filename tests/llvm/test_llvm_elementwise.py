"""Each elementwise lowering computes what the op means, on every level of processors that this host has.

The types of an op are functions of one module.
"""

from itertools import product

import numpy as np
import pytest
from llvm_ops import FP8, INTEGERS, LEVELS, WIDE, make_op, module_for, run_op, run_ops, samples

import tilewright.dialects  # noqa: F401  declares the ops
from tilewright.backends.llvm.machine import emit_assembly, host_target
from tilewright.dialects.arithmetic_semantics import ARITHMETIC_SEMANTICS
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.ir.types import FLOATS, f16, f32, f64, i1, i8, i16, i32, i64

SHAPES = [
    (LEVELS[-1], 16),
    pytest.param((LEVELS[0], 4), marks=pytest.mark.slow),
    pytest.param((LEVELS[-1], 1), marks=pytest.mark.slow),
    pytest.param((LEVELS[len(LEVELS) // 2], 8), marks=pytest.mark.slow),
]
PAIRS = 4000
RNG = np.random.default_rng(7)

INTEGER_OPS = [
    "addi",
    "subi",
    "muli",
    "divsi",
    "divui",
    "remsi",
    "remui",
    "andi",
    "ori",
    "xori",
    "shli",
    "shrsi",
    "shrui",
    "minsi",
    "maxsi",
    "minui",
    "maxui",
    "ceildivsi",
    "ceildivui",
    "floordivsi",
]
FLOAT_OPS = ["addf", "subf", "mulf", "divf", "minnumf", "maxnumf", "minimumf", "maximumf"]


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def machine(request):
    cpu, lanes = request.param
    return host_target(cpu), lanes


def same(result, expected):
    """Equal, zeros with their sign, NaN for NaN."""
    if result.dtype.kind in "biu":
        return result == expected
    with np.errstate(all="ignore"):
        a, b = result.astype(np.float64), expected.astype(np.float64)
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def check(machine, *cases):
    """Each `(op, arrays)` computes what the op means."""
    for (op, arrays), result in zip(cases, run_ops(cases, *machine), strict=True):
        with np.errstate(all="ignore"):
            expected = np.asarray(ARITHMETIC_SEMANTICS[op.name](op, *arrays)).astype(result.dtype)
        wrong = ~same(result, expected)
        rows = [(*(a[i] for a in arrays), result[i], expected[i]) for i in np.flatnonzero(wrong)[:5]]
        assert not wrong.any(), (op.name, *(value.type for value in (*op.operands, *op.results)), rows)


@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integers(name, machine):
    cases = []
    for type in INTEGERS:
        arrays = samples(type, RNG, PAIRS), np.resize(samples(type, RNG, 997), PAIRS)
        cases.append((make_op(f"arith.{name}", [type, type], type), arrays))
    check(machine, *cases)


@pytest.mark.parametrize("name", ["divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"])
def test_division_of_bytes_exhaustively(name, machine):
    a, b = (x.ravel().astype(np.int8) for x in np.meshgrid(np.arange(256), np.arange(256)))
    check(machine, (make_op(f"arith.{name}", [i8, i8], i8), (a, b)))


@pytest.mark.parametrize("name", ["divsi", "divui"])
def test_division_next_to_multiples(name, machine):
    """The quotients that a rounding division could get wrong: one below and at multiples of the divisor."""
    for type, dtype in ((i16, np.int16), (i32, np.int32)):
        b = samples(type, RNG, PAIRS)
        a = (b * RNG.integers(-50000, 50000, PAIRS).astype(dtype)).astype(dtype)
        near = np.concatenate([(a + dtype(delta)).astype(dtype) for delta in (-1, 0, 1)])
        check(machine, (make_op(f"arith.{name}", [type, type], type), (near, np.tile(b, 3))))


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_integer_comparisons(type, machine):
    arrays = samples(type, RNG, PAIRS), samples(type, RNG, PAIRS)[::-1].copy()
    predicates = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    check(machine, *((make_op("arith.cmpi", [type, type], i1, predicate=p), arrays) for p in predicates))


@pytest.mark.parametrize("type", [*WIDE, *FP8[:2]], ids=str)
def test_floats(type, machine):
    arrays = samples(type, RNG, PAIRS), np.resize(samples(type, RNG, 997), PAIRS)
    with np.errstate(invalid="ignore"):
        quiet = tuple(np.where(np.isnan(a.astype(np.float64)), np.array(np.nan, a.dtype), a) for a in arrays)
    # a signalling NaN may give NaN, as in IEEE 754-2008's maxNum
    of = {name: quiet if name in ("maxnumf", "minnumf") else arrays for name in FLOAT_OPS}
    check(machine, *((make_op(f"arith.{name}", [type, type], type), of[name]) for name in FLOAT_OPS))


EXACT = [
    *product(["arith.negf", "math.absf", "math.sqrt", "math.floor", "math.ceil"], WIDE),
    *(("math.rsqrt", type) for type in WIDE if type not in (f32, f64)),  # two roundings: see the accuracy tests
]


def test_float_functions_that_are_exact(machine):
    check(machine, *((make_op(name, [type], type), (samples(type, RNG, PAIRS),)) for name, type in EXACT))


PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


@pytest.mark.parametrize("type", WIDE, ids=str)
def test_float_comparisons(type, machine):
    arrays = samples(type, RNG, PAIRS), np.resize(samples(type, RNG, 997), PAIRS)
    check(machine, *((make_op("arith.cmpf", [type, type], i1, predicate=p), arrays) for p in PREDICATES))


FLOATS_ALL = [*WIDE, *FP8]


def numbers_to_convert(source):
    """All numbers of 16 bits; of more, those that formats of fewer bits have, their neighbours, and tiny ones."""
    values = samples(source, RNG, 4 * PAIRS)
    if source.bits == 16:
        return np.arange(65536, dtype=np.uint16).view(values.dtype)
    if source.bits < 16:
        return values
    with np.errstate(all="ignore"):
        halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(values.dtype)
        tiny = (RNG.standard_normal(PAIRS) * 2.0 ** RNG.integers(-40, 20, PAIRS)).astype(values.dtype)
        return np.concatenate([values, halves, np.nextafter(halves, values.dtype.type(0)), tiny])


def conversion(source, target):
    """The op that converts, and the name of the op whose semantics it has."""
    name = "arith.extf" if source.bits < target.bits else "arith.truncf" if source.bits > target.bits else "tt.fp_to_fp"
    return make_op(name, [source], target), "arith.truncf" if name == "tt.fp_to_fp" else name


@pytest.mark.parametrize("source", FLOATS_ALL, ids=str)
def test_float_conversions(source, machine):
    values = numbers_to_convert(source)
    conversions = [conversion(source, target) for target in FLOATS_ALL if source is not target]
    results = run_ops([(op, (values,)) for op, _ in conversions], *machine)
    for (op, semantics), result in zip(conversions, results, strict=True):
        with np.errstate(all="ignore"):
            expected = ARITHMETIC_SEMANTICS[semantics](op, values)
            codes = (x.view(f"i{x.dtype.itemsize}") for x in (result, expected))
            signs = [code < 0 for code in codes]
            is_nan = np.isnan(expected.astype(np.float64))
        wrong = ~same(result, expected) | ((signs[0] != signs[1]) & ~is_nan)
        rows = [(values[i], result[i], expected[i]) for i in np.flatnonzero(wrong)[:5]]
        assert not wrong.any(), (op.results[0].type, rows)


@pytest.mark.parametrize("source", [f32, f64], ids=str)
@pytest.mark.parametrize("target", [t for t in FLOATS_ALL if t.bits < 32], ids=str)
def test_rounding_towards_zero(source, target, machine):
    values = (RNG.standard_normal(PAIRS) * 2.0 ** RNG.integers(-20, 12, PAIRS)).astype(np.float32)
    values = values.astype(np.float32 if source is f32 else np.float64)
    op = make_op("tt.fp_to_fp", [source], target, rounding="rtz")
    result = run_op(op, *machine, values)
    nearest = run_op(make_op("tt.fp_to_fp", [source], target, rounding="rtne"), *machine, values)
    wide = result.astype(np.float64)
    finite = np.isfinite(nearest.astype(np.float64))
    assert (np.abs(wide) <= np.abs(values)).all()
    assert np.isfinite(wide).all()
    step = np.abs(wide - values)
    assert (np.abs(nearest.astype(np.float64) - values)[finite] <= step[finite]).all()
    codes = result.view(f"i{result.dtype.itemsize}").astype(int), nearest.view(f"i{result.dtype.itemsize}").astype(int)
    assert (np.abs(codes[0] - codes[1])[finite & (wide != 0)] <= 1).all()


@pytest.mark.parametrize("integer", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
def test_integers_to_floats(name, integer, machine):
    values = samples(integer, RNG, PAIRS)
    check(machine, *((make_op(f"arith.{name}", [integer], type), (values,)) for type in FLOATS_ALL))


@pytest.mark.parametrize("type", WIDE, ids=str)
@pytest.mark.parametrize("name", ["fptosi", "fptoui"])
def test_floats_to_integers_saturate(name, type, machine):
    values = samples(type, RNG, PAIRS)
    with np.errstate(all="ignore"):
        exact = values.astype(np.float64).tolist()  # Python compares them with integers exactly, NumPy does not
    integers = INTEGERS[1:]
    results = run_ops([(make_op(f"arith.{name}", [type], integer), (values,)) for integer in integers], *machine)
    for integer, result in zip(integers, results, strict=True):
        bits = integer.bits
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if name == "fptosi" else (0, 2**bits - 1)
        for value, got in zip(exact, result, strict=True):
            expected = 0 if np.isnan(value) else low if value < low else high if value > high else int(value)
            assert int(got) % 2**bits == expected % 2**bits, (integer, value, got)


@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integer_casts(source, machine):
    def names(target):
        return ("trunci",) if source.bits > target.bits else ("extsi", "extui") if source.bits < target.bits else ()

    values = samples(source, RNG, PAIRS)
    ops = [make_op(f"arith.{name}", [source], target) for target in INTEGERS for name in names(target)]
    check(machine, *((op, (values,)) for op in ops))


def test_select(machine):
    cases = []
    for type in (*INTEGERS, *WIDE, *FP8):
        arrays = samples(i1, RNG, PAIRS), samples(type, RNG, PAIRS), samples(type, RNG, PAIRS)[::-1].copy()
        cases.append((make_op("arith.select", [i1, type, type], type), arrays))
    check(machine, *cases)


@pytest.mark.parametrize("type", [f32, f64], ids=str)
def test_fma(type, machine):
    if type is f64 and not machine[0].has_fma:
        pytest.skip("two roundings without FMA")
    arrays = [samples(type, RNG, 500)[RNG.permutation(500)] for _ in range(3)]
    check(machine, (make_op("math.fma", [type] * 3, type), arrays))


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_mulhiui(type, machine):
    a, b = samples(type, RNG, PAIRS), np.resize(samples(type, RNG, 997), PAIRS)
    result = run_op(make_op("tt.mulhiui", [type, type], type), *machine, a, b)
    if type is i1:
        return
    mask = 2**type.bits - 1
    expected = [((int(x) & mask) * (int(y) & mask)) >> type.bits for x, y in zip(a, b, strict=True)]
    assert [int(x) & mask for x in result] == expected


def test_absi(machine):
    check(machine, *((make_op("math.absi", [type], type), (samples(type, RNG, PAIRS),)) for type in INTEGERS[1:]))


@pytest.mark.parametrize("name", ["ctlz", "ctpop"])
@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_counts_of_bits(type, name, machine):
    near_powers = [(1 << place) + step for place in range(type.bits) for step in (-1, 0, 1)]
    edges = (np.array(near_powers, np.uint64) & np.uint64((1 << type.bits) - 1)).astype(f"u{-(-type.bits // 8)}")
    values = np.concatenate([samples(type, RNG, PAIRS), edges.view(numpy_dtype(type))])
    result = run_op(op := make_op(f"math.{name}", [type], type), *machine, values)
    unsigned = [int(x) & (1 << type.bits) - 1 for x in values]
    counted = [x.bit_count() if name == "ctpop" else type.bits - x.bit_length() for x in unsigned]
    assert [int(x) for x in result] == counted
    np.testing.assert_array_equal(ARITHMETIC_SEMANTICS[op.name](op, values), result)


@pytest.mark.parametrize("type", [f16, f32], ids=str)
def test_clamp(type, machine):
    x, low, high = (samples(type, RNG, 300)[RNG.permutation(300)] for _ in range(3))
    low, high = np.nan_to_num(np.fmin(low, high)), np.nan_to_num(np.fmax(low, high))
    for mode in ("none", "all"):
        op = make_op("tt.clampf", [type] * 3, type, propagateNan=mode)
        assert same(run_op(op, *machine, x, low, high), op.definition.semantics(op, x, low, high)).all()


def test_bitcasts(machine):
    for source, target in ((f32, i32), (i32, f32), (f16, i16), (i16, WIDE[1]), (i64, f64), (FP8[0], i8)):
        x = samples(source, RNG, 64)
        result = run_op(make_op("tt.bitcast", [source], target), *machine, x)
        assert result.tobytes() == x.tobytes()


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("cpu", LEVELS)
def test_extremes_of_both_zeros(cpu, lanes):
    """-0 is less than 0, in whatever order they come and however many there are, unless the op says "nsz"."""
    for type in WIDE:
        a, b = (np.array(zeros, numpy_dtype(type)) for zeros in ([0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0]))
        names = [f"arith.{name}" for name in ("minnumf", "maxnumf", "minimumf", "maximumf")]
        check((host_target(cpu), lanes), *((make_op(name, [type, type], type), (a, b)) for name in names))
        either = run_op(make_op("arith.maxnumf", [type, type], type, fastmath="nsz"), host_target(cpu), lanes, a, b)
        assert (either == 0).all()
        for mode in ("none", "all"):
            clamp = make_op("tt.clampf", [type] * 3, type, propagateNan=mode)
            found = run_op(clamp, host_target(cpu), lanes, a, b, np.ones_like(a))
            assert np.signbit(found.astype(np.float64)).tolist() == [False, False, False, True]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(("element", "lanes"), [("f32", 8), ("f64", 4)])
def test_zeros_are_ordered_by_two_selections(name, element, lanes):
    """An op that says "nsz" does without them."""
    type, target = FLOATS[element], host_target("x86-64-v3")
    ops = [make_op(f"arith.{name}numf", [type, type], type, **flags) for flags in ({}, {"fastmath": "nsz"})]
    ordered, either = (emit_assembly(module_for(op, target, lanes), target).count("\tvblend") for op in ops)
    assert ordered == either + 2
