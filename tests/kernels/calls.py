"""Kernels that call other functions."""

from collections import namedtuple

from evaluating import Helper, jit

import tilewright.language as tl

SCALE = tl.constexpr(3)
Pair = namedtuple("Pair", ["first", "second"])


@jit
def scaled(value, factor=2, *, bias=0):
    return value * factor + bias


@jit
def total(*values):
    result = values[0]
    for value in values[1:]:
        result += value
    return result


@jit
def both(a, b):
    return a + b, a - b


@jit
def power(value, EXPONENT: tl.constexpr):
    if EXPONENT == 0:
        return 1
    return value * power(value, EXPONENT - 1)


@jit
def half_of(BLOCK: tl.constexpr):
    return BLOCK // 2


@jit
def clamped(value, limit):
    if value > limit:
        return limit
    return value


@jit
def shout(x):
    tl.store(x, 1)


def _double(value):
    return value * 2


apart = Helper(_double, noinline=True)


@jit
def longer(a, b):
    return tl.maximum(a, b)


def square(value):
    return value * value


def defaults_and_keywords(x):
    a = scaled(tl.load(x))
    b = scaled(tl.load(x), 5)
    c = scaled(factor=tl.load(x), value=7, bias=SCALE)
    d = scaled(tl.load(x))
    tl.store(x, a + b + c + d)


def star_arguments(x):
    values = (tl.load(x), tl.load(x + 1), tl.load(x + 2))
    tl.store(x, total(*values))


def tuple_result(x):
    a, b = both(tl.load(x), tl.load(x + 1))
    pair = Pair(first=a, second=b)
    tl.store(x, pair.first * pair.second)


def static_recursion(x):
    tl.store(x, power(tl.load(x), 3))


def constant_result(x, BLOCK: tl.constexpr):
    offsets = tl.arange(0, half_of(BLOCK))
    tl.store(x + offsets, offsets)


def early_return_in_helper(x, n):
    tl.store(x, clamped(tl.load(x), n))


def side_effect_only(x):
    shout(x)
    shout(x)


def call_stays(x):
    tl.store(x, apart(tl.load(x)))


def combine_function(x, out):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, 64)), 0, longer))


def function_parameter(x, F: tl.constexpr):
    tl.store(x, F(tl.load(x), 5))


def plain_python_at_compile_time(x, N: tl.constexpr):
    tl.store(x, square(N))


def tuple_parameter(pair, n):
    tl.store(pair[0], pair[1] + n)


def comprehension(x, N: tl.constexpr):
    values = [tl.load(x + i) for i in tl.static_range(N) if i != 1]
    tl.store(x, total(*values))
