"""Kernels that run in Python: what Python allows inside, what arguments they take, and what they say about mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.interpreter.memory import OutOfBoundsError, ReadOnlyArrayError
from tilewright.support.diagnostics import CompilationError, DeviceAssertError


@tw.jit(interpret=True)
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


def blocks(arguments: dict[str, Any]) -> tuple[int]:
    """A grid that depends on the arguments."""
    return (tw.cdiv(arguments["n"], arguments["BLOCK"]),)


def test_numpy_arrays_callable_grid_and_keywords() -> None:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    out = np.zeros(100, np.float32)
    add[blocks](x, y, n=100, out=out, BLOCK=32)
    np.testing.assert_array_equal(out, x + 1)


@tw.jit(interpret=True)
def through_table(table, out, named):
    i = tl.arange(0, 16)
    tl.store(out + i, tl.load(tl.load(table).to(tl.pointer_type(tl.float32)) + i))


@pytest.mark.needs_torch
def test_torch_tensors() -> None:
    import torch

    x = torch.arange(100, dtype=torch.bfloat16)
    out = torch.zeros(100, dtype=torch.bfloat16)
    add[blocks](x, x, out, 100, BLOCK=32)
    assert torch.equal(out, x + x)


def test_an_access_out_of_bounds_names_argument_and_element() -> None:
    x = np.zeros(100, np.float32)
    with pytest.raises(
        OutOfBoundsError, match=r"tt\.load outside of the argument `x`: element 100 of 100 \(lane \[4\]\)"
    ):
        add[(4,)](x, np.zeros(128, np.float32), np.zeros(128, np.float32), 128, BLOCK=32)


def test_memory_that_a_table_of_addresses_names_is_an_argument_too() -> None:
    """The message named the table itself, and an element of it far away."""
    x, out = np.arange(1 << 16, dtype=np.float32), np.zeros(16, np.float32)
    table = np.array([x[1 << 15 :].ctypes.data], np.uint64)
    with pytest.raises(OutOfBoundsError, match=r"outside of every argument: address 0x.* has to be passed"):
        through_table[(1,)](table, out, out)
    through_table[(1,)](table, out, x)
    np.testing.assert_array_equal(out, x[1 << 15 :][:16])


def test_a_store_to_a_read_only_array_is_refused() -> None:
    x = np.zeros(100, np.float32)
    out = x.copy()
    out.flags.writeable = False
    with pytest.raises(ReadOnlyArrayError, match="`out`"):
        add[blocks](x, x, out, 100, BLOCK=32)


@tw.jit
def helper(value, factor=2):
    if value > 10:
        return value
    return value * factor


@tw.jit
def larger(a, b):
    return tl.maximum(a, b)


@tw.jit(interpret=True)
def everything(x, out, n, seen: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tile = tl.load(x + offsets)
    seen(tile)
    total = 0.0
    for i in range(n):
        value = tl.load(x + i)
        seen(i)
        if value < 0:
            continue
        if i == 5:
            break
        total += helper(value, factor=3)
    while total > 100:
        total = total / 2
    for j in tl.static_range(2):
        total += j
    best = tl.reduce(tile, 0, larger)
    tl.store(out, max(total, best, 1.5))
    tl.store(out + 1, min(i, 3).to(tl.float32))
    if total < 0:
        return
    tl.store(out + 2, [best, total][min(n, 1)])


def test_python_inside_of_a_kernel() -> None:
    x = np.array([1, -2, 3, 40, 5, 6, 7, 8], np.float32)
    out = np.zeros(3, np.float32)
    shown: list[str] = []

    def seen(value: Any) -> None:
        shown.append(repr(value))

    everything[(1,)](x, out, 8, seen, BLOCK=8)
    total = 3 + 9 + 40 + 15 + 1
    np.testing.assert_array_equal(out, [total, 3, total])
    assert shown[0] == "tensor([ 1. -2.  3. 40.  5.  6.  7.  8.], <[8], fp32>)"
    assert shown[1] == "tensor(0, int32)"
    assert len(shown) == 7


@tw.jit(interpret=True)
def prints(x, BLOCK: tl.constexpr):
    tile = tl.load(x + tl.arange(0, BLOCK))
    print("python", tile)  # noqa: T201 - the kernel prints
    tl.device_print("device", tile)
    print(f"sum {tl.sum(tile):>5}")  # noqa: T201 - the kernel prints


def test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    prints[(2,)](np.arange(4, dtype=np.uint8), BLOCK=4)
    lines = capsys.readouterr().out.splitlines()
    device = [f"pid (0, 0, 0) idx ({i}) device: {i}" for i in range(4)]
    assert lines[:6] == ["python tensor([0 1 2 3], <[4], uint8>)", *device, "sum     6"]
    assert lines[7] == "pid (1, 0, 0) idx (0) device: 0"


@tw.jit(interpret=True)
def wrong(x, BLOCK: tl.constexpr):
    a = tl.arange(0, BLOCK)
    b = tl.arange(0, BLOCK * 2)
    tl.store(x + a, a + b)


def test_a_mistake_is_shown_in_the_source() -> None:
    with pytest.raises(CompilationError) as caught:
        wrong[(1,)](np.zeros(8, np.int32), BLOCK=4)
    assert "tl.store(x + a, a + b)" in str(caught.value)
    assert "^^^^^" in str(caught.value)


@tw.jit(interpret=True)
def checks(x):
    tl.device_assert(tl.load(x) == 1, "x must be 1")


def test_device_assert() -> None:
    checks[(1,)](np.ones(1, np.int32))
    with pytest.raises(DeviceAssertError, match=r"x must be 1"):
        checks[(1,)](np.zeros(1, np.int32))


@tw.jit(interpret=True)
def unsigned(x, out):
    n = tl.load(x)
    count = 0
    for _ in range(n - 4294967290):
        count += 1
    tl.store(out, count)
    tl.store(out + 1, int(n) // 2**31)


def test_unsigned_numbers_are_not_negative() -> None:
    out = np.zeros(2, np.int32)
    unsigned[(1,)](np.array([4294967295], np.uint32), out)
    np.testing.assert_array_equal(out, [5, 1])


@tw.jit(interpret=True)
def optional(x, bias, pair):
    value = tl.load(x)
    if bias is not None:
        value += tl.load(bias)
    tl.store(pair[0], value + pair[1])


def test_none_and_tuples() -> None:
    x, out = np.array([5.0], np.float32), np.zeros(1, np.float32)
    optional[(1,)](x, None, (out, 2))
    assert out[0] == 7
    optional[(1,)](x, x, (out, 1))
    assert out[0] == 11


def test_helpers_cannot_be_called_outside_of_kernels() -> None:
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        helper(3)
    with pytest.raises(RuntimeError, match="kernel"):
        add(1, 2, 3, 4, 5)


@pytest.fixture
def interpreting(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRITON_INTERPRET=1 while the test runs."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.mark.usefixtures("interpreting")
def test_setting_turns_every_kernel_into_an_interpreted_one() -> None:
    @tw.jit
    def kernel(x, seen: tl.constexpr):
        seen(float(tl.load(x)))
        tl.store(x, 2.5)

    x = np.ones(1, np.float32)
    shown: list[float] = []
    kernel[(1,)](x, shown.append)
    assert shown == [1.0]
    assert x[0] == 2.5


@tw.jit
def counted(start, end, out):
    turns, last = 0, 0
    low, high = tl.load(start), tl.load(end)
    for i in range(low, high, 2):
        turns += 1
        last = (i.to(tl.int64) >> 1).to(tl.int32)
    tl.store(out, turns)
    tl.store(out + 1, last)


@pytest.mark.parametrize(
    ("start", "end", "turns"),
    [
        (np.uint8(0), np.uint8(200), 100),
        (np.uint8(5), np.int32(200), 98),
        pytest.param(np.uint16(9), np.uint16(40000), 19996, marks=pytest.mark.spared),
        (np.uint32(2**32 - 9), np.uint32(2**32 - 1), 4),
        (np.int8(-5), np.int64(5), 5),
        (np.int64(2**40), np.int64(2**40 + 3), 2),
    ],
)
def test_counters_have_the_type_that_the_bounds_have_in_common(start: Any, end: Any, turns: int) -> None:
    found = []
    for kernel in (counted, tw.jit(interpret=True)(counted.fn)):
        out = np.zeros(2, np.int32)
        kernel[(1,)](np.array([start]), np.array([end]), out)
        found.append(out)
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][0] == turns


@tw.jit(interpret=True)
def ones(x, out, n, pair, description, B: tl.constexpr):
    i = tl.arange(0, B)
    small = tl.load(x + i)
    tl.store(out + i, small + n)
    tl.store(out + B + i, small + pair[0])
    tl.store(out + 2 * B + i, small + pair[1])
    tl.store(out + 3 * B + i, small + n.to(tl.int32) + (n - B).to(tl.int64) * pair[0].to(tl.int64))
    tl.store(out + 4 * B + i, tl.reshape(description.load([0, 0]), (B,)))


def test_the_argument_1_is_a_constant_as_in_compiled_kernels() -> None:
    """It was a number of 32 bits, so `small + n` did not wrap; a constant has what a scalar has."""
    x, out = np.array([127, 1, -128, 5] * 4, np.int8), np.zeros(80, np.int32)
    rows = tw.TensorDescriptor(x, [1, 16], [16, 1], [1, 16])
    ones[(1,)](x, out, 1, (1, 2), rows, B=16)
    wrapped, wide = x + np.int8(1), x.astype(np.int32)
    np.testing.assert_array_equal(out.reshape(5, 16), [wrapped, wrapped, wide + 2, wide + 1 + (1 - 16), x])


@tw.jit(interpret=True)
def distances(out, n):
    tl.store(out, abs(n - 3))


def test_abs_takes_constants() -> None:
    out = np.zeros(1, np.int32)
    distances[(1,)](out, 1)
    assert out[0] == 2
