"""Kernels with branches, early returns and conditions."""

import tilewright as tw
import tilewright.language as tl


@tw.jit
def early_return(x, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(x + pid, pid)


@tw.jit
def two_early_returns(x, n, flag):
    pid = tl.program_id(0)
    if pid >= n:
        return
    if flag:
        tl.store(x, 1)
        return
    pid += 1
    tl.store(x + pid, pid)


@tw.jit
def static_early_return(x, STOP: tl.constexpr):
    if STOP:
        return
    tl.store(x, 1)


@tw.jit
def merged(x, n):
    a = tl.load(x)
    if n > 3:
        a = a + 1
        b = a * 2
    else:
        b = a
    tl.store(x, a + b)


@tw.jit
def elif_chain(x, n):
    value = 0
    if n == 1:
        value = 10
    elif n == 2:
        value = 20
    elif n == 3:
        value = 30
    tl.store(x, value)


@tw.jit
def ternary(x, n, FLAG: tl.constexpr):
    small = 1 if n < 3 else 2
    static = 10 if FLAG else 20
    tl.store(x, small + static)


@tw.jit
def logic(x, n, m, FLAG: tl.constexpr):
    inside = (n > 0 and m > 0) or not n == m
    known = FLAG and n > 0
    chained = 0 < n <= m
    tl.store(x, inside & known & chained)


@tw.jit
def optional_pointer(x, bias):
    value = tl.load(x)
    if bias is not None:
        value += tl.load(bias)
    tl.store(x, value)


@tw.jit
def only_side_effects(x, n):
    if n > 0:
        tl.store(x, n)


@tw.jit
def asserts(x, n, BLOCK: tl.constexpr):
    assert BLOCK % 16 == 0, f"BLOCK is {BLOCK}"
    assert n > 0, "n must be positive"
    tl.store(x, n)


@tw.jit  # noqa: RET503 - it is what is tested
def large_only(value):
    if value > 2:
        return value * 2, 7


@tw.jit
def perhaps_returned(x, n):
    """The result of a helper that ends without a `return` is undefined, so nobody may use it."""
    twice, seven = large_only(n)
    if n > 2:
        tl.store(x, twice + seven)
