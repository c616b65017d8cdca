"""The forms of Python that kernels use, and those that they cannot use. (In test files pytest rewrites `assert`.)"""

import tilewright as tw
import tilewright.language as tl


def conditions(x, n, m):
    if n > 0 and (m > 0 or n < m) and not n == 7:
        x += 1
    elif not n < 3 and m < 4:
        x += 2
    if not n > m:
        x += 3
    else:
        x += 4
    tl.store(x, 0 < n <= m < 10)
    if 0 < n < m:
        tl.store(x, 5)


def nested_ifs(x, n, m):
    if n > 0:
        if m > 0:
            tl.store(x, 1)
    if n > 1:
        if m > 1:
            tl.store(x, 2)
        else:
            tl.store(x, 3)
    elif n > 2:
        if m > 2:
            tl.store(x, 4)


def several_lines(x, n, m):
    if (
        n > 0
        and m > 0
        and n < m
    ):  # the spelling is what is tested  # fmt: skip
        tl.store(x, 1)
    while (n > 0
           and m > 0):  # the spelling is what is tested  # fmt: skip
        n -= 1
    tl.store(x, n)


def expressions(x, n, m):
    a = n if n > m else m
    b = (n if n > 3 else m) + (1 if m > 3 else 2)
    c = n > 1 and m > 1
    d = (n > 1 and m > 1) or n == 5
    e = (n > 1 or m > 1) and n != 5
    f = n > 1 or m > 1 or n > 2
    g = n if not n > m else m
    tl.store(x, a + b + c + d + e + f + g)


def loops(x, n, m):
    total = 0
    for i in range(n):
        for j in range(i, m, 2):
            if i < j:
                total += i * j
            if i > j:
                total -= 1
            elif i == j:
                total += 3
        while total > 100:
            total //= 2
            if total == 50:
                total -= 1
    while n > 0 and (total < m or n > 3):
        n -= 1
        total += n
    while not n >= m:
        n += 1
    tl.store(x, total + n)


def tuples(x, n, m):
    a, (b, c) = n, (m, 3)
    a, b = b, a
    first, rest = a, (b, c)
    d = e = n
    pairs = ((1, 2), (3, 4))
    for i in tl.static_range(2):
        k, v = pairs[i]
        d += i * k + v
    values = [v * 2 for v in rest]
    chosen = [v for v in (1, 2, 3, 4) if v != 2 if v > 0]
    tl.store(x, first + values[0] + values[-1] + d + e + len(chosen) + (1, 2, 3)[1] + (n, 2, m, 4)[::2][1])


@tw.jit
def helper(a, b=2, *rest, c=3):
    if a is None:
        return b
    return a + b * c + (rest[0] if len(rest) > 0 else 0)


def calls(x, n, m):
    pair = (n, m)
    options = helper(n, c=m)
    tl.store(x, helper(n) + helper(n, m) + options + helper(*pair) + helper(n, *pair, c=4) + helper(None, b=m))


def subscripts(x, n):
    tile = tl.arange(0, 8)
    wide = tile[:, None] + tile[None, :]
    tl.store(x + wide, tl.sum(wide, axis=1)[:, None] + n)


def returns(x, n):
    if n == 0:
        tl.store(x, 1)
        return
    if n == 1:
        if tl.load(x) > 0:
            return
        tl.store(x, 2)
    tl.store(x, 3)


@tw.jit
def sign(n):
    if n < 0:
        return -1
    elif n == 0:
        return 0
    else:
        return 1


def returns_values(x, n):
    tl.store(x, sign(n))


def asserts(x, n, N=4):
    assert N > 0 and N % 2 == 0, f"N is {N!r:>5} or {N}"
    assert N
    assert not N == 3, "no"
    tl.static_assert(N == 4, f"{N} is not 4")
    tl.store(x, n)


def nothing_at_all(x, n, m=None):
    if m is not None and n > 0:
        tl.store(x, m)
    if m is None or n > 3:
        tl.store(x, n)
    for _ in range(n):
        if m is None:
            tl.store(x, n)
    pass


def assigned_in_condition(x, n):
    if (m := n + 1) > 3:
        tl.store(x, m)


def constant_statements(x, n):
    for i in range(n):
        tl.store(x + i, i)
        "abc"
    while n > 3:
        n -= 1
        "abcdef"


def raising(x, n, N=4):
    if N > 5:
        raise ValueError("never")
    tl.store(x, n)


def alternatives(x, n, m):
    if n > 3 if m > 2 else n > 1:
        tl.store(x, 1)
    while (n > 3 if m > 2 or m < 1 else not n > 1) and n < 90:
        n -= 1
    if not (n > 3 if m > 2 and m < 8 else (n > 1 if m > 0 else m > -3)):
        tl.store(x, 2)
    assert n > 3 if m > 2 else n > -9, "m"
    chosen = [v for v in (1, 2, 3) if (v > 2 if v > 1 else v > 0)]
    tl.store(x, (n > 3 if m > 2 else n > 1) and m > chosen[0])


def captured(x, n):
    m = n + 1
    values = [m * i for i in (0, 1, 2)]
    pairs = [[i * j for j in (1, 2)] for i in (1, 2)]
    last = [(k := i) for i in (1, 2)]
    tl.store(x, values[2] + pairs[1][1] + k + len(last))


@tw.jit
def filled(n, WIDTH: tl.constexpr):
    HALF: tl.constexpr = WIDTH // 2
    return tl.zeros((HALF,), tl.int32) + n


def constants(x, n, N: tl.constexpr = 4):
    SIZE: tl.constexpr = N * 2
    HALF : tl.constexpr=SIZE // 2  # the spelling is what is tested  # fmt: skip
    FLAG: tl.constexpr[bool] = HALF == 4
    SHAPE: tl.constexpr = (HALF, 2)
    é: tl.constexpr = "ä"; LAST: tl.constexpr = 0.5  # noqa: E702  # the spelling is what is tested  # fmt: skip
    number: int = 3
    for i in tl.static_range(HALF):
        TWICE: tl.constexpr = i * 2
        tl.store(x + 8 + TWICE, i)
    tile = filled(n, SIZE) if FLAG else number
    tl.static_assert(FLAG and SIZE > 3 and é == "ä")
    tl.store(x + tl.arange(0, HALF), tile + tl.sum(tl.sum(tl.zeros(SHAPE, tl.int32), 0), 0))
    tl.store(x + SIZE, (n * LAST).to(tl.int32) + number)


def assigned_in_choice(x, n):
    k = 1
    y = (k := 5) if n > 0 else 2
    tl.store(x, k + y)


def declared(x, n, N: tl.constexpr = 4):
    SIZE: tl.constexpr
    LAST: tl.constexpr  # what it is comes later
    SIZE, plain = N * 2, 3
    if (LAST := SIZE - 1) == 7:
        MEASURED: tl.constexpr = n + 1  # is known at run time, and stays so
        tl.store(x + tl.arange(0, SIZE), LAST + plain + MEASURED)
    else:
        tl.static_assert(False)


def returns_constant(x, n):
    tl.store(x, n)
    return 3


def named_expressions(x, n):
    a = (b := n + 1) * 2
    if (c := 3) > 2:
        tl.store(x, c)
    first = second = 4
    third = (fourth := 5)
    tl.store(x + a, first + second + third + fourth + b)


def left_by_break(x, n):
    for i in range(n):
        if i > 3:
            break
        tl.store(x, i)
    tl.store(x, n)


def left_while(x, n):
    while n > 0:
        n -= 1
        if n == 3:
            tl.store(x, 7)
            break
        if n == 5 or n == 7:
            continue
        tl.store(x + n, n)
    else:
        tl.store(x, 1)
    tl.store(x, n)


def left_by_return(x, n):
    for i in range(n):
        if i > 3:
            return
        for j in tl.static_range(2):
            if tl.load(x + j) == n:
                return
            if tl.load(x + j) > i:
                continue
            tl.store(x, i)
    tl.store(x, n)


def left_endless(x, n):
    while True:
        n -= 1
        if n < 0:
            break
        tl.store(x + n, n)
    tl.store(x, n)


def checks(x, n):
    for i in range(n):
        if i > 9:
            continue
        if tl.load(x + i) == 0:
            continue
        tl.store(x + i, n)
    if n > 3:
        return
    if tl.load(x + n) == 0:
        return
    tl.store(x, n)


FORMS = [
    alternatives, asserts, assigned_in_choice, assigned_in_condition, calls, captured, checks, conditions,
    constant_statements, constants, declared, expressions, left_by_break, left_by_return, left_endless, left_while,
    loops, named_expressions, nested_ifs, nothing_at_all, raising, returns, returns_constant, returns_values,
    several_lines, subscripts, tuples,
]  # the spelling is what is tested  # fmt: skip


def refused_lambda(x, n):
    f = lambda y: y + 1  # noqa: E731 - what is refused
    tl.store(x, f(n))


def refused_function(x, n):
    def f(y):
        return y

    tl.store(x, f(n))


def refused_generator(x, n):
    tl.store(x, sum(i for i in (1, 2)))


def refused_yield(x, n):
    yield n


def refused_try(x, n):
    try:
        tl.store(x, n)
    except ValueError:
        tl.store(x, 0)


def refused_subscript(x, n):
    x[0] = n


def refused_target(x, n):
    for x[0] in tl.static_range(n):
        tl.store(x, n)


def refused_attribute(x, n):
    x.y = n


def refused_import(x, n):
    import math

    tl.store(x, math)


def refused_global(x, n):
    global GLOBAL
    GLOBAL = n


def refused_set(x, n):
    tl.store(x, len({n, x}))


def refused_dict(x, n):
    values = {"n": n}
    tl.store(x, values)


def refused_matrix_product(x, n):
    tl.store(x, n @ n)


def refused_long_loop(x, n):
    for i in tl.static_range(100_000):
        tl.store(x + i, n)


REFUSALS = {
    refused_attribute: "assignment to an attribute",
    refused_dict: "a dict",
    refused_function: "a nested function",
    refused_generator: "a generator expression",
    refused_global: "`global`",
    refused_import: "`import`",
    refused_lambda: "a lambda",
    refused_long_loop: "tl.static_range has 100000 iterations",
    refused_matrix_product: "the operator `@`",
    refused_set: "a set",
    refused_subscript: "assignment to a subscript",
    refused_target: "assignment to a subscript",
    refused_try: "`try`",
    refused_yield: "`yield`",
}
