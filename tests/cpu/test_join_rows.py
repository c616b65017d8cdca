"""Rows of few vectors go side by side; rows that need loops of their own, or lie apart, stay alone."""

from __future__ import annotations

import numpy as np
import pytest
from test_passes import STEPS, SUMS_SIDE_BY_SIDE, TARGET, module_of

from tilewright.backends.cpu.choose_widths import choose_widths
from tilewright.backends.cpu.join_rows import join_rows
from tilewright.dialects.cpu import Nest
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

NAMES = [step.name for step in STEPS]
ROWS, PITCH = 32, 4096


def after(text: str, last: str) -> Op:
    """The module with the function `text` behind the pass `last`."""
    module = module_of(text)
    run_passes(module, STEPS[: NAMES.index(last) + 1])
    return module


def together(module: Op) -> list[int]:
    return [nest.together for nest in module.walk() if isinstance(nest, Nest)]


def wider(columns: int) -> str:
    """The sums of rows of so many columns."""
    return SUMS_SIDE_BY_SIDE.replace("32x8", f"32x{columns}").replace("<8x", f"<{columns}x").replace(
        "1x8x", f"1x{columns}x").replace("end = 8 :", f"end = {columns} :")


@pytest.mark.parametrize(("columns", "rows"), [(8, 8), (64, 2), (128, 1)])
def test_as_many_rows_as_hide_an_addition_go_side_by_side(columns: int, rows: int) -> None:
    assert together(after(wider(columns), "join_rows")) == [rows, 1]


def test_rows_whose_elements_lie_apart_stay_alone() -> None:
    """Each element is a load of its own then."""
    text = print_op(after(SUMS_SIDE_BY_SIDE, "allocate_buffers"))
    apart = text.replace(
        "%places = arith.addi %tall, %wide :",
        "%steps = tt.splat %n : i32 -> tensor<32x8xi32>\n      %far = arith.muli %wide, %steps : tensor<32x8xi32>\n"
        "      %places = arith.addi %tall, %far :",
    )
    assert apart != text
    for written, rows in ((text, 8), (apart, 1)):
        module = parse_module(written)
        verify(module)
        choose_widths(module, TARGET)
        assert join_rows(module, TARGET) == (rows > 1)
        assert together(module) == [rows, 1]


def test_loops_inside_of_a_nest_go_along_its_rows() -> None:
    """A nest of columns has its rows on another axis than `outer[-1]`, whose extent is taken for their number."""
    text = print_op(after(SUMS_SIDE_BY_SIDE, "allocate_buffers"))
    verify(parse_module(text))
    with pytest.raises(VerificationError, match=r"cpu\.accumulate.* goes along the rows of a nest"):
        verify(parse_module(text.replace("mode = rows", "mode = columns")))


def test_nests_that_are_to_be_short_take_rows_of_one_vector_only() -> None:
    module = after(wider(64), "merge_programs")
    for nest in [op for op in module.walk() if isinstance(op, Nest)]:
        nest.mark(optimize_size=True)
    choose_widths(module, TARGET)
    assert not join_rows(module, TARGET)
    assert together(module) == [1, 1]


@pytest.mark.parametrize("columns", [8, 64])
def test_the_sums_stay_what_they_were(columns: int) -> None:
    """Each row adds up in its own order, however many go side by side."""
    x = np.random.default_rng(columns).integers(-9, 9, ROWS * PITCH).astype(np.float32)
    found = []
    for last in ("allocate_buffers", "join_rows", "lower_nests", "unroll_and_jam"):
        module, out = after(wider(columns), last), np.zeros(ROWS, np.float32)
        run_ir(module, [x, out, 24])
        found.append(out)
    assert found[0].any()
    for out in found[1:]:
        np.testing.assert_array_equal(out, found[0])
