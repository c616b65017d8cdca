"""Canonical forms of ops that move elements, with the cases next to them that must stay."""

from __future__ import annotations

import pytest
from rewriting_cases import check

from tilewright.transforms.canonicalize import canonicalize

T = "tensor<{}xf32>".format


@pytest.mark.quick
@pytest.mark.parametrize(
    ("op", "source", "target"),
    [
        ("broadcast", "4x1", "4x8"),
        ("expand_dims", "4", "4x1"),
        ("reshape", "4x2", "8"),
        ("trans", "4x8", "8x4"),
    ],
)
def test_splats_and_constants_pass_through(op: str, source: str, target: str) -> None:
    attributes = {"expand_dims": " {axis = 1 : i32}", "trans": " {order = array<i32: 1, 0>}"}.get(op, "")
    move = f"%r = tt.{op} %a{attributes} : {T(source)} -> {T(target)}\ntt.return %r : {T(target)}"
    splat = f"%r = tt.splat %x : f32 -> {T(target)}\ntt.return %r : {T(target)}"
    check(canonicalize, "%x: f32", f"%a = tt.splat %x : f32 -> {T(source)}\n{move}", splat)
    constant = "%a = arith.constant dense<2.0> : {}\n"
    end = f"tt.return %a : {T(target)}"
    check(canonicalize, "", constant.format(T(source)) + move, constant.format(T(target)) + end)
    check(canonicalize, f"%a: {T(source)}", move, None)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("attributes", "op", "shape"),
    [("", "reshape", "4x8"), ("", "broadcast", "4x8"), (" {order = array<i32: 0, 1>}", "trans", "4x8")],
)
def test_moves_to_where_it_was(attributes: str, op: str, shape: str) -> None:
    body = f"%r = tt.{op} %x{attributes} : {T(shape)} -> {T(shape)}\ntt.return %r : {T(shape)}"
    check(canonicalize, f"%x: {T(shape)}", body, f"tt.return %x : {T(shape)}")


def test_transpose_of_a_square_stays() -> None:
    body = f"%r = tt.trans %x {{order = array<i32: 1, 0>}} : {T('4x4')} -> {T('4x4')}\ntt.return %r : {T('4x4')}"
    check(canonicalize, f"%x: {T('4x4')}", body, None)


def test_splat_of_constant() -> None:
    before = f"%c = arith.constant 2.0 : f32\n%r = tt.splat %c : f32 -> {T(4)}\ntt.return %r : {T(4)}"
    check(canonicalize, "", before, f"%c = arith.constant dense<2.0> : {T(4)}\ntt.return %c : {T(4)}")


def test_broadcast_of_broadcast() -> None:
    before = (
        f"%a = tt.broadcast %x : {T('1x1x4')} -> {T('1x2x4')}\n"
        f"%r = tt.broadcast %a : {T('1x2x4')} -> {T('8x2x4')}\ntt.return %r : {T('8x2x4')}"
    )
    after = f"%r = tt.broadcast %x : {T('1x1x4')} -> {T('8x2x4')}\ntt.return %r : {T('8x2x4')}"
    check(canonicalize, f"%x: {T('1x1x4')}", before, after)


@pytest.mark.parametrize(
    ("axis", "expanded", "result"), [(0, "1x1x4", "1x8x4"), (1, "1x1x4", "8x1x4"), (2, "1x4x1", "8x4x1")]
)
def test_expand_dims_of_broadcast(axis: int, expanded: str, result: str) -> None:
    before = (
        f"%a = tt.broadcast %x : {T('1x4')} -> {T('8x4')}\n"
        f"%r = tt.expand_dims %a {{axis = {axis} : i32}} : {T('8x4')} -> {T(result)}\ntt.return %r : {T(result)}"
    )
    after = (
        f"%a = tt.expand_dims %x {{axis = {axis} : i32}} : {T('1x4')} -> {T(expanded)}\n"
        f"%r = tt.broadcast %a : {T(expanded)} -> {T(result)}\ntt.return %r : {T(result)}"
    )
    check(canonicalize, f"%x: {T('1x4')}", before, after)


@pytest.mark.parametrize(("first", "second", "both"), [("", "", ""), (" allow_reorder", "", " allow_reorder")])
def test_reshape_of_reshape(first: str, second: str, both: str) -> None:
    before = (
        f"%a = tt.reshape %x{first} : {T('4x8')} -> {T('32')}\n"
        f"%r = tt.reshape %a{second} : {T('32')} -> {T('8x4')}\ntt.return %r : {T('8x4')}"
    )
    after = f"%r = tt.reshape %x{both} : {T('4x8')} -> {T('8x4')}\ntt.return %r : {T('8x4')}"
    check(canonicalize, f"%x: {T('4x8')}", before, after)


def test_transpose_of_transpose() -> None:
    before = (
        f"%a = tt.trans %x {{order = array<i32: 1, 2, 0>}} : {T('2x4x8')} -> {T('4x8x2')}\n"
        f"%r = tt.trans %a {{order = array<i32: 1, 0, 2>}} : {T('4x8x2')} -> {T('8x4x2')}\ntt.return %r : {T('8x4x2')}"
    )
    after = (
        f"%r = tt.trans %x {{order = array<i32: 2, 1, 0>}} : {T('2x4x8')} -> {T('8x4x2')}\ntt.return %r : {T('8x4x2')}"
    )
    check(canonicalize, f"%x: {T('2x4x8')}", before, after)
    back = before.replace("array<i32: 1, 0, 2>", "array<i32: 2, 0, 1>").replace("8x4x2", "2x4x8")
    check(canonicalize, f"%x: {T('2x4x8')}", back, f"tt.return %x : {T('2x4x8')}")


def test_join_and_split() -> None:
    split = f"%a, %b = tt.split %x : {T('4x2')} -> {T('4')}\n"
    joined = split + f"%r = tt.join {{}} : {T('4')} -> {T('4x2')}\ntt.return %r : {T('4x2')}"
    check(canonicalize, f"%x: {T('4x2')}", joined.format("%a, %b"), f"tt.return %x : {T('4x2')}")
    check(canonicalize, f"%x: {T('4x2')}", joined.format("%b, %a"), None)
    before = f"%j = tt.join %x, %y : {T('4')} -> {T('4x2')}\n{split}tt.return %b : {T('4')}".replace(
        "split %x", "split %j"
    )
    check(canonicalize, f"%x: {T('4')}, %y: {T('4')}", before, f"tt.return %y : {T('4')}")


def test_unsplat_of_splat() -> None:
    before = f"%a = tt.splat %x : f32 -> {T('1x1')}\n%r = tt.unsplat %a : {T('1x1')}\ntt.return %r : f32"
    check(canonicalize, "%x: f32", before, "tt.return %x : f32")


@pytest.mark.parametrize(("start", "end", "known"), [(3, 4, True), (0, 2, False)])
def test_ranges_of_one_number(start: int, end: int, known: bool) -> None:
    shape = end - start
    line = f"%r = tt.make_range {{end = {end} : i32, start = {start} : i32}} : tensor<{shape}xi32>\n"
    constant = f"%r = arith.constant dense<{start}> : tensor<{shape}xi32>\n"
    back = f"tt.return %r : tensor<{shape}xi32>"
    check(canonicalize, "", line + back, constant + back if known else None)


def test_layouts_are_kept() -> None:
    blocked = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = [0, 1]}>"
    slice = f"#ttg.slice<{{dim = 1, parent = {blocked}}}>"
    before = f"""
      %a = tt.broadcast %x : tensor<1xf32, {slice}> -> tensor<32xf32, {slice}>
      %r = tt.expand_dims %a {{axis = 1 : i32}} : tensor<32xf32, {slice}> -> tensor<32x1xf32, {blocked}>
      tt.return %r : tensor<32x1xf32, {blocked}>"""
    after = f"""
      %a = tt.expand_dims %x {{axis = 1 : i32}} : tensor<1xf32, {slice}> -> tensor<1x1xf32, {blocked}>
      %r = tt.broadcast %a : tensor<1x1xf32, {blocked}> -> tensor<32x1xf32, {blocked}>
      tt.return %r : tensor<32x1xf32, {blocked}>"""
    check(canonicalize, f"%x: tensor<1xf32, {slice}>", before, after)


def test_join_of_constants() -> None:
    numbers = f"%c = arith.constant dense<1.0> : {T('4')}\n%d = arith.constant dense<2.0> : {T('4')}\n"
    joined = f"%r = tt.join {{}} : {T('4')} -> {T('4x2')}\ntt.return %r : {T('4x2')}"
    after = f"%r = arith.constant dense<1.0> : {T('4x2')}\ntt.return %r : {T('4x2')}"
    check(canonicalize, "", numbers.partition("\n")[0] + "\n" + joined.format("%c, %c"), after)
    check(canonicalize, "", numbers + joined.format("%c, %d"), None)
    check(canonicalize, f"%x: {T('4')}", joined.format("%x, %x"), None)
