"""The size of code of functions and reductions: instructions, registers; and that it is right."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch, run
from test_anchors import KERNELS, anchor_of

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia.ptxas import assemble_kernel

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(5)
BLOCK = 1024


def code(name: str) -> Any:
    anchor = anchor_of(name)
    arguments = [np.zeros(1, np.dtype(ARRAYS[kind])) if kind in ARRAYS else 16 for kind in anchor.types.values()]
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages, "capability": anchor.capability}
    return compiled(getattr(KERNELS, anchor.kernel), arguments, **options, **anchor.constants)


ARRAYS = {"*fp32": "f4", "*fp64": "f8", "*i64": "i8"}


def ulps(found: Array, exact: Array) -> float:
    """The largest error in units in the last place, where the result is finite."""
    single = exact.astype(np.float32)
    usable = np.isfinite(single)
    np.testing.assert_array_equal(found[~usable], single[~usable])
    return float(np.max(np.abs(found - exact)[usable] / np.spacing(np.abs(single[usable])).astype(float)))


def powers(x: Array, y: Array) -> Array:
    *_, found = run(KERNELS.power, (x.size // BLOCK,), x, y, np.zeros_like(x), x.size, BLOCK=BLOCK)
    return found


def test_powers_of_floats_take_no_doubles() -> None:
    ptx = str(code("pow1024_w4_90").asm["ptx"])
    assert ".f64" not in ptx
    assert ".local" not in ptx


def test_powers_of_doubles_have_one_copy() -> None:
    assert str(code("pow1024f64_w4_90").asm["ptx"]).count("div.rn.f64") == str(ONE_POWER).count("div.rn.f64") > 0


ONE_POWER = compiled(KERNELS.power, [np.zeros(1)] * 3 + [1], BLOCK=128).asm["ptx"]


def test_powers_of_floats_have_one_ulp() -> None:
    """Over all exponents, and near 1, where the logarithm is small and its power large."""
    bases = [np.exp2(RANDOM.uniform(-reach, reach, 4 * BLOCK)) for reach in (127, 2, 0.5, 1e-3)]
    x = np.concatenate(bases).astype(np.float32)
    with np.errstate(over="ignore", divide="ignore"):
        y = (RANDOM.uniform(-150, 128, x.size) / np.log2(x.astype(float))).astype(np.float32)
    y = np.where(np.isfinite(y), y, np.float32(1))
    with np.errstate(over="ignore", under="ignore"):
        assert ulps(powers(x, y), x.astype(float) ** y.astype(float)) <= 1


def test_powers_of_edges() -> None:
    """Zeros, infinities, NaN, subnormal numbers, signs, odd and even exponents."""
    few = [0.0, 1.0, 0.5, 2.0, 2.5, 3.0, 1e-45, 1e-40, 3e38, 1e38, 16777217.0, 16777215.0, 0.99999994, 1.0000001]
    edges = np.array([*few, *(-v for v in few), np.inf, -np.inf, np.nan, 5.0], np.float32)
    x, y = (axis.ravel().copy() for axis in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(float), y.astype(float)).astype(np.float32)
    found = powers(x, y)
    np.testing.assert_array_max_ulp(found[~np.isnan(expected)], expected[~np.isnan(expected)], 1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[found == 0]))


@pytest.mark.parametrize("name", ["cos1024_w4_90", "cos1024f64_w4_90"])
def test_large_angles_have_one_copy(name: str) -> None:
    """2/π is loaded by a function that is there once, and is called only for large angles."""
    ptx = str(code(name).asm["ptx"])
    loads = [line for line in ptx.splitlines() if "ld.global" in line and "tw_two_over_pi" not in line]
    assert len(loads) <= 4 + 4
    assert ptx.count("call.uni") == 8
    assert ".local" not in ptx


def cosine(x: float) -> float:
    """The cosine by more bits of π than a float has."""
    digits = 10**420
    turns = Fraction(x) / (2 * Fraction(PI, digits))
    return math.cos(float((turns - math.floor(turns)) * 2 * Fraction(PI, digits)))


def _arc(x: int, one: int) -> int:
    power = total = one // x
    n, sign = 3, -1
    while power:
        power //= x * x
        total, n, sign = total + sign * (power // n), n + 2, -sign
    return total


PI = 4 * (4 * _arc(5, 10**440) - _arc(239, 10**440)) // 10**20


@pytest.mark.parametrize(("dtype", "largest"), [(np.float32, 127), (np.float64, 1023)])
def test_cosines_of_all_sizes(dtype: type, largest: int) -> None:
    exponents = RANDOM.integers(-5, largest + 1, BLOCK)
    x = np.ldexp(RANDOM.uniform(-1, 1, BLOCK), exponents).astype(dtype)
    x[:4] = np.finfo(dtype).max, 1e5, np.nextafter(dtype(1e5), dtype(0)), 1e6
    *_, found = run(KERNELS.cosine, (1,), x, np.zeros_like(x), BLOCK, BLOCK=BLOCK)
    np.testing.assert_allclose(found, [cosine(float(v)) for v in x], rtol=0, atol=2 * np.finfo(dtype).eps)


def test_cosines_of_what_is_no_angle() -> None:
    x = np.resize(np.array([np.inf, -np.inf, np.nan, 0.0], np.float32), BLOCK)
    *_, found = run(KERNELS.cosine, (1,), x, np.zeros_like(x), BLOCK, BLOCK=BLOCK)
    np.testing.assert_array_equal(found, np.resize(np.array([np.nan, np.nan, np.nan, 1], np.float32), BLOCK))


def test_registers_are_folded_one_half_after_the_other() -> None:
    """Sums of the first half are finished before the second half is begun."""
    kernel = compiled(row_sums(), [np.zeros(1, np.float32), np.zeros(1, np.float32)], num_warps=1, COLUMNS=128)
    lines = [line for line in str(kernel.asm["llir"]).splitlines() if " fadd " in line]
    (first, *_), (second, *_), (_, *operands) = (re.findall(r"%\w+", line) for line in lines[:3])
    assert operands == [first, second]


def row_sums() -> Any:
    return KERNELS.tilewright.jit(sum_of_row)


def sum_of_row(x_ptr, out_ptr, COLUMNS: KERNELS.tl.constexpr):
    KERNELS.tl.store(out_ptr, KERNELS.tl.sum(KERNELS.tl.load(x_ptr + KERNELS.tl.arange(0, COLUMNS))))


def argmax(kernel: str, x: Array, **constants: Any) -> Array:
    rows, columns = x.shape
    anchor = next(a for a in KERNELS.ANCHORS if a.kernel == kernel)
    grid = (-(-rows // constants["ROWS"]),)
    given = [x, np.zeros(rows, np.int64), rows, columns]
    return launch(compiled(getattr(KERNELS, anchor.kernel), given, num_warps=1, **constants), grid, given)[1]


@pytest.mark.spared
@pytest.mark.parametrize("kernel", ["argmax", "argmax_at_once"])
def test_argmax(kernel: str) -> None:
    """Ties, NaN, rows of -inf, and more elements than registers; the last tile is cut both ways."""
    x = RANDOM.integers(0, 40, (11, 900)).astype(np.float32)
    x[1, [7, 500]], x[2, :] = np.nan, -np.inf
    x[3, 899] = 50
    columns = 512 if kernel == "argmax" else 1024
    last = {"LAST": 2**31 - 1} if kernel == "argmax" else {}
    found = argmax(kernel, x, ROWS=8, COLUMNS=columns, **last)
    np.testing.assert_array_equal(found, x.argmax(axis=1))


@pytest.mark.spared
@pytest.mark.needs_ptxas
@pytest.mark.parametrize(
    ("name", "registers", "spilled"), [("argmax32x1024_w8s1_80", 116, 0), ("pow1024_w4_80", 31, 0)]
)
def test_registers(name: str, registers: int, spilled: int) -> None:
    """No more than 1.05 times those of Triton 3.9's code, with ptxas 12.9."""
    kernel = code(name)
    assert kernel.n_regs <= registers
    assert kernel.n_spills == spilled


FAKE_PTXAS = """#!/bin/sh
for last; do :; done
if grep -q maxnreg "$4" 2>/dev/null; then
    echo "1320 bytes stack frame, 1320 bytes spill stores, 8 bytes spill loads"; echo "Used 255 registers"
else
    echo "{frame} bytes stack frame, {frame} bytes spill stores, 8 bytes spill loads"; echo "Used {registers} registers"
fi
echo x > "$last"
"""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("registers", "frame", "expected"),
    [(32, 5140, (255, 1320)), (32, 0, (32, 0)), (32, 900, (32, 900)), (250, 5140, (250, 5140))],
)
def test_ptxas_that_gives_up_is_asked_again(
    tmp_path: Path, registers: int, frame: int, expected: tuple[int, int]
) -> None:
    program = tmp_path / "ptxas"
    text = FAKE_PTXAS.replace("{frame}", str(frame)).replace("{registers}", str(registers))
    program.write_text(text)
    program.chmod(0o755)
    found = assemble_kernel(".entry f()\n.reqntid 256\n{ ret; }", "sm_80", ptxas=str(program))
    assert (found.registers, found.spilled_bytes) == expected


@tw.jit
def two_sums(a, b, c, K, N: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [N, K], [K, 1], [N, 64])
    right = tl.make_tensor_descriptor(b, [2 * N, K], [K, 1], [N, 64])
    first, second = tl.zeros((N, N), tl.float32), tl.zeros((N, N), tl.float32)
    for k in range(0, K, 64):
        x = left.load([0, k])
        first = tl.dot(x, right.load([0, k]).T, first)
        second = tl.dot(x, right.load([N, k]).T, second)
    tl.store(c + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], first * tl.exp(second))


@pytest.mark.needs_ptxas
def test_two_sums_that_leave_tensor_memory_do_not_spill() -> None:
    """With 128 words in an instruction ptxas spilled 26 bytes, with 64 it took 240 registers."""
    a, b, c = np.zeros((128, 64), "f2"), np.zeros((256, 64), "f2"), np.zeros((128, 128), "f4")
    kernel = compiled(two_sums, [a, b, c, 64], N=128, capability=100)
    assert kernel.n_spills == 0
    assert kernel.n_regs < 240
