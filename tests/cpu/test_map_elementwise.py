"""`tl.map_elementwise`, and branches in the functions of reductions and scans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module

N = 64


@tw.jit
def sign(x, y):
    if x < y:
        return -1
    if x == y:
        return 0
    return 1


@tw.jit
def quotients(a0, a1, a2, a3, b0, b1, b2, b3):
    return a0 // b0, a1 // b1, a2 // b2, a3 // b3, a0 % b0, a1 % b1, a2 % b2, a3 % b3


@tw.jit
def halved(x):
    return (x / 2).to(tl.float32)


@tw.jit
def selu(x, alpha):
    if x > 0:
        if x > 3:
            return halved(x)
        return x
    return alpha * (tl.exp(x) - 1)


@tw.jit
def swapped(a, b):
    return b, a


@tw.jit
def larger(a, b):
    if a > b:
        return a + 0
    if a == b:
        return b
    return b


@tw.jit
def signs(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(sign, tl.load(x + i), tl.load(y + i)))


@tw.jit
def divisions(x, y, out, rest, N: tl.constexpr):
    i = tl.arange(0, N)
    whole, left = tl.map_elementwise(quotients, tl.load(x + i), tl.load(y + i), pack=4)
    tl.store(out + i, whole)
    tl.store(rest + i, left)


def integers(low: int = 0) -> np.ndarray:
    return np.random.default_rng(3).integers(low, 5, N).astype(np.int32)


OPTIONS = pytest.mark.parametrize("options", [{}, {"frontend": "bytecode"}], ids=["ast", "bytecode"])


@OPTIONS
def test_branches(options: dict[str, Any]) -> None:
    x, y, out = integers(), integers()[::-1].copy(), np.zeros(N, np.int32)
    tw.jit(signs.fn, **options)[(1,)](x, y, out, N=N)
    assert (out == np.sign(x - y)).all()


@pytest.mark.parametrize("stage", ["ttir", "ttcir"])
def test_the_text_means_the_same(stage: str) -> None:
    x, y, out = integers(), integers()[::-1].copy(), np.zeros(N, np.int32)
    text = signs.warmup(x, y, out, N=N, grid=(1,)).asm[stage]
    assert ("tt.map_elementwise" in text) == (stage == "ttir")
    run_ir(parse_module(text, stage), [x, y, out])
    assert (out == np.sign(x - y)).all()


@pytest.mark.parametrize("options", [{}, {"frontend": "trace"}, {"interpret": True}], ids=["read", "traced", "run"])
def test_packs(options: dict[str, Any]) -> None:
    x, y, out, rest = integers(), integers(1), np.zeros(N, np.int32), np.zeros(N, np.int32)
    tw.jit(divisions.fn, **options)[(1,)](x, y, out, rest, N=N)
    assert (out == x // y).all()
    assert (rest == x % y).all()


def test_neighbours_are_packed() -> None:
    @tw.jit
    def kernel(x, out):
        i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
        tl.store(out + i, tl.map_elementwise(swapped, tl.load(x + i), pack=2)[0])

    x = np.arange(32, dtype=np.int32)
    out = np.zeros_like(x)
    kernel[(1,)](x, out)
    assert (out.reshape(-1, 2) == x.reshape(-1, 2)[:, ::-1]).all()


def test_operands_broadcast_and_functions_call_others() -> None:
    @tw.jit
    def kernel(x, out, alpha):
        i = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
        value = tl.map_elementwise(selu, tl.load(x + i), alpha + tl.arange(0, 8)[:, None])
        tl.store(out + i, value)
        tl.store(out + 64, tl.map_elementwise(selu, 5.0, alpha))

    x = np.random.default_rng(1).normal(0, 3, 64).astype(np.float32)
    out = np.zeros(65, np.float32)
    kernel[(1,)](x, out, 1.5)
    alpha = 1.5 + np.repeat(np.arange(8), 8)
    expected = np.where(x > 3, x / 2, np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1)))
    assert np.allclose(out[:64], expected, rtol=1e-5)
    assert out[64] == 2.5


def test_reductions_and_scans_whose_function_branches() -> None:
    @tw.jit
    def kernel(x, out, maxima, N: tl.constexpr):
        i = tl.arange(0, N)
        value = tl.load(x + i)
        tl.store(out, tl.reduce(value, 0, larger))
        tl.store(maxima + i, tl.associative_scan(value, 0, larger))

    x, out, maxima = integers(-5), np.zeros(1, np.int32), np.zeros(N, np.int32)
    kernel[(1,)](x, out, maxima, N=N)
    assert out[0] == x.max()
    assert (maxima == np.maximum.accumulate(x)).all()


@tw.jit
def prints(x):
    tl.device_print("x", x)
    return x


@tw.jit
def uneven(a, b):
    return a, b.to(tl.float32)


@pytest.mark.parametrize(
    ("function", "pack", "message"),
    [
        (prints, 1, "does not accept scalar_fn = tt.print"),
        (uneven, 2, "it returns int32, fp32 for 2 of each result"),
        (sign, 3, "a power of two that divides the last axis"),
        (swapped, 128, "a power of two that divides the last axis"),
    ],
)
def test_refusals(function: Any, pack: int, message: str) -> None:
    @tw.jit
    def kernel(x, FUNCTION: tl.constexpr, PACK: tl.constexpr):
        i = tl.arange(0, 64)
        tl.store(x + i, tl.map_elementwise(FUNCTION, tl.load(x + i), pack=PACK))

    with pytest.raises(tw.TilewrightError, match=message):
        kernel[(1,)](integers(), FUNCTION=function, PACK=pack)


def test_of_scalars_the_function_is_called() -> None:
    @tw.jit
    def kernel(x, out):
        tl.store(out, tl.map_elementwise(sign, tl.load(x), 2))

    x, out = np.full(1, 7, np.int32), np.zeros(1, np.int32)
    assert "map_elementwise" not in kernel[(1,)](x, out).asm["ttir"]
    assert out == [1]


@tw.jit
def steps_to_one(x):
    n = 0
    if x > 0:  # for the others the loop would not end
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            n += 1
    return n


@tw.jit
def common_divisors(a0, a1, b0, b1):
    while b0 != 0:
        a0, b0 = b0, a0 % b0
    while b1 != 0:
        a1, b1 = b1, a1 % b1
    return a0, a1


@tw.jit
def sums(x, n):
    total = x
    for i in range(3):  # the same for all elements
        for j in range(i, n, 2):
            total += j
    for _ in range(n + 2147483640, 2147483647, 5):  # the counter would wrap around
        total += 1000
    return total


@tw.jit
def in_loops(x, y, out, FUNCTION: tl.constexpr, PACK: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    if PACK > 1:
        found = tl.map_elementwise(FUNCTION, tl.load(x + i), tl.load(y + i), pack=PACK)[0]
    else:
        found = tl.map_elementwise(FUNCTION, tl.load(x + i), tl.load(y + i))
    tl.store(out + i, found)


@tw.jit
def of_first(x, y):
    return steps_to_one(x)


@tw.jit
def in_common_turns(x, y):
    """All elements agree on the end of the loop and on the side of the outer branch, and not on the inner one's."""
    turn, total = 0, x
    while turn < 4:
        if turn % 2 == 1:
            if y > turn:
                total += y * turn
        else:
            total = total * 3 + turn
        turn += 1
    return total


@tw.jit
def first_multiple(x, y):
    """Elements return in different turns of two nested loops, or at the end."""
    for i in range(4):
        j = 0
        while j < y:
            if (x + j) % 3 == i:
                return x * 100 + i * 10 + j
            j += 2
    return x - y


def found_multiple(x: int, y: int) -> int:
    found = [x * 100 + i * 10 + j for i in range(4) for j in range(0, y, 2) if math.fmod(x + j, 3) == i]
    return found[0] if found else x - y


def turned(x: int, y: int) -> int:
    for turn in range(4):
        x = x * 3 + turn if turn % 2 == 0 else x + y * turn if y > turn else x
    return x


def steps(x: int) -> int:
    n = 0
    while x > 0 and x != 1:
        x, n = x // 2 if x % 2 == 0 else 3 * x + 1, n + 1
    return n


def summed(x: int, n: int) -> int:
    return x + sum(sum(range(i, n, 2)) for i in range(3)) + 1000 * len(range(n + 2147483640, 2147483647, 5))


LOOPS = [
    (of_first, 1, lambda x, y: [steps(int(v)) for v in x]),
    (common_divisors, 2, np.gcd),
    (sums, 1, lambda x, y: [summed(int(v), int(n)) for v, n in zip(x, y, strict=True)]),
    (in_common_turns, 1, lambda x, y: [turned(int(v), int(n)) for v, n in zip(x, y, strict=True)]),
    (first_multiple, 1, lambda x, y: [found_multiple(int(v), int(n)) for v, n in zip(x, y, strict=True)]),
]


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize(("function", "pack", "expected"), LOOPS, ids=["while", "pack", "for", "common", "return"])
@code_on("znver5")
def test_loops(function: Any, pack: int, expected: Any, interpret: bool) -> None:
    x, y = integers(-5) + np.arange(N, dtype=np.int32) % 8, integers()
    x = np.abs(x) if pack > 1 else x
    out = np.zeros(N, np.int32)
    tw.jit(in_loops.fn, interpret=interpret)[(1,)](x, y, out, function, pack, N=N, debug=True)
    np.testing.assert_array_equal(out, expected(x, y))


def test_loops_keep_their_meaning_in_stages() -> None:
    x, y, out = integers(-5), integers(), np.zeros(N, np.int32)
    kernel = in_loops.warmup(x, y, out, of_first, 1, N=N, grid=(1,))
    for stage in ("ttir", "ttcir"):
        out[:] = 0
        run_ir(parse_module(kernel.asm[stage], stage), [x, y, out])
        np.testing.assert_array_equal(out, [steps(int(v)) for v in x])


@pytest.mark.parametrize("interpret", [False, True])
def test_functions_of_reductions_branch_everywhere(interpret: bool) -> None:
    @tw.jit
    def kernel(x, out, N: tl.constexpr):
        tl.store(out, tl.reduce(tl.load(x + tl.arange(0, N)), 0, larger))

    x, out = integers(-5), np.zeros(1, np.int32)
    tw.jit(kernel.fn, interpret=interpret)[(1,)](x, out, N=N)
    assert out[0] == x.max()


@tw.jit
def asserting(x, n):
    if x > 0:
        while n > 0:
            tl.device_assert(n < 5, "too large")
            n -= 1
    return n


@pytest.mark.parametrize("interpret", [False, True])
def test_only_elements_that_are_there_are_asserted(interpret: bool) -> None:
    kernel = tw.jit(in_loops.fn, interpret=interpret)
    x, n, out = np.zeros(N, np.int32), np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
    x[:5] = 1
    kernel[(1,)](x, n, out, asserting, 1, N=N, debug=True)
    np.testing.assert_array_equal(out, np.where(x > 0, 0, n))
    x[5] = 1
    with pytest.raises(tw.DeviceAssertError, match="too large"):
        kernel[(1,)](x, n, out, asserting, 1, N=N, debug=True)
