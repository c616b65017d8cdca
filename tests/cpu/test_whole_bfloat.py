"""Vectors of bf16 stay whole: LLVM takes them apart where they move, change sign or cross from block to block."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here

CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4")
SIZE = 256
Array = np.ndarray[Any, Any]


@tw.jit
def moved(x, out, n, OP: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    inside = i < n
    value = tl.load(x + i, inside, 1.0)
    if OP == "negated":
        value = -value
    if OP == "absolute":
        value = tl.abs(value)
    if OP == "chosen":
        value = tl.where(i % 3 == 0, value, -value)
    if OP == "flipped":
        value = tl.flip(value)
    if OP == "turned":
        value = tl.reshape(tl.trans(tl.reshape(value, (16, SIZE // 16))), (SIZE,))
    if OP == "scaled":
        value *= tl.load(x)
    if OP == "gathered":
        value = tl.load(x + i * 7 % SIZE, inside, 1.0)
    tl.store(out + i, value, inside)


def numbers() -> Array:
    """Random bits: NaN with payloads, subnormals, infinities, and both zeros."""
    bits = np.random.default_rng(5).integers(0, 1 << 16, SIZE, np.uint16)
    bits[:8] = 0x3FC0, 0x8000, 0, 0x7F80, 0xFF80, 0x7FC1, 0xFFC1, 1
    return bits.view(ml_dtypes.bfloat16)


def wanted(operation: str, x: Array, n: int) -> Array:
    bits, lanes = x.view(np.uint16), np.arange(SIZE)
    seen = np.where(lanes < n, bits, np.uint16(0x3F80))
    flipped = seen ^ np.uint16(0x8000)
    return {
        "negated": flipped,
        "absolute": seen & 0x7FFF,
        "chosen": np.where(lanes % 3 == 0, seen, flipped),
        "flipped": seen[::-1],
        "turned": seen.reshape(16, -1).T.ravel(),
        "gathered": bits[lanes * 7 % SIZE],
    }[operation]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("n", [0, 1, 15, 100, SIZE])
@pytest.mark.parametrize("operation", ["negated", "absolute", "chosen", "flipped", "turned", "gathered"])
def test_bits(operation: str, n: int, cpu: str) -> None:
    """A number that only moves keeps every bit; behind the mask nothing changes."""
    x, out = numbers(), np.full(SIZE, 0x1234, np.uint16)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        moved[(1,)](x, out.view(ml_dtypes.bfloat16), n, OP=operation, SIZE=SIZE)
    np.testing.assert_array_equal(out, np.where(np.arange(SIZE) < n, wanted(operation, x, n), np.uint16(0x1234)))


@pytest.mark.parametrize("cpu", CPUS)
def test_a_product_with_one_number(cpu: str) -> None:
    x, out = numbers(), np.zeros(SIZE, ml_dtypes.bfloat16)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        moved[(1,)](x, out, SIZE, OP="scaled", SIZE=SIZE)
    with np.errstate(all="ignore"):
        exact = (x.astype(np.float32) * np.float32(x[0])).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(out.astype(np.float32), exact.astype(np.float32))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("operation", ["negated", "absolute", "chosen", "flipped", "turned", "scaled", "gathered"])
def test_no_instruction_takes_them_apart(operation: str, cpu: str) -> None:
    """Only a number that becomes all lanes is put into a vector as bfloat; nothing is called to round lane by lane."""
    types = {"x": "*bf16", "out": "*bf16", "n": "i32", "OP": "constexpr", "SIZE": "constexpr"}
    source = tw.ASTSource(moved, types, {"OP": operation, "SIZE": SIZE})
    asm = tw.compile(source, target=tw.GPUTarget("cpu", cpu, 0)).asm
    moves = r"= (select|shufflevector|extractelement|fneg)\b.*x bfloat|x bfloat> %\w+, bfloat|llvm\.fabs\.v\d+bf16"
    assert not re.findall(moves, asm["llir"])
    assert "bf2" not in asm["asm"]


@tw.jit
def interleaved(x, y, out, SIZE: tl.constexpr):
    i, wide = tl.arange(0, SIZE), tl.arange(0, 4 * SIZE)
    a, b = tl.load(x + i), tl.load(y + i, i % 3 != 0, 1)
    four = tl.interleave(tl.interleave(a, a + b), tl.interleave(b, b * b))
    tl.store(out + wide, four, wide % 7 != 5)


@pytest.mark.parametrize("cpu", ["haswell", "icelake-server", "sapphirerapids", "znver3", "znver4", "znver5"])
@code_on("znver5")
def test_one_vector_becomes_both_halves_of_another(cpu: str) -> None:
    """LLVM ended the process where such a vector was loaded as bfloat."""
    types = {"x": "*bf16", "y": "*bf16", "out": "*bf16", "SIZE": "constexpr"}
    source = tw.ASTSource(interleaved, types, {"SIZE": 16})
    assert not re.findall(r"load <\d+ x bfloat>", tw.compile(source, target=tw.GPUTarget("cpu", cpu, 0)).asm["llir"])
