"""Kernels of tests/kernels as TTIR text, against golden files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import branches
import calls
import loops
import objects
import pytest
import tutorials
from evaluating import run_time, ttir

import tilewright.language as tl
from tilewright.frontends import EvaluateOptions

I32, I64, P32, F32, F16, I1 = (run_time(t) for t in ("i32", "i64", "*i32", "*fp32", "*fp16", "*i1"))
A16, N16 = run_time("*fp16", 16), run_time("i32", 16)
TILES = {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 8}

KERNELS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (branches.early_return, {"x": P32, "n": I32}),
    (branches.elif_chain, {"x": P32, "n": I32}),
    (branches.logic, {"x": I1, "n": I32, "m": I32, "FLAG": True}),
    (branches.merged, {"x": P32, "n": I32}),
    (branches.only_side_effects, {"x": P32, "n": I32}),
    (branches.optional_pointer, {"x": F32, "bias": None}),
    (branches.perhaps_returned, {"x": P32, "n": I32}),
    (branches.static_early_return, {"x": P32, "STOP": False}),
    (branches.ternary, {"x": P32, "n": I32, "FLAG": True}),
    (branches.two_early_returns, {"x": P32, "n": I32, "flag": I32}),
    (calls.call_stays, {"x": P32}),
    (calls.combine_function, {"x": F32, "out": F32}),
    (calls.comprehension, {"x": P32, "N": 3}),
    (calls.constant_result, {"x": P32, "BLOCK": 64}),
    (calls.defaults_and_keywords, {"x": P32}),
    (calls.early_return_in_helper, {"x": P32, "n": I32}),
    (calls.function_parameter, {"x": P32, "F": calls.scaled}),
    (calls.python_at_compile_time, {"x": P32, "N": 5}),
    (calls.side_effect_only, {"x": P32}),
    (calls.star_arguments, {"x": P32}),
    (calls.static_recursion, {"x": P32}),
    (calls.tuple_parameter, {"pair": (P32, I32), "n": I32}),
    (calls.tuple_result, {"x": P32}),
    (loops.carried_tuple, {"x": F32, "n": I32}),
    (loops.collatz, {"x": P32, "out": P32}),
    (loops.constant_parameter_changes, {"x": P32, "n": I32, "START": 5}),
    (loops.constant_parameter_stays, {"x": P32, "n": I32, "SIZE": 16, "GROW": False}),
    (loops.count_down, {"out": P32, "n": I32}),
    (loops.hinted_while, {"x": P32, "n": I32}),
    (loops.hints, {"x": P32, "n": I32}),
    (loops.nested, {"x": P32, "n": I32, "m": I32}),
    (loops.sum_rows, {"x": F32, "out": F32, "n": I32, "BLOCK": 16}),
    (loops.swapped, {"x": P32, "n": I32}),
    (loops.tuples_by_number, {"x": P32, "a": I32, "b": I32}),
    (loops.unrolled, {"x": F32, "N": 3}),
    (loops.wide_counter, {"x": P32, "n": I64}),
    (objects.carried_object, {"x": P32, "n": I32}),
    (objects.descriptor_to_helper, {"x": F32, "out": F32}),
    (objects.operators_of_aggregate, {"x": P32, "n": I32}),
    (tutorials.add, {"x_ptr": F32, "y_ptr": F32, "out_ptr": F32, "n": N16, "BLOCK": 128}),
    (
        tutorials.softmax,
        {"out_ptr": F32, "x_ptr": F32, "x_stride": I32, "out_stride": I32, "n_rows": I32, "n_cols": I32, "BLOCK": 64},
    ),
    (
        tutorials.matmul,
        {"a_ptr": A16, "b_ptr": A16, "c_ptr": A16, "M": I32, "N": I32, "K": I32}
        | {"stride_am": N16, "stride_bk": N16, "stride_cm": N16, "ACTIVATION": "leaky_relu"}
        | TILES,
    ),
]


@pytest.mark.quick
@pytest.mark.parametrize(("kernel", "values"), KERNELS, ids=lambda item: getattr(item, "__name__", ""))
def test_ttir(kernel: Callable[..., Any], values: dict[str, Any], golden: Callable[[str, str], None]) -> None:
    golden(ttir(kernel, **values), f"frontends/{kernel.__module__}/{kernel.__name__}.ttir")


def test_asserts_reach_the_device_only_when_debugging() -> None:
    values = {"x": P32, "n": I32, "BLOCK": 32}
    assert "tt.assert" not in ttir(branches.asserts, **values)
    assert ttir(branches.asserts, EvaluateOptions(debug=True), **values).count("tt.assert") == 1


def test_static_condition_leaves_the_other_side_unevaluated() -> None:
    assert "tt.store" not in ttir(branches.static_early_return, x=P32, STOP=True)


def test_bias_is_added_when_given() -> None:
    assert "arith.addf" in ttir(branches.optional_pointer, x=F32, bias=F32)


def test_a_constant_that_grows_in_a_loop_is_no_shape() -> None:
    with pytest.raises(Exception, match="must be known at compile time"):
        ttir(loops.constant_parameter_stays, x=P32, n=I32, SIZE=16, GROW=True)


def test_the_variable_of_a_comprehension_names_its_values() -> None:
    def kernel(p):
        parts = [tl.load(place) for place in (p + 1, p + 4)]
        tl.store(p, parts[0] + parts[1])

    text = ttir(kernel, p=run_time("*i32"))
    assert "%place = tt.addptr" in text
    assert "%place_0 = tt.addptr" in text
