"""Products as one op and as loops: the same results in the interpreter before and after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dot_native import compare, expected, make_spec, random_tile
from loop_native import module_of

from tilewright.backends.cpu.dot import DotSpec, operand_element_type
from tilewright.backends.cpu.dot.spec import put_matmul, spec_of_matmul
from tilewright.backends.cpu.expand_dots import expand_dots
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Matmul
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op, Value
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import Type, bf16, f32, f64, i8, i32, i64
from tilewright.ir.verifier import verify

COUNTED = ("a_stride", "b_stride", "a_step", "b_step", "depth", "rows", "columns")


def module_with(spec: DotSpec, counted: tuple[str, ...]) -> Op:
    """A module with one product; the numbers `counted` are parameters behind the three addresses."""

    def build(b: LoopBuilder, *values: Value) -> None:
        given: dict[str, Any] = dict(zip(counted, values[3:], strict=True))
        put_matmul(b, replace(spec, **given), values[:3], ())

    module = parse_module(print_op(module_of(build, [BYTES] * 3 + [i64] * len(counted))))
    verify(module)
    return module


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "znver4", "neoverse-v1"])
@pytest.mark.parametrize("types", [(f32, f32), (f64, f64), (bf16, f32), (i8, i32)], ids=lambda types: str(types[0]))
@pytest.mark.parametrize("order", [(False, False), (True, False), (False, True)])
def test_the_loops_compute_what_the_op_says(cpu: str, types: tuple[Type, Type], order: tuple[bool, bool]) -> None:
    rng, target = np.random.default_rng(7), host_target(cpu)
    operand, acc = operand_element_type(types[0], target), types[1]
    for zero_init in (False, True):
        spec = make_spec((8, 16, 16), operand, acc, a_transposed=order[0], b_transposed=order[1], zero_init=zero_init)
        a, b = (random_tile(*shape, operand, rng) for shape in (_shape(8, 16, order[0]), (16, 16)))
        before = random_tile(8, 16, acc, rng)
        module = module_with(spec, ())
        for _ in ("the op", "its loops"):
            c = before.copy()
            run_ir(module, [a, b, c])
            compare(c, expected(spec, a, b, before), spec)
            changed = expand_dots(module, target)
            verify(module)
        assert not changed, "the second time there is nothing to do"


def _shape(first: int, second: int, transposed: bool) -> tuple[int, int]:
    return (second, first) if transposed else (first, second)


@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver4"])
@pytest.mark.parametrize(
    ("depth", "rows", "columns"), [(16, 8, 16), (5, 8, 16), (16, 3, 16), (16, 8, 9), (1, 0, 16), (7, 1, 1)]
)
@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (1, 3)])
def test_what_does_not_count_is_neither_read_nor_needed(
    cpu: str, depth: int, rows: int, columns: int, steps: tuple[int, int]
) -> None:
    """Rows of A behind those that count do not exist: reading them would be out of bounds."""
    rng, target = np.random.default_rng(depth + rows), host_target(cpu)
    spec = make_spec((8, 16, 16), f32, f32)
    a = rng.integers(-9, 9, (max(rows, 1), 16 * steps[0])).astype(np.float32)
    b = rng.integers(-9, 9, (16, 16 * steps[1])).astype(np.float32)
    module, found = module_with(spec, COUNTED), []
    for _ in ("the op", "its loops"):
        c = np.full((8, 16), 2, np.float32)
        run_ir(module, [a, b, c, a.shape[1], b.shape[1], *steps, depth, rows, columns])
        found.append(c[:rows, :columns])
        expand_dots(module, target)
    wanted = 2 + a[:rows, :: steps[0]][:, :depth] @ b[:depth, :: steps[1]][:, :columns]
    for result in found:
        np.testing.assert_array_equal(result, wanted)


def test_the_op_keeps_what_it_was_given() -> None:
    spec = replace(make_spec((8, 16, 32), bf16, f32, b_transposed=True, zero_init=True), depth=20, a_step=2)
    (op,) = (op for op in module_with(spec, ("rows",)).walk() if isinstance(op, Matmul))
    found, soon = spec_of_matmul(op)
    assert found == replace(spec, rows=op.rows)
    assert soon == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("array<i64: 8, 16, 16>", "array<i64: 8, 16>", "three extents"), ("f32", "f16", "multiplies no f16")],
)
def test_what_is_no_product_is_refused(old: str, new: str, message: str) -> None:
    text = print_op(module_with(make_spec((8, 16, 16), f32, f32), ()))
    with pytest.raises(VerificationError, match=message):
        verify(parse_module(text.replace(old, new)))
