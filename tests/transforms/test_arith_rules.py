"""Identities, canonical forms and constant folding of arithmetic; with the cases next to them that must stay."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rewriting_cases import check, function

from tilewright.ir.attributes import Number
from tilewright.ir.declare import OPS
from tilewright.transforms.canonicalize import canonicalize


def binary(name: str, constant: str, type: str = "i32") -> str:
    return f"%c = arith.constant {constant} : {type}\n%r = arith.{name} %x, %c : {type}\ntt.return %r : {type}"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "constant"),
    [
        *((name, "0") for name in ("addi", "subi", "ori", "xori", "shli", "shrsi", "shrui")),
        *((name, "1") for name in ("muli", "divsi", "divui", "ceildivsi", "ceildivui", "floordivsi")),
        ("andi", "-1"),
    ],
)
def test_neutral_element(name: str, constant: str) -> None:
    check(canonicalize, "%x: i32", binary(name, constant), "tt.return %x : i32")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "constant", "result"),
    [("muli", "0", "0"), ("andi", "0", "0"), ("ori", "-1", "-1"), ("remsi", "1", "0"), ("remui", "1", "0")],
)
def test_absorbing_element(name: str, constant: str, result: str) -> None:
    after = f"%c = arith.constant {result} : i32\ntt.return %c : i32"
    check(canonicalize, "%x: i32", binary(name, constant), after)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "constant"),
    [
        *(("addi", "1"), ("muli", "2"), ("muli", "8"), ("divsi", "8"), ("divsi", "0"), ("remsi", "8")),
        *(("remsi", "0"), ("shli", "32"), ("andi", "1"), ("minsi", "0")),
    ],
)
def test_other_constants_stay(name: str, constant: str) -> None:
    check(canonicalize, "%x: i32", binary(name, constant), None)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "constant", "is_identity"),
    [
        *(("addf", "-0.0", True), ("addf", "0.0", False), ("subf", "0.0", True), ("subf", "-0.0", False)),
        *(("mulf", "1.0", True), ("mulf", "0.0", False), ("divf", "1.0", True), ("divf", "0.0", False)),
        *(("mulf", "-1.0", False), ("maxnumf", "0.0", False)),
    ],
)
def test_float_identities_respect_nan_and_signed_zero(name: str, constant: str, is_identity: bool) -> None:
    after = "tt.return %x : f32" if is_identity else None
    check(canonicalize, "%x: f32", binary(name, constant, "f32"), after)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "type", "after"),
    [
        ("subi", "i32", "%c = arith.constant 0 : i32\ntt.return %c : i32"),
        ("xori", "i32", "%c = arith.constant 0 : i32\ntt.return %c : i32"),
        *((name, "i32", "tt.return %x : i32") for name in ("andi", "ori", "minsi", "maxsi", "minui", "maxui")),
        *((name, "f32", "tt.return %x : f32") for name in ("minnumf", "maxnumf", "minimumf", "maximumf")),
        *((name, "f32", None) for name in ("subf", "divf", "addf")),
        *((name, "i32", None) for name in ("divsi", "remsi", "addi")),
    ],
)
def test_with_itself(name: str, type: str, after: str | None) -> None:
    check(canonicalize, f"%x: {type}", f"%r = arith.{name} %x, %x : {type}\ntt.return %r : {type}", after)


XY = "%x: i32, %y: i32"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("addi %x, %y", "subi %a, %y", "%x"),
        ("addi %x, %y", "subi %a, %x", "%y"),
        ("subi %x, %y", "addi %a, %y", "%x"),
        ("subi %x, %y", "addi %a, %x", None),
        ("addi %x, %y", "addi %a, %y", None),
    ],
)
def test_sum_and_difference(first: str, second: str, result: str | None) -> None:
    before = f"%a = arith.{first} : i32\n%r = arith.{second} : i32\ntt.return %r : i32"
    check(canonicalize, XY, before, None if result is None else f"tt.return {result} : i32")


def test_constant_moves_to_the_right() -> None:
    body = "%c = arith.constant 3 : i32\n%r = arith.{} : i32\ntt.return %r : i32"
    check(canonicalize, "%x: i32", body.format("addi %c, %x"), body.format("addi %x, %c"))
    check(canonicalize, "%x: i32", body.format("subi %c, %x"), None)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("first", "second", "after"),
    [
        ("addi", "addi", "addi 8"),
        ("muli", "muli", "muli 15"),
        ("andi", "andi", "andi 1"),
        ("ori", "ori", "ori 7"),
        ("xori", "xori", "xori 6"),
        ("addi", "subi", "addi -2"),
        ("subi", "addi", "addi 2"),
        ("subi", "subi", "subi 8"),
        ("shli", "shli", None),
        ("divsi", "divsi", None),
        ("muli", "addi", None),
    ],
)
def test_chain_of_constants(first: str, second: str, after: str | None) -> None:
    before = (
        "%c = arith.constant 3 : i32\n%d = arith.constant 5 : i32\n"
        f"%a = arith.{first} %x, %c : i32\n%r = arith.{second} %a, %d : i32\ntt.return %r : i32"
    )
    check(canonicalize, "%x: i32", before, None if after is None else binary(*after.split()))


def test_float_chains_are_not_reassociated() -> None:
    before = (
        "%c = arith.constant 3.0 : f32\n%d = arith.constant 5.0 : f32\n"
        "%a = arith.addf %x, %c : f32\n%r = arith.addf %a, %d : f32\ntt.return %r : f32"
    )
    check(canonicalize, "%x: f32", before, None)


@pytest.mark.quick
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_comparison_with_itself(predicate: str) -> None:
    truth = str(predicate in ("eq", "sle", "sge", "ule", "uge")).lower()
    before = f"%r = arith.cmpi {predicate}, %x, %x : i32\ntt.return %r : i1"
    check(canonicalize, "%x: i32", before, f"%c = arith.constant {truth}\ntt.return %c : i1")


def test_float_comparison_with_itself_stays() -> None:
    check(canonicalize, "%x: f32", "%r = arith.cmpf oeq, %x, %x : f32\ntt.return %r : i1", None)


def test_comparison_mirrors() -> None:
    body = "%c = arith.constant 3 : i32\n%r = arith.cmpi {} : i32\ntt.return %r : i1"
    check(canonicalize, "%x: i32", body.format("slt, %c, %x"), body.format("sgt, %x, %c"))
    check(canonicalize, "%x: i32", body.format("uge, %c, %x"), body.format("ule, %x, %c"))
    check(canonicalize, "%x: i32", body.format("eq, %c, %x"), body.format("eq, %x, %c"))


def test_comparison_of_truth_values() -> None:
    body = "%c = arith.constant {1}\n%r = arith.cmpi {0}, %x, %c : i1\ntt.return %r : i1"
    check(canonicalize, "%x: i1", body.format("eq", "true"), "tt.return %x : i1")
    check(canonicalize, "%x: i1", body.format("ne", "false"), "tt.return %x : i1")
    check(canonicalize, "%x: i1", body.format("ne", "true"), None)


def test_truth_of_extended() -> None:
    before = (
        "%c = arith.constant 0 : i32\n%e = arith.extui %x : i1 to i32\n"
        "%r = arith.cmpi {}, %e, %c : i32\ntt.return %r : i1"
    )
    check(canonicalize, "%x: i1", before.format("ne"), "tt.return %x : i1")
    check(canonicalize, "%x: i1", before.format("eq"), None)


def test_not_of_comparison() -> None:
    before = "%t = arith.constant true\n%a = arith.cmp{} %x, %y : {}\n%r = arith.xori %a, %t : i1\ntt.return %r : i1"
    check(canonicalize, XY, before.format("i slt,", "i32"), "%r = arith.cmpi sge, %x, %y : i32\ntt.return %r : i1")
    check(canonicalize, XY, before.format("i eq,", "i32"), "%r = arith.cmpi ne, %x, %y : i32\ntt.return %r : i1")
    check(canonicalize, "%x: f32, %y: f32", before.format("f olt,", "f32"), None)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("first", "second", "after"),
    [
        ("extsi i8 i16", "extsi i16 i32", "extsi i8 i32"),
        ("extui i8 i16", "extui i16 i32", "extui i8 i32"),
        ("extui i8 i16", "extsi i16 i32", "extui i8 i32"),
        ("extsi i8 i16", "extui i16 i32", None),
        ("trunci i64 i32", "trunci i32 i8", "trunci i64 i8"),
        ("extsi i8 i32", "trunci i32 i8", ""),
        ("extsi i8 i32", "trunci i32 i16", "extsi i8 i16"),
        ("extui i16 i32", "trunci i32 i8", "trunci i16 i8"),
        ("trunci i32 i8", "extsi i8 i32", None),
        ("extf f16 f32", "truncf f32 f16", ""),
        ("extf f16 f32", "truncf f32 bf16", None),
        ("truncf f32 f16", "extf f16 f32", None),
        ("truncf f64 f32", "truncf f32 f16", None),
        ("bitcast f32 i32", "bitcast i32 f32", ""),
        ("index_cast i32 index", "index_cast index i32", ""),
        ("sitofp i32 f32", "fptosi f32 i32", None),
    ],
)
def test_casts_of_casts(first: str, second: str, after: str | None) -> None:
    def cast(text: str, operand: str, result: str) -> str:
        name, source, target = text.split()
        return f"{result} = arith.{name} {operand} : {source} to {target}\n"

    source, target = first.split()[1], second.split()[2]
    end = f"tt.return %r : {target}"
    expected = None if after is None else (cast(after, "%x", "%r") + end if after else end.replace("%r", "%x"))
    check(canonicalize, f"%x: {source}", cast(first, "%x", "%a") + cast(second, "%a", "%r") + end, expected)


def test_negation_and_absolute_value() -> None:
    twice = "%a = arith.negf %x : f32\n%r = {} %a : f32\ntt.return %r : f32"
    check(canonicalize, "%x: f32", twice.format("arith.negf"), "tt.return %x : f32")
    check(canonicalize, "%x: f32", twice.format("math.absf"), "%r = math.absf %x : f32\ntt.return %r : f32")
    check(canonicalize, "%x: f32", twice.format("math.exp"), None)


CXY = "%c: i1, %x: i32, %y: i32"


def test_select() -> None:
    end = "\ntt.return %r : i32"
    check(canonicalize, CXY, "%r = arith.select %c, %x, %x : i32" + end, "tt.return %x : i32")
    check(canonicalize, CXY, "%r = arith.select %c, %x, %y : i32" + end, None)
    constant = "%t = arith.constant {}\n%r = arith.select %t, %x, %y : i32" + end
    check(canonicalize, CXY, constant.format("true"), "tt.return %x : i32")
    check(canonicalize, CXY, constant.format("false"), "tt.return %y : i32")
    negated = "%t = arith.constant true\n%n = arith.xori %c, %t : i1\n%r = arith.select %n, %x, %y : i32" + end
    check(canonicalize, CXY, negated, "%r = arith.select %c, %y, %x : i32" + end)
    inner = "%a = arith.select %c, %x, %y : i32\n%r = arith.select %c, {} : i32" + end
    check(canonicalize, CXY, inner.format("%a, %y"), "%r = arith.select %c, %x, %y : i32" + end)
    check(canonicalize, CXY, inner.format("%x, %a"), "%r = arith.select %c, %x, %y : i32" + end)
    check(canonicalize, CXY, inner.format("%y, %a"), "tt.return %y : i32")


def test_select_of_truth_values() -> None:
    before = "%t = arith.constant true\n%f = arith.constant false\n%r = arith.select %c, {} : i1\ntt.return %r : i1"
    check(canonicalize, "%c: i1", before.format("%t, %f"), "tt.return %c : i1")
    after = "%t = arith.constant true\n%r = arith.xori %c, %t : i1\ntt.return %r : i1"
    check(canonicalize, "%c: i1", before.format("%f, %t"), after)


def test_unsigned_comparison_with_zero() -> None:
    body = "%c = arith.constant 0 : i32\n%r = arith.cmpi {}, %x, %c : i32\ntt.return %r : i1"
    check(canonicalize, "%x: i32", body.format("ult"), "%f = arith.constant false\ntt.return %f : i1")
    check(canonicalize, "%x: i32", body.format("uge"), "%t = arith.constant true\ntt.return %t : i1")
    check(canonicalize, "%x: i32", body.format("slt"), None)


# --- evaluation ---------------------------------------------------------------------------------------------------


def folded(body: str) -> int | float | None:
    """The number a function returns after canonicalization; None if that is no constant."""
    module = function("", body)
    canonicalize(module)
    op = module.regions[0].block.terminator.regions[0].block.terminator.operands[0].op
    assert op is not None
    value = op.attributes.get("value")
    return value.value if isinstance(value, Number) else None


def evaluated(name: str, type: str, *constants: str) -> int | float | None:
    lines = [f"%c{i} = arith.constant {value} : {type}" for i, value in enumerate(constants)]
    operands = ", ".join(f"%c{i}" for i in range(len(constants)))
    return folded("\n".join([*lines, f"%r = {name} {operands} : {type}", f"tt.return %r : {type}"]))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "type", "constants", "result"),
    [
        ("arith.addi", "i32", ("2147483647", "1"), -2147483648),
        ("arith.muli", "i64", ("4611686018427387904", "2"), -9223372036854775808),
        ("arith.divsi", "i32", ("-7", "2"), -3),
        ("arith.remsi", "i32", ("-7", "2"), -1),
        ("arith.divui", "i32", ("-1", "2"), 2147483647),
        ("arith.floordivsi", "i32", ("-7", "2"), -4),
        ("arith.ceildivsi", "i32", ("7", "2"), 4),
        ("arith.shrsi", "i32", ("-8", "1"), -4),
        ("arith.shrui", "i8", ("-8", "1"), 124),
        ("arith.maxui", "i32", ("-1", "3"), -1),
        ("arith.divsi", "i32", ("7", "0"), None),
        ("arith.remui", "i32", ("7", "0"), None),
        ("arith.divsi", "i32", ("-2147483648", "-1"), None),
        ("arith.shli", "i32", ("1", "32"), None),
        ("arith.addf", "f16", ("2048.0", "1.0"), 2048.0),
        ("arith.addf", "bf16", ("256.0", "1.0"), 256.0),
        ("arith.mulf", "f16", ("60000.0", "2.0"), math.inf),
        ("arith.addf", "f32", ("1.0", "5.9604645e-08"), 1.0),
        ("arith.divf", "f32", ("1.0", "0.0"), math.inf),
        ("arith.maxnumf", "f32", ("1.0", "0x7FC00000"), 1.0),
        ("math.sqrt", "f32", ("2.0",), 1.41421353816986083984375),
        ("math.exp2", "f32", ("3.0",), 8.0),
        ("math.fma", "f32", ("2.0", "3.0", "4.0"), 10.0),
    ],
)
def test_evaluation(name: str, type: str, constants: tuple[str, ...], result: float | None) -> None:
    assert evaluated(name, type, *constants) == result


def test_evaluation_keeps_the_sign_of_zero_and_nan() -> None:
    assert str(evaluated("arith.mulf", "f32", "-1.0", "0.0")) == "-0.0"
    assert str(evaluated("arith.addf", "f32", "-0.0", "0.0")) == "0.0"
    assert str(evaluated("arith.subf", "f32", "0x7F800000", "0x7F800000")) == "nan"
    assert str(evaluated("arith.maximumf", "f32", "1.0", "0x7FC00000")) == "nan"


@pytest.mark.parametrize("name", ["addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "shli", "shrsi", "minui"])
def test_folds_agree_with_the_semantics_on_int8(name: str) -> None:
    """Identities and evaluation together give what the op's semantics say, or nothing where that is undefined."""
    interesting = (-128, -127, -8, -1, 0, 1, 2, 7, 8, 127)
    semantics = OPS["arith." + name].semantics
    assert semantics is not None
    for a in interesting:
        for b in interesting:
            result = evaluated("arith." + name, "i8", str(a), str(b))
            if result is not None:
                assert result == int(semantics(None, np.int8(a), np.int8(b))), (a, b)
            else:
                assert name in ("divsi", "divui", "remsi", "remui", "shli", "shrsi")


def test_tiles_fold_like_scalars() -> None:
    before = (
        "%c = arith.constant dense<3> : tensor<4xi32>\n%d = arith.constant 4 : i32\n"
        "%s = tt.splat %d : i32 -> tensor<4xi32>\n%r = arith.muli %c, %s : tensor<4xi32>\ntt.return %r : tensor<4xi32>"
    )
    check(canonicalize, "", before, "%c = arith.constant dense<12> : tensor<4xi32>\ntt.return %c : tensor<4xi32>")


def test_truncation_wraps() -> None:
    body = "%c = arith.constant 300 : i32\n%r = arith.trunci %c : i32 to i8\ntt.return %r : i8"
    assert folded(body) == 44


@pytest.mark.quick
@pytest.mark.parametrize(
    ("zero", "type", "result"),
    [("0.0", "f8E4M3FN", "0.0"), ("-0.0", "f8E4M3FN", "-0.0"), ("-0.0", "f8E4M3FNUZ", "0.0"), ("1.0", "f16", None)],
)
def test_zeros_in_other_formats(zero: str, type: str, result: str | None) -> None:
    back = f"tt.return %r : {type}"
    before = f"%z = arith.constant {zero} : f32\n%r = tt.fp_to_fp %z, rounding = rtne : f32 -> {type}\n{back}"
    check(canonicalize, "", before, result and f"%r = arith.constant {result} : {type}\n{back}")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("first", "second", "after"),
    [
        ("subi %five, %x", "subi %a, %one", "%c = arith.constant 4 : i32\n%r = arith.subi %c, %x : i32"),
        ("subi %five, %x", "addi %a, %one", "%c = arith.constant 6 : i32\n%r = arith.subi %c, %x : i32"),
        ("addi %x, %one", "subi %five, %a", "%c = arith.constant 4 : i32\n%r = arith.subi %c, %x : i32"),
        ("subi %x, %one", "subi %five, %a", "%c = arith.constant 6 : i32\n%r = arith.subi %c, %x : i32"),
        ("subi %one, %x", "subi %five, %a", "%c = arith.constant 4 : i32\n%r = arith.addi %x, %c : i32"),
        ("subi %y, %x", "subi %five, %a", None),
    ],
)
def test_differences_from_constants(first: str, second: str, after: str | None) -> None:
    end = "\ntt.return %r : i32"
    one, five = "%one = arith.constant 1 : i32\n", "%five = arith.constant 5 : i32\n"
    before = f"%a = arith.{first} : i32\n%r = arith.{second} : i32"
    check(canonicalize, "%x: i32, %y: i32", (one if after else "") + five + before + end, after and after + end)
