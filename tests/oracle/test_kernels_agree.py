"""The kernels of tests/kernels: the same result after every pass, as machine code, and in both interpreters."""

from __future__ import annotations

from typing import Any

import branches
import calls
import loops
import numpy as np
import objects
import pytest
import tutorials
from agreement import agree, each_pass_agrees

Array = np.ndarray[Any, Any]


def ints(*values: int) -> Array:
    """An array of int32."""
    return np.array(values, dtype=np.int32)


def floats(*values: float) -> Array:
    """An array of float32."""
    return np.array(values, dtype=np.float32)


def noise(*shape: int) -> Array:
    """Random float32."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def half(*shape: int) -> Array:
    """Random float16."""
    return noise(*shape).astype(np.float16)


MATMUL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2}
CASES: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (tutorials.add, (noise(100), noise(100), noise(100), 100), {"BLOCK": 32, "grid": (4,)}),
    (tutorials.softmax, (noise(5, 50), noise(5, 50), 50, 50, 5, 50), {"BLOCK": 64, "grid": (2,)}),
    (
        tutorials.matmul,
        (noise(70, 40), noise(40, 50), half(70, 50), 70, 50, 40, 40, 50, 50),
        {**MATMUL, "ACTIVATION": "leaky_relu", "grid": (6,)},
    ),
    (
        tutorials.matmul,
        (
            half(64, 32),
            half(32, 64),
            half(64, 64),
            64,
            64,
            32,
            32,
            64,
            64,
        ),
        {**MATMUL, "ACTIVATION": "", "grid": (4,)},
    ),
    (loops.sum_rows, (noise(160), noise(32), 5), {"BLOCK": 32}),
    (loops.count_down, (ints(0), 9), {}),
    (loops.hints, (ints(*[-1] * 6), 5), {}),
    (loops.unrolled, (floats(1, 2, 3),), {"N": 3}),
    (loops.nested, (ints(0), 4, 5), {}),
    (loops.collatz, (ints(27), ints(0)), {}),
    (loops.carried_tuple, (floats(0), 4), {}),
    (loops.constant_parameter_changes, (ints(0), 4), {"START": 5}),
    (loops.constant_parameter_stays, (ints(*[0] * 16), 4), {"SIZE": 16, "GROW": False}),
    (loops.swapped, (ints(7, 3), 3), {}),
    (loops.hinted_while, (ints(*[9] * 5), 4), {}),
    (loops.tuples_by_number, (ints(0, 0), 4, 5), {}),
    (loops.assigned_in_condition, (ints(0), 7), {}),
    (branches.early_return, (ints(*[9] * 5), 3), {"grid": (5,)}),
    (branches.two_early_returns, (ints(*[9] * 5), 3, 0), {"grid": (5,)}),
    (branches.two_early_returns, (ints(*[9] * 5), 3, 7), {"grid": (5,)}),
    (branches.static_early_return, (ints(9),), {"STOP": False}),
    (branches.merged, (ints(9), 5), {}),
    (branches.elif_chain, (ints(9), 2), {}),
    (branches.ternary, (ints(9), 3), {"FLAG": True}),
    (branches.logic, (ints(9), 3, 4), {"FLAG": True}),
    (branches.optional_pointer, (floats(5), floats(2)), {}),
    (branches.only_side_effects, (ints(9), 0), {}),
    (calls.defaults_and_keywords, (ints(5),), {}),
    (calls.star_arguments, (ints(5, 6, 7),), {}),
    (calls.tuple_result, (ints(5, 6),), {}),
    (calls.static_recursion, (ints(5),), {}),
    (calls.constant_result, (ints(*[0] * 32),), {"BLOCK": 64}),
    (calls.early_return_in_helper, (ints(5), 3), {}),
    (calls.comprehension, (ints(5, 6, 7),), {"N": 3}),
    (objects.descriptor_to_helper, (noise(128), noise(64)), {}),
]
IDS = [kernel.__name__ for kernel, _, _ in CASES]


@pytest.mark.parametrize(("kernel", "arguments", "options"), CASES, ids=IDS)
def test_passes(kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    each_pass_agrees(kernel, *arguments, **options)


@pytest.mark.parametrize(("kernel", "arguments", "options"), CASES, ids=IDS)
def test_machine_code_and_interpreters(kernel: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    agree(kernel, *arguments, **options)
