"""The vector loops of dots: their text, and what the interpreter computes, also for machines that are not here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from dot_native import compare, expected, make_spec, random_tile
from loop_native import module_of

from code_counts import summary
from long_runs import LONG
from tilewright.backends.cpu.dot import DotSpec, dot_workspace_bytes, lower_dot, operand_element_type
from tilewright.backends.cpu.dot.spec import AT_RUN_TIME
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op, Value
from tilewright.ir.printer import print_op
from tilewright.ir.types import bf16, f16, f32, f64, i8, i16, i32, i64

PARAMETERS = (*(BYTES,) * 4, i64, i64, i64, i64, i64)
TARGETS = ("x86-64-v2", "x86-64-v3", "znver4", "aarch64", "neoverse-v1", "neoverse-v2", "a64fx")
TYPES = {
    "f16": (f16, f32),
    "bf16": (bf16, f32),
    "f32": (f32, f32),
    "f64": (f64, f64),
    "i8": (i8, i32),
    "i16": (i16, i32),
}


@cache
def loops_of(spec: DotSpec, target: Target) -> Op:
    """The loops, which nobody changes; strides and the depth that are known at run time only are parameters."""

    def build(ops: LoopBuilder, a: Value, b: Value, c: Value, workspace: Value, *numbers: Value) -> None:
        names = ("a_stride", "b_stride", "depth", "rows", "columns")
        given = {n: v for n, v in zip(names, numbers, strict=True) if getattr(spec, n) is AT_RUN_TIME}
        lower_dot(ops, target, replace(spec, **given), a, b, c, workspace)

    return module_of(build, PARAMETERS)


def check(
    spec: DotSpec, target: Target, *, depth: int = 0, rows: int | None = None, columns: int | None = None, gap: int = 7
) -> None:
    """The interpreter computes the product; tiles at run-time strides lie `gap` elements further apart."""
    rng = np.random.default_rng(spec.m + spec.k)
    found = {}
    for name, extents, order in (
        ("a", (spec.m, spec.k), spec.a_transposed),
        ("b", (spec.k, spec.n), spec.b_transposed),
    ):
        first, second = extents[::-1] if order else extents
        found[name] = random_tile(
            first, second + gap * (getattr(spec, f"{name}_stride") is AT_RUN_TIME), spec.a_type, rng
        )
    a, b, c = found["a"], found["b"], random_tile(spec.m, spec.c_stride, spec.acc_type, rng)
    before, space = c.copy(), np.zeros(dot_workspace_bytes(spec, target) + 64, np.uint8)
    if rows is not None and spec.a_stride is AT_RUN_TIME:
        a = a[: max(rows, 1)].copy()  # the others need not exist
    run_ir(loops_of(spec, target), [a, b, c, space, a.shape[1], b.shape[1], depth, rows or 0, columns or 0])
    if rows is not None:
        a, c, before, spec = a[:rows], c[:rows], before[:rows], replace(spec, m=rows)
    if depth:
        a, b = a[:, :depth], b[:depth]
        spec = replace(spec, k=depth)
    compare(c[:, : spec.n][:, :columns], expected(spec, a, b, before)[:, :columns], spec)


ORDERS = ((False, False), (True, False), (False, True), (True, True))


def operands() -> Iterator[Any]:
    """Types, machines and orders: `make test` takes every two of them together."""
    for (i, types), (j, cpu), (k, orders) in product(*map(enumerate, (TYPES, TARGETS, ORDERS))):
        is_short = (i + j + k) % len(ORDERS) == 0
        yield pytest.param(types, cpu, orders, marks=() if is_short else LONG)


@pytest.mark.parametrize(("types", "cpu", "orders"), [*operands()])
def test_interpreter(types: str, cpu: str, orders: tuple[bool, bool]) -> None:
    target = host_target(cpu)
    operand, acc = TYPES[types]
    spec = partial(make_spec, operand=operand_element_type(operand, target), acc=acc)
    for extents, zero_init in (((8, 16, 16), True), ((2, 4, 2), False)):
        check(spec(extents, a_transposed=orders[0], b_transposed=orders[1], zero_init=zero_init), target)


@pytest.mark.parametrize("types", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("cpu", TARGETS)
def test_interpreter_of_tiles_where_they_lie(types: str, cpu: str) -> None:
    target = host_target(cpu)
    operand, acc = TYPES[types]
    spec = make_spec((8, 16, 16), operand_element_type(operand, target), acc)
    check(replace(spec, a_stride=AT_RUN_TIME, b_stride=AT_RUN_TIME), target)


@pytest.mark.parametrize("depth", [1, 5, 15, 16])
@pytest.mark.parametrize("types", ["f32", "f64"])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver4", "aarch64"])
def test_interpreter_of_products_that_end_early(types: str, cpu: str, depth: int) -> None:
    target = host_target(cpu)
    spec = make_spec((4, 16, 16), *TYPES[types])
    check(replace(spec, b_stride=AT_RUN_TIME, depth=AT_RUN_TIME), target, depth=depth)


@pytest.mark.parametrize("rows", [0, 1, 5, 12, 13, 16])
@pytest.mark.parametrize("types", ["f32", "i8"])
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "znver4", "aarch64"])
def test_interpreter_of_products_of_few_rows(types: str, cpu: str, rows: int) -> None:
    target = host_target(cpu)
    operand, acc = TYPES[types]
    spec = make_spec((16, 16, 16), operand_element_type(operand, target), acc)
    for in_place in (False, True):
        stride = AT_RUN_TIME if in_place else spec.a_stride
        check(replace(spec, a_stride=stride, rows=AT_RUN_TIME), target, rows=rows)


@pytest.mark.parametrize("columns", [0, 1, 4, 15, 17, 32])
@pytest.mark.parametrize("types", ["f32", "i8"])
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "znver4", "aarch64"])
def test_interpreter_of_products_of_few_columns(types: str, cpu: str, columns: int) -> None:
    target = host_target(cpu)
    operand, acc = TYPES[types]
    spec = make_spec((8, 32, 16), operand_element_type(operand, target), acc)
    for stride, gap, rows in ((spec.b_stride, 7, 5), (AT_RUN_TIME, 7, 5), (AT_RUN_TIME, 7, 8), (AT_RUN_TIME, 0, 8)):
        few = replace(spec, b_stride=stride, rows=AT_RUN_TIME, columns=AT_RUN_TIME)
        check(few, target, rows=rows, columns=columns, gap=gap)


def test_texts(golden: Callable[[str, str], None]) -> None:
    """f32 in its place; bytes, whose B is packed with its column sums; bf16 from rows that are far apart."""
    cases: list[tuple[str, Any]] = [
        ("x86-64-v3", make_spec((4, 16, 8), f32, f32)),
        ("icelake-server", make_spec((2, 16, 16), i8, i32, zero_init=True)),
        ("neoverse-v2", replace(make_spec((2, 4, 4), bf16, f32), b_stride=AT_RUN_TIME)),
    ]
    golden("\n".join(print_op(loops_of(spec, host_target(cpu))) for cpu, spec in cases), "cpu/dot_loops.ttir")


FORMS: dict[str, Callable[[DotSpec], DotSpec]] = {
    "plain": lambda spec: spec,
    "turned": lambda spec: replace(spec, a_transposed=True, b_transposed=True, a_stride=spec.m, b_stride=spec.k),
    "in place": lambda spec: replace(spec, a_stride=AT_RUN_TIME, b_stride=AT_RUN_TIME),
    "ending early": lambda spec: replace(
        spec, a_stride=AT_RUN_TIME, b_stride=AT_RUN_TIME, depth=AT_RUN_TIME, rows=AT_RUN_TIME, columns=AT_RUN_TIME
    ),
    "of zeros": lambda spec: replace(spec, zero_init=True),
}
SHAPES = ((64, 64, 32), (16, 32, 64), (1, 64, 64), (4, 16, 256), (128, 8, 16))


def test_counts(golden: Callable[[str, str], None]) -> None:
    """How much code products become: each type on each machine, in some of the forms, with the text as a number."""
    lines = []
    for number, (types, cpu) in enumerate(product(TYPES, TARGETS)):
        element, acc = TYPES[types]
        target, shape = host_target(cpu), SHAPES[number % len(SHAPES)]
        stored = operand_element_type(element, target)
        for form in list(FORMS)[number % 3 :: 3]:
            loops = loops_of(FORMS[form](make_spec(shape, stored, acc)), target)
            lines.append(f"{types} {cpu} {shape} {form}: {summary(loops)}; {crc32(print_op(loops).encode()):08x}\n")
    golden("".join(lines), "cpu/counts/dots.txt")
