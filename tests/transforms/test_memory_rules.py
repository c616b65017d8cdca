"""Canonical forms of pointers and accesses, with the cases next to them that must stay."""

from __future__ import annotations

import pytest
from rewriting_cases import check

from tilewright.transforms.canonicalize import canonicalize

P, F, B = "tensor<4x!tt.ptr<f32>>", "tensor<4xf32>", "tensor<4xi1>"
SIGNATURE = f"%p: {P}, %x: {F}"


def masked(mask: str, access: str, end: str = f"\ntt.return %r : {F}") -> str:
    return f"%m = arith.constant dense<{mask}> : {B}\n{access}{end}"


def test_zero_offset() -> None:
    end = f"\ntt.return %r : {P}"
    body = f"%c = arith.constant dense<{{}}> : tensor<4xi32>\n%r = tt.addptr %p, %c : {P}, tensor<4xi32>" + end
    check(canonicalize, SIGNATURE, body.format(0), f"tt.return %p : {P}")
    check(canonicalize, SIGNATURE, body.format(1), None)


def test_known_mask_of_load() -> None:
    load = f"%r = tt.load %p, %m, %x : {P}"
    check(canonicalize, SIGNATURE, masked("true", load), f"%r = tt.load %p : {P}\ntt.return %r : {F}")
    check(canonicalize, SIGNATURE, masked("false", load), f"tt.return %x : {F}")
    check(canonicalize, SIGNATURE, masked("false", f"%r = tt.load %p, %m : {P}"), None)
    volatile = f"%r = tt.load %p, %m, %x {{isVolatile = true}} : {P}"
    check(canonicalize, SIGNATURE, masked("false", volatile), None)


def test_options_of_the_load_survive() -> None:
    load = f"%r = tt.load %p{{}} evictionPolicy = evict_first : {P}"
    after = load.format("") + f"\ntt.return %r : {F}"
    check(canonicalize, SIGNATURE, masked("true", load.format(", %m, %x")), after)


def test_unknown_mask_stays() -> None:
    body = f"%r = tt.load %p, %m, %x : {P}\ntt.store %p, %r, %m : {P}\ntt.return"
    check(canonicalize, f"{SIGNATURE}, %m: {B}", body, None)


def test_known_mask_of_store() -> None:
    store = f"tt.store %p, %x, %m : {P}"
    end = "\ntt.return"
    check(canonicalize, SIGNATURE, masked("true", store, end), f"tt.store %p, %x : {P}\ntt.return")
    check(canonicalize, SIGNATURE, masked("false", store, end), "tt.return")


@pytest.mark.parametrize(("mask", "used"), [("true", True), ("true", False), ("false", True), ("false", False)])
def test_known_mask_of_atomic(mask: str, used: bool) -> None:
    atomic = f"%r = tt.atomic_rmw fadd, acq_rel, gpu, %p, %x, %m : ({P}, {F}, {B}) -> {F}\n"
    end = f"tt.return %r : {F}" if used else "tt.return"
    check(canonicalize, SIGNATURE, masked(mask, atomic, end), None if used or mask == "true" else end)


def test_pointers_as_integers_and_back() -> None:
    end = "\ntt.return %r : !tt.ptr<{1}>"
    before = "%a = tt.ptr_to_int %p : !tt.ptr<f32> -> {0}\n%r = tt.int_to_ptr %a : {0} -> !tt.ptr<{1}>" + end
    check(canonicalize, "%p: !tt.ptr<f32>", before.format("i64", "f32"), "tt.return %p : !tt.ptr<f32>")
    check(canonicalize, "%p: !tt.ptr<f32>", before.format("i32", "f32"), None)
    cast = "%r = tt.bitcast %p : !tt.ptr<f32> -> !tt.ptr<f16>\ntt.return %r : !tt.ptr<f16>"
    check(canonicalize, "%p: !tt.ptr<f32>", before.format("i64", "f16"), cast)


@pytest.mark.parametrize(("type", "stays"), [("i64", False), ("i32", True)])
def test_integers_as_pointers_and_back(type: str, stays: bool) -> None:
    before = f"%p = tt.int_to_ptr %x : {type} -> !tt.ptr<f32>\n%r = tt.ptr_to_int %p : !tt.ptr<f32> -> {type}\n"
    end = "tt.return {} : " + type
    check(canonicalize, f"%x: {type}", before + end.format("%r"), None if stays else end.format("%x"))


def test_pointers_to_bits_are_bytes_apart() -> None:
    before = "%c = arith.constant 3 : i64\n%s = arith.addi %x, {} : i64\n%r = tt.int_to_ptr %s : i64 -> !tt.ptr<i1>\n"
    after = "%c = arith.constant 3 : i64\n%p = tt.int_to_ptr %x : i64 -> !tt.ptr<i1>\n"
    after += "%r = tt.addptr %p, %c : !tt.ptr<i1>, i64\n"
    end = "tt.return %r : !tt.ptr<i1>"
    check(canonicalize, "%x: i64, %y: i64", before.format("%c") + end, after + end)
    unknown = before.format("%y").partition("\n")[2]
    check(canonicalize, "%x: i64, %y: i64", unknown + end, None)


@pytest.mark.quick
@pytest.mark.parametrize(("bytes", "elements"), [(16, 4), (-8, -2), (6, None)])
def test_sums_of_addresses(bytes: int, elements: int | None) -> None:
    before = """
      %c = arith.constant dense<{0}> : tensor<8xi64>
      %s = arith.addi %x, %c : tensor<8xi64>
      %r = tt.int_to_ptr %s : tensor<8xi64> -> tensor<8x!tt.ptr<f32>>
      tt.return %r : tensor<8x!tt.ptr<f32>>"""
    after = """
      %c = arith.constant dense<{0}> : tensor<8xi64>
      %p = tt.int_to_ptr %x : tensor<8xi64> -> tensor<8x!tt.ptr<f32>>
      %r = tt.addptr %p, %c : tensor<8x!tt.ptr<f32>>, tensor<8xi64>
      tt.return %r : tensor<8x!tt.ptr<f32>>"""
    check(canonicalize, "%x: tensor<8xi64>", before.format(bytes), elements and after.format(elements))


def test_bitcasts() -> None:
    end = "\ntt.return %r : !tt.ptr<{0}>"
    before = (
        "%a = tt.bitcast %p : !tt.ptr<f32> -> !tt.ptr<i32>\n%r = tt.bitcast %a : !tt.ptr<i32> -> !tt.ptr<{0}>" + end
    )
    check(canonicalize, "%p: !tt.ptr<f32>", before.format("f32"), "tt.return %p : !tt.ptr<f32>")
    check(canonicalize, "%p: !tt.ptr<f32>", before.format("f16"), None)


def test_bitcasts_to_the_same_type() -> None:
    """One that says something of its value stays."""
    before = "%r = tt.bitcast %p{} : !tt.ptr<f32> -> !tt.ptr<f32>\ntt.return %r : !tt.ptr<f32>"
    check(canonicalize, "%p: !tt.ptr<f32>", before.format(""), "tt.return %p : !tt.ptr<f32>")
    check(canonicalize, "%p: !tt.ptr<f32>", before.format(" {tt.divisibility = 16 : i32}"), None)


def test_assertions() -> None:
    body = '%t = arith.constant true\ntt.assert %t, "fine" : i1\ntt.return'
    check(canonicalize, "", body, "tt.return")
    check(canonicalize, "%t: i1", body.split("\n", 1)[1], None)
