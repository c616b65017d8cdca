"""Combine selects and ifs: which selects an `scf.if` takes in."""

from __future__ import annotations

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.combine_select_if import combine_select_if

assert tilewright.dialects.__all__

T = "tensor<64xf32>"
SIGNATURE = f"%c: i1, %d: i1, %a: {T}, %b: {T}, %p: tensor<64x!tt.ptr<f32>>"
STORE = "tt.store %p, {} : tensor<64x!tt.ptr<f32>>".format
SELECT = f"%s = arith.select %c, %a, %b : {T}"


def function(body: str, signature: str = SIGNATURE) -> Op:
    module = parse_module(f"module {{\n tt.func public @f({signature}) {{\n{body}\ntt.return\n}}\n}}")
    verify(module)
    return module


def check(before: str, after: str | None) -> None:
    module = function(before)
    assert combine_select_if(module) is (after is not None)
    verify(module)
    assert print_op(module) == print_op(function(before if after is None else after))


def test_arms_yield_what_is_chosen() -> None:
    check(
        f"{SELECT}\nscf.if %c {{\n{STORE('%a')}\n}}\n{STORE('%s')}",
        f"%s = scf.if %c -> ({T}) {{\n{STORE('%a')}\nscf.yield %a : {T}\n}} else {{\nscf.yield %b : {T}\n}}\n"
        f"{STORE('%s')}",
    )


def test_other_results_stay_first() -> None:
    check(
        f"{SELECT}\n%r = scf.if %c -> ({T}) {{\nscf.yield %b : {T}\n}} else {{\nscf.yield %a : {T}\n}}\n"
        f"%t = arith.addf %r, %s : {T}\n{STORE('%t')}",
        f"%r:2 = scf.if %c -> ({T}, {T}) {{\nscf.yield %b, %a : {T}, {T}\n}} else {{\nscf.yield %a, %b : {T}, {T}\n}}\n"
        f"%t = arith.addf %r#0, %r#1 : {T}\n{STORE('%t')}",
    )


def test_arms_know_the_choice() -> None:
    check(
        f"{SELECT}\nscf.if %c {{\nscf.if %d {{\n{STORE('%s')}\n}}\n}} else {{\n{STORE('%s')}\n}}",
        f"{SELECT}\nscf.if %c {{\nscf.if %d {{\n{STORE('%a')}\n}}\n}} else {{\n{STORE('%b')}\n}}",
    )


def test_users_in_front_keep_the_select() -> None:
    check(f"{SELECT}\n{STORE('%s')}\nscf.if %c {{\n{STORE('%a')}\n}}\n{STORE('%s')}", None)


def test_other_conditions_keep_the_select() -> None:
    check(f"{SELECT}\nscf.if %d {{\n{STORE('%a')}\n}}\n{STORE('%s')}", None)


def test_an_if_in_front_of_the_select_keeps_it() -> None:
    check(f"scf.if %c {{\n{STORE('%a')}\n}}\n{SELECT}\n{STORE('%s')}", None)


def test_scalars_are_cheap() -> None:
    check(
        "%x = arith.constant 1 : i32\n%y = arith.constant 2 : i32\n%z = arith.select %c, %x, %y : i32\n"
        f"scf.if %c {{\n{STORE('%a')}\n}}\n%t = tt.splat %z : i32 -> tensor<64xi32>",
        None,
    )
