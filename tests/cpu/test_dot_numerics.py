"""Dots agree with NumPy: all extents, types, orders and targets that this host can run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import pytest
from dot_native import A_STRIDE, B_STRIDE, WORKSPACE, A, check, compile_dots, make_spec

from long_runs import LONG, first_of
from lowered_code import code_on
from tilewright.backends.cpu.dot import DotSpec, Prefetch, operand_element_type, wants_bias
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.ir.types import Type, bf16, f32, f64, i8, i16, i32, i64

ALL_EXTENTS = (1, 2, 4, 8, 16, 32, 64, 128)
SOME_EXTENTS = (1, 4, 16, 64)
TYPES = {"f32": (f32, f32), "f64": (f64, f64), "bf16": (bf16, f32), "i8": (i8, i32), "i16": (i16, i32)}
PLAIN_INTEGERS = {"i32": (i32, i32), "i64": (i64, i64)}
ORDERS = ("plain", "a", "b", "both")
TARGETS = [None, "x86-64-v2", "x86-64-v3", "x86-64-v4", "icelake-server", "sapphirerapids"]


def runnable(cpu: str | None) -> Target:
    """The target, or skip."""
    target = host_target(cpu)
    if not target.runs_here():
        pytest.skip(f"this host does not run {cpu} code")
    return target


Extents = tuple[int, int, int]


def specs(
    extents: Iterable[Extents], operand: Type, acc: Type, target: Target, *, a_transposed: bool, b_transposed: bool
) -> list[DotSpec]:
    """Products are right for all m, n and k; zero_init and padding change along the way."""
    stored = operand_element_type(operand, target)
    return [
        make_spec(
            (m, n, k),
            stored,
            acc,
            a_transposed=a_transposed,
            b_transposed=b_transposed,
            zero_init=bool((m + n + k) % 3 == 1),
            padding=4 if m * n % 5 == 1 else 0,
        )
        for m, n, k in extents
    ]


def share_of(extents: Sequence[int], shares: int, share: int) -> list[Extents]:
    """One share of all m, n and k, in which any two of them still have every pair of extents."""
    places = product(range(len(extents)), repeat=3)
    return [(extents[m], extents[n], extents[k]) for m, n, k in places if (m + n + k) % shares == share]


def check_all(found: list[DotSpec], target: Target, *, level: int = 1) -> None:
    for spec, function in zip(found, compile_dots(found, target, level=level), strict=True):
        check(function, spec, target)


@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("types", TYPES)
def test_types_and_orders_on_this_host(types: str, a_transposed: bool, b_transposed: bool) -> None:
    target = host_target()
    orders = {"a_transposed": a_transposed, "b_transposed": b_transposed}
    check_all(specs(share_of(SOME_EXTENTS, 2, a_transposed ^ b_transposed), *TYPES[types], target, **orders), target)


@pytest.mark.slow
@pytest.mark.parametrize("turn", first_of(8, 1))
@pytest.mark.parametrize("cpu", [None, pytest.param("x86-64-v3", marks=LONG)])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("types", TYPES | PLAIN_INTEGERS)
def test_all_extents(types: str, order: str, cpu: str | None, turn: int) -> None:
    """Half of all m, n and k, each in one of the four orders; `make test-long` turns through all of them.

    Machine code is made at level 0, which takes half of the time: the text that LLVM takes is the same.
    """
    orders = {"a_transposed": order in ("a", "both"), "b_transposed": order in ("b", "both")}
    target, share = runnable(cpu), (2 * ORDERS.index(order) + turn) % 8
    found = specs(share_of(ALL_EXTENTS, 8, share), *(TYPES | PLAIN_INTEGERS)[types], target, **orders)
    check_all(found, target, level=0)


@pytest.mark.parametrize("cpu", TARGETS[1:])
@pytest.mark.parametrize("types", TYPES | PLAIN_INTEGERS)
def test_other_targets(types: str, cpu: str) -> None:
    """Shapes take turns: one in the orders `plain` and `both`, the next one in the two others."""
    target = runnable(cpu)
    operand, acc = (TYPES | PLAIN_INTEGERS)[types]
    stored = operand_element_type(operand, target)
    shapes = [(64, 64, 32), (16, 16, 16), (128, 32, 8), (8, 8, 64), (32, 128, 1), (2, 4, 2)]
    found = [
        make_spec(shape, stored, acc, a_transposed=a, b_transposed=b)
        for number, shape in enumerate(shapes)
        for a, b in product((False, True), repeat=2)
        if (number + a + b) % 2 == 0
    ]
    check_all(found, target)


def test_wrapping_int8_is_exact_at_the_limits() -> None:
    target = host_target()
    stored = operand_element_type(i8, target)
    found = [make_spec((16, 16, k), stored, i32) for k in (4, 64, 256)]
    check_all(found, target)


@code_on("neoverse-v1")
def test_a_that_comes_biased() -> None:
    target = host_target()
    if not wants_bias(i8, target):
        pytest.skip("no unsigned by signed products here")
    found = [
        replace(make_spec(shape, i8, i32, a_transposed=a, b_transposed=b), a_biased=True)
        for shape in ((16, 32, 64), (4, 2, 2))
        for a, b in product((False, True), repeat=2)
    ]
    check_all(found, target)


@pytest.mark.parametrize("far", ["a", "b", "ab"])
@pytest.mark.parametrize("types", TYPES)
def test_operands_read_in_place(types: str, far: str) -> None:
    target = host_target()
    operand, acc = TYPES[types]
    stored = operand_element_type(operand, target)
    found = [
        replace(
            make_spec(extents, stored, acc, a_transposed=a, b_transposed=b),
            **{f"{operand}_stride": {"a": A_STRIDE, "b": B_STRIDE}[operand] for operand in far},
        )
        for extents in ((32, 64, 32), (16, 128, 64))
        for a, b in product((False, True), repeat=2)
    ]
    for spec, function in zip(found, compile_dots(found, target), strict=True):
        check(function, spec, target, a_stride=101, b_stride=141)


@pytest.mark.parametrize("rows", [8, 64, 256])
@pytest.mark.parametrize("row_bytes", [32, 64, 1024])
def test_prefetching_changes_no_result(rows: int, row_bytes: int) -> None:
    target = host_target()
    soon = (Prefetch(A, A_STRIDE, rows, row_bytes), Prefetch(WORKSPACE, 4096, rows, row_bytes, operand=1))
    found = [make_spec(shape, f32, f32) for shape in ((64, 64, 32), (8, 32, 16), (2, 2, 2))]
    for spec, function in zip(found, compile_dots(found, target, soon), strict=True):
        check(function, spec, target)
