"""Reorder broadcast: each rule where it applies and where it must not."""

from __future__ import annotations

from rewriting_cases import check

from tilewright.transforms.reorder_broadcast import reorder_broadcast

T = "tensor<{}xi32>".format


def test_splats() -> None:
    before = (
        f"%s = tt.splat %x : i32 -> {T(64)}\n%t = tt.splat %y : i32 -> {T(64)}\n"
        f"%r = arith.addi %s, %t : {T(64)}\ntt.return %r : {T(64)}"
    )
    after = f"%u = arith.addi %x, %y : i32\n%r = tt.splat %u : i32 -> {T(64)}\ntt.return %r : {T(64)}"
    check(reorder_broadcast, "%x: i32, %y: i32", before, after)


def test_splat_with_constant() -> None:
    before = (
        f"%c = arith.constant dense<3> : {T(64)}\n%s = tt.splat %x : i32 -> {T(64)}\n"
        f"%r = arith.cmpi slt, %s, %c : {T(64)}\ntt.return %r : tensor<64xi1>"
    )
    after = (
        "%c = arith.constant 3 : i32\n%u = arith.cmpi slt, %x, %c : i32\n"
        "%r = tt.splat %u : i1 -> tensor<64xi1>\ntt.return %r : tensor<64xi1>"
    )
    check(reorder_broadcast, "%x: i32", before, after)


def test_splat_with_tile_stays() -> None:
    before = f"%s = tt.splat %x : i32 -> {T(64)}\n%r = arith.addi %s, %t : {T(64)}\ntt.return %r : {T(64)}"
    check(reorder_broadcast, f"%x: i32, %t: {T(64)}", before, None)


def test_loads_of_one_address_stay() -> None:
    before = (
        "%s = tt.splat %p : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>\n"
        f"%r = tt.load %s : tensor<64x!tt.ptr<i32>>\ntt.return %r : {T(64)}"
    )
    check(reorder_broadcast, "%p: !tt.ptr<i32>", before, None)


def test_choices_by_scalars_stay() -> None:
    before = (
        f"%s = tt.splat %x : i32 -> {T(64)}\n%t = tt.splat %y : i32 -> {T(64)}\n"
        f"%r = arith.select %c, %s, %t : {T(64)}\ntt.return %r : {T(64)}"
    )
    check(reorder_broadcast, "%c: i1, %x: i32, %y: i32", before, None)


def test_new_scalar_ops_are_folded() -> None:
    before = (
        f"%s = tt.splat %x : i32 -> {T(64)}\n%t = tt.splat %x : i32 -> {T(64)}\n"
        f"%r = arith.subi %s, %t : {T(64)}\ntt.return %r : {T(64)}"
    )
    check(reorder_broadcast, "%x: i32", before, f"%c = arith.constant dense<0> : {T(64)}\ntt.return %c : {T(64)}")


def broadcast(name: str, value: str, source: str, target: str) -> str:
    return f"{name} = tt.broadcast {value} : {T(source)} -> {T(target)}\n"


def test_broadcast_with_splat_and_constant() -> None:
    before = (
        f"%c = arith.constant dense<4> : {T('64x32')}\n%s = tt.splat %x : i32 -> {T('64x32')}\n"
        + broadcast("%b", "%a", "64x1", "64x32")
        + f"%u = arith.muli %b, %c : {T('64x32')}\n%r = arith.addi %u, %s : {T('64x32')}\ntt.return %r : {T('64x32')}"
    )
    after = (
        f"%c = arith.constant dense<4> : {T('64x1')}\n%u = arith.muli %a, %c : {T('64x1')}\n"
        f"%s = tt.splat %x : i32 -> {T('64x1')}\n%v = arith.addi %u, %s : {T('64x1')}\n"
        + broadcast("%r", "%v", "64x1", "64x32")
        + f"tt.return %r : {T('64x32')}"
    )
    check(reorder_broadcast, f"%a: {T('64x1')}, %x: i32", before, after)


def test_broadcasts_of_one_shape() -> None:
    end = f"tt.return %r : {T('64x32')}"
    before = (
        broadcast("%s", "%a", "64x1", "64x32")
        + broadcast("%t", "%b", "64x1", "64x32")
        + f"%r = arith.addi %s, %t : {T('64x32')}\n"
        + end
    )
    after = f"%u = arith.addi %a, %b : {T('64x1')}\n" + broadcast("%r", "%u", "64x1", "64x32") + end
    check(reorder_broadcast, f"%a: {T('64x1')}, %b: {T('64x1')}", before, after)


def test_broadcasts_of_different_shapes_stay() -> None:
    before = (
        broadcast("%s", "%a", "64x1", "64x32")
        + broadcast("%t", "%b", "1x32", "64x32")
        + f"%r = arith.addi %s, %t : {T('64x32')}\ntt.return %r : {T('64x32')}"
    )
    check(reorder_broadcast, f"%a: {T('64x1')}, %b: {T('1x32')}", before, None)


def test_broadcast_with_tile_stays() -> None:
    before = (
        broadcast("%s", "%a", "64x1", "64x32") + f"%r = arith.addi %s, %t : {T('64x32')}\ntt.return %r : {T('64x32')}"
    )
    check(reorder_broadcast, f"%a: {T('64x1')}, %t: {T('64x32')}", before, None)
