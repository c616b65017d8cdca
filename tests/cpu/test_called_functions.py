"""Functions marked noinline: real calls in machine code."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright import DeviceAssertError
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module


@tw.jit(noinline=True)
def pair(x, y):
    return x + 1, y * 2


@tw.jit(noinline=True)
def one(x):
    a, b = pair(x, x)
    return a + b


@tw.jit
def calls(x_ptr, n):
    program = tl.program_id(0)
    value = tl.load(x_ptr + program)
    if n > 2:
        value = one(value)
    for i in range(n):
        value += one(i).to(value.dtype)
    tl.store(x_ptr + program, value)


def called(kernel: Any, *arguments: Any, **options: Any) -> list[str]:
    """The functions that the machine code of a launch calls, after the launch."""
    compiled = kernel[options.pop("grid", (1,))](*arguments, **options)
    found: list[str] = re.findall(r"^\s*(?:call|callq|bl)\s+\.?([A-Za-z_]\w*)", compiled.asm["asm"], re.MULTILINE)
    return [name for name in found if not name.startswith("__")]


DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint16"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 2, 5])
@code_on("neoverse-v1")
def test_scalars(dtype: str, n: int) -> None:
    x = np.arange(6).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    wanted = x.copy()
    if n > 2:
        wanted = wanted + 1 + wanted * 2
    wanted = (wanted + sum(i + 1 + 2 * i for i in range(n))).astype(x.dtype)
    names = called(calls, x, n, grid=(6,))
    assert {name.partition("__")[0] for name in names} == {"test_called_functions_one", "test_called_functions_pair"}
    np.testing.assert_array_equal(x, wanted)


@tw.jit(noinline=True)
def row_sum(row_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(row_ptr + offsets, mask=offsets < n, other=0)
    tl.store(row_ptr, tl.program_id(1) + tl.num_programs(1).to(tl.float32))
    return tl.sum(total)


@tw.jit(noinline=True)
def product(z_ptr):
    offsets = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    z = tl.load(z_ptr + offsets)
    tl.store(z_ptr + offsets, tl.dot(z, z) + row_sum(z_ptr, 256, 32))


@tw.jit
def nested(x_ptr, z_ptr, out_ptr, n):
    """Tiles of the caller live across calls whose functions have buffers of their own."""
    offsets = tl.arange(0, 64)
    kept = tl.cumsum(tl.load(x_ptr + offsets), 0)
    for _ in range(2):
        kept += tl.sort(kept) * row_sum(x_ptr + 64, n, 16)
        product(z_ptr)
    tl.store(out_ptr + offsets, kept)


def arrays() -> list[np.ndarray[Any, Any]]:
    x = np.linspace(0, 1, 164, dtype=np.float32)
    z = np.eye(16, dtype=np.float32) * np.float32(0.5)
    return [x, z, np.zeros(64, np.float32)]


@pytest.mark.slow
def test_functions_with_loops_buffers_and_products() -> None:
    native, interpreted, stages = arrays(), arrays(), arrays()
    names = called(nested, *native, 100)
    assert {name.partition("__")[0] for name in names} == {
        "test_called_functions_row_sum",
        "test_called_functions_product",
    }
    tw.jit(nested.fn, interpret=True)[(1,)](*interpreted, 100)
    compiled = nested.warmup(*arrays(), 100, grid=(1,))
    run_ir(parse_module(compiled.asm["ttcir"]), [*stages, 100], (1,))
    for ours, theirs, ir in zip(native, interpreted, stages, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        np.testing.assert_allclose(ours, ir, rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_many_programs(threads: int) -> None:
    @tw.jit
    def kernel(x_ptr, out_ptr):
        row = tl.program_id(0)
        tl.store(out_ptr + row, row_sum(x_ptr + row * 40, 40, 16))

    x = np.random.default_rng(0).random((200, 40), np.float32)
    out, wanted = np.zeros(200, np.float32), x.sum(1)
    kernel[(200,)](x, out, num_threads=threads)
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


@tw.jit(noinline=True)
def checked(x_ptr, n):
    tl.device_print("n", n)
    offsets = tl.arange(0, 4)
    tl.device_assert(offsets < n, "too many")
    return tl.sum(tl.load(x_ptr + offsets))


@code_on("x86-64-v3")
def test_reports_of_callees(capsys: pytest.CaptureFixture[str]) -> None:
    @tw.jit(debug=True)
    def kernel(x_ptr, n):
        value = checked(x_ptr, n)
        tl.store(x_ptr + 4, value)

    x = np.ones(5, np.int32)
    kernel[(1,)](x, 4)
    assert x[4] == 4
    with pytest.raises(DeviceAssertError, match="too many") as caught:
        kernel[(1,)](x, 2)
    assert caught.value.index == (2,)
    assert x[4] == 4
    assert capsys.readouterr().out == "pid (0, 0, 0) idx () n: 4\npid (0, 0, 0) idx () n: 2\n"


@tw.jit(noinline=True)
def block(x_ptr, BLOCK: tl.constexpr):
    return tl.load(x_ptr + tl.arange(0, BLOCK))


def test_functions_that_return_tiles_are_inlined() -> None:
    @tw.jit
    def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
        tl.store(y_ptr + tl.arange(0, BLOCK), block(x_ptr, BLOCK) + block(y_ptr, BLOCK))

    x, y = np.arange(8.0), np.ones(8)
    assert called(kernel, x, y, BLOCK=8) == []
    np.testing.assert_array_equal(y, x + 1)


def test_arrays_that_a_function_only_reads_may_be_read_only() -> None:
    @tw.jit
    def kernel(x_ptr, y_ptr):
        tl.store(y_ptr, tl.sum(block(x_ptr, 8)) + first(x_ptr))

    x, y = np.arange(8.0), np.zeros(1)
    x.flags.writeable = False
    kernel[(1,)](x, y)
    assert y == 28
    with pytest.raises(ValueError, match="read-only"):
        writes[(1,)](x)


@tw.jit(noinline=True)
def first(x_ptr):
    return tl.load(x_ptr)


@tw.jit(noinline=True)
def put(x_ptr, value):
    tl.store(x_ptr, value)


@tw.jit
def writes(x_ptr):
    put(x_ptr + 1, 1.0)
