"""Kernels that call other functions."""

from collections import namedtuple

import tilewright as tw
import tilewright.language as tl

SCALE = tl.constexpr(3)
Pair = namedtuple("Pair", ["first", "second"])


@tw.jit
def scaled(value, factor=2, *, bias=0):
    return value * factor + bias


@tw.jit
def total(*values):
    result = values[0]
    for i in tl.static_range(1, len(values)):
        result += values[i]
    return result


@tw.jit
def both(a, b):
    return a + b, a - b


@tw.jit
def power(value, EXPONENT: tl.constexpr):
    if EXPONENT == 0:
        return 1
    return value * power(value, EXPONENT - 1)


@tw.jit
def marked_constants(x, dtype, function, count, sign, nothing):
    tl.static_assert(nothing.value is None)
    return function.value(x.to(dtype.value), count.value if sign.value else 0)


@tw.jit
def half_of(BLOCK: tl.constexpr):
    return BLOCK // 2


@tw.jit
def clamped(value, limit):
    if value > limit:
        return limit
    return value


@tw.jit
def shout(x):
    tl.store(x, 1)


@tw.jit(noinline=True)
def apart(value):
    return value * 2


@tw.jit
def longer(a, b):
    return tl.maximum(a, b)


@tw.constexpr_function
def square(value):
    return value * value


@tw.jit
def defaults_and_keywords(x):
    a = scaled(tl.load(x))
    b = scaled(tl.load(x), 5)
    c = scaled(factor=tl.load(x), value=7, bias=SCALE)
    d = scaled(tl.load(x))
    tl.store(x, a + b + c + d)


@tw.jit
def star_arguments(x):
    values = (tl.load(x), tl.load(x + 1), tl.load(x + 2))
    tl.store(x, total(*values))


@tw.jit
def tuple_result(x):
    a, b = both(tl.load(x), tl.load(x + 1))
    pair = Pair(first=a, second=b)
    tl.store(x, pair.first * pair.second)


@tw.jit
def static_recursion(x):
    tl.store(x, power(tl.load(x), 3))


@tw.jit
def constant_result(x, BLOCK: tl.constexpr):
    offsets = tl.arange(0, half_of(BLOCK))
    tl.store(x + offsets, offsets)


@tw.jit
def early_return_in_helper(x, n):
    tl.store(x, clamped(tl.load(x), n))


@tw.jit
def side_effect_only(x):
    shout(x)
    shout(x)


@tw.jit
def call_stays(x):
    tl.store(x, apart(tl.load(x)))


@tw.jit
def combine_function(x, out):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, 64)), 0, longer))


@tw.jit
def function_parameter(x, F: tl.constexpr):
    tl.store(x, F(tl.load(x), 5))


@tw.jit
def python_at_compile_time(x, N: tl.constexpr):
    tl.store(x, square(N))


@tw.jit
def tuple_parameter(pair, n):
    tl.store(pair[0], pair[1] + n)


@tw.jit
def comprehension(x, N: tl.constexpr):
    values = [tl.load(x + i) for i in (0, 1, N - 1) if i != 1]
    tl.store(x, total(*values))


@tw.jit
def constants_by_value(x):
    i = tl.arange(0, 2)
    tl.store(x + i, marked_constants(tl.load(x + i), tl.int16, tl.maximum, 2 + 1, True, None))
