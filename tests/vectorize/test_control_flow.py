"""Branches and loops on elements, through the three front ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilewright as tw

READING = ("ast", "bytecode")


def collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def mandelbrot(re, im):
    x = 0.0
    y = 0.0
    turns = 0
    while x * x + y * y < 4.0 and turns < 60:
        x, y = x * x - y * y + re, 2 * x * y + im
        turns += 1
    return turns


def early(x, y):
    if x < 0:
        return y
    if x > y:
        x = x - y
        return x * 2.0
    return 0


def power_sum(x, n):
    total = 0
    for i in range(n):
        if i % 2:
            total += x**i
        else:
            total -= i
    return total


def nested(x, y):
    best = x
    for i in range(3):
        step = 0.5**i
        while best < y:
            best += step
        best -= step
    return best


def helper(x, scale=2):
    if x > 1:
        return x * scale
    return math.sin(x)


def calls(x, y):
    values = (helper(x), helper(y, scale=3))
    low, high = values
    return max(low, high) - min(values)


def chain(x, y):
    return (x and y) if 0 < x <= 3 else (y or -1)


def assigned_in_a_choice(x, y):
    z = (y := x) if x > 0 else 2.0
    return y + z


def assigned_in_and(x, y):
    z = x > 0 and (y := x) > 1
    return y + z


def comprehension_hides(x, i):
    return sum([i * x for i in (1, 2)]) + i


def assigned_in_a_condition(x):
    y = 0
    while (y := y + 0.5) < x:
        pass
    return y


def counter_used_again(x, n):
    i = 5
    while n > 0:
        for i in range(x):
            n -= i
        n -= 1
    return n


def loop_that_never_runs(x):
    while y := 0:
        x += y
    return x + y


def tuple_with_none(x):
    pair = (x, None)
    if x > 0:
        pair = (x + 1, None)
    return pair[0]


def condition_that_stays(x, n):
    go = n > 9
    while go:
        go = go
        x = x + 1
    return x


def one_more(x):
    return x + 1


def eight_more(x):
    x = one_more(x)
    x = one_more(x)
    x = one_more(x)
    x = one_more(x)
    x = one_more(x)
    x = one_more(x)
    x = one_more(x)
    return one_more(x)


def more_calls_than_may_be_inside_each_other(x):
    x = eight_more(x)
    x = eight_more(x)
    x = eight_more(x)
    x = eight_more(x)
    x = eight_more(x)
    x = eight_more(x)
    x = eight_more(x)
    return eight_more(x)


def middle_of_four(x, y):
    first, *middle, last = x, y, x * y, x - y
    return first + 10 * middle[0] - middle[1] * last * len(middle)


X = np.linspace(-2, 6, 97)
Y = np.linspace(5, -1, 97)
CASES = {
    "collatz": (collatz, (np.arange(1, 60),)),
    "mandelbrot": (mandelbrot, (np.linspace(-2, 1, 40)[None, :], np.linspace(-1, 1, 20)[:, None])),
    "early": (early, (X, Y)),
    "power_sum": (power_sum, (X[:40], np.arange(40) % 9)),
    "power_sum of one count": (power_sum, (X, 5)),
    "nested": (nested, (X, Y)),
    "calls": (calls, (X, Y)),
    "chain": (chain, (X, Y)),
    "assigned in a choice": (assigned_in_a_choice, (X, Y)),
    "assigned in `and`": (assigned_in_and, (X, Y)),
    "comprehension hides": (comprehension_hides, (X, Y)),
    "assigned in a condition": (assigned_in_a_condition, (X,)),
    "counter used again": (counter_used_again, (np.arange(1, 60) % 4, np.arange(1, 60) % 7)),
    "loop that never runs": (loop_that_never_runs, (X,)),
    "tuple with None": (tuple_with_none, (X,)),
    "more calls": (more_calls_than_may_be_inside_each_other, (X,)),
    "middle of four": (middle_of_four, (X, Y)),
    "condition that stays": (condition_that_stays, (X, Y)),
}


def check(name: str, frontend: str) -> None:
    fn, arguments = CASES[name]
    ours = tw.vectorize(fn, frontend=frontend)
    expected = np.frompyfunc(fn, len(arguments), 1)(*arguments).astype(float)
    np.testing.assert_allclose(np.asarray(ours(*arguments), float), expected, rtol=1e-13, atol=1e-15)
    numbers = [np.ravel(a)[3].item() if isinstance(a, np.ndarray) else a for a in arguments]
    for _ in range(2):
        assert ours(*numbers) == pytest.approx(fn(*numbers), rel=1e-14)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["collatz", "early", "calls", *(name for name in CASES if " " in name)])
def test_read_fast(name: str) -> None:
    check(name, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("frontend", READING)
def test_read(name: str, frontend: str) -> None:
    check(name, frontend)


def test_an_element_that_needs_no_turn_keeps_its_value() -> None:
    found = tw.vectorize(collatz)(np.array([1, 1, 27, 1] * 30))
    assert found.tolist() == [0, 0, 111, 0] * 30


def test_lambdas_and_closures() -> None:
    scale = 3

    def scaled(x: Any) -> Any:
        return x * scale

    for frontend in ("auto", "bytecode", "trace"):
        assert tw.vectorize(scaled, frontend=frontend)(np.arange(3)).tolist() == [0, 3, 6]
        assert tw.vectorize(lambda x: x + 1, frontend="bytecode")(2.5) == 3.5


def test_vectorized_functions_call_each_other() -> None:
    inner = tw.vectorize(helper)

    @tw.vectorize
    def outer(x):
        return inner(x, 3) + 1

    assert outer(2.0) == 7.0
    np.testing.assert_allclose(
        outer(X), np.frompyfunc(lambda x: helper(x, 3) + 1, 1, 1)(X).astype(float), rtol=1e-13, atol=1e-15
    )


def test_assertions() -> None:
    @tw.vectorize
    def checked(x):
        assert x >= 0, "negative"
        return x + 1

    assert checked(np.arange(4)).tolist() == [1, 2, 3, 4]
    with pytest.raises(AssertionError):
        checked(np.array([1, -1]))
    with pytest.raises(AssertionError, match="negative"):
        checked(-1)


def first_above(x: float, limit: float) -> float:
    total = 0.0
    for i in range(20):
        if i % 3 == 1:
            continue
        total += x * i
        if total > limit:
            break
    else:
        return -1.0
    return total + i


def stopping_time(n: int, most: int) -> int:
    for steps in range(most):
        if n == 1:
            return steps
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    return -1


def halved(x: float) -> float:
    while True:
        if x < 1.0:
            return x
        x = x / 2
        for i in (1, 2, 3):
            if x > 100.0:
                break
            x = x - 0.25 / i


def test_loops_that_are_left_early() -> None:
    x = np.array([0.0, 0.5, 1.0, 7.0, 100.0, -3.0])
    limits = np.array([3.0, 9.0, 0.1, 50.0, 1e9, 0.0])
    n = np.array([1, 2, 3, 7, 27, 97])
    for function, arguments in ((first_above, (x, limits)), (stopping_time, (n, np.int64(120))), (halved, (x,))):
        expected = [function(*each) for each in np.broadcast(*arguments)]
        assert tw.vectorize(function)(*arguments).tolist() == pytest.approx(expected), function.__name__
