"""Functions that are wrong; what is said of them is golden. `LEAKED` keeps an element after its trace."""

from __future__ import annotations

import numpy as np

from tilewright import language as tl

LEAKED = []
TABLE = {"a": 1}


def complex_constant(x):
    return x * 1j


def text(x):
    return x + "a"


def nothing(x):
    y = x + 1


def two_results(x):
    return x, x + 1


def undefined(x):
    return x + unknown


def one_side_only(x):
    if x > 0:
        y = x
    return y


def after_loop(x):
    while x > 1:
        y = x
        x = x / 2
    return y


def no_operation_on_bools(x):
    return (x > 0) - (x > 1)


def bits_of_floats(x):
    return x & 1.5


def unknown_function(x):
    return np.sum(x)


def outside_of_arrays(x):
    return tl.load(x)


def method_of_a_number(x):
    return x.sum()


def number_as_index(x):
    return (1, 2, 3)[x]


def not_a_number_on_one_side(x):
    return x if x > 0 else None


def changes_in_a_loop(x):
    y = None
    while x > 1:
        y = x
        x = x / 2
    return x


def recursive(x):
    return recursive(x - 1) if x > 0 else x


def wrong_call(x):
    return one_argument(x, x)


def one_argument(x):
    return x


def fractional_range(x):
    total = 0
    for i in range(x):
        total += i
    return total


def wrong_unpacking(x):
    a, b = (x, x, x)
    return a + b


def assignment_to_attribute(x):
    x.y = 1
    return x


def generator(x):
    yield x


def catches(x):
    try:
        return 1 / x
    except ZeroDivisionError:
        return 0


def keeps(x):
    LEAKED.append(x)
    return x


def uses_what_was_kept(x):
    return x + LEAKED[0]


def starred(*x):
    return x[0]


def keyword_only(x, *, y):
    return x + y


def no_parameters():
    return 1


def fails_at_compile_time(x):
    return x + TABLE["b"]


DECLARATIONS = (starred, keyword_only, no_parameters)
FUNCTIONS = (
    complex_constant,
    text,
    nothing,
    two_results,
    undefined,
    one_side_only,
    after_loop,
    no_operation_on_bools,
    bits_of_floats,
    unknown_function,
    outside_of_arrays,
    method_of_a_number,
    number_as_index,
    not_a_number_on_one_side,
    changes_in_a_loop,
    recursive,
    wrong_call,
    fractional_range,
    wrong_unpacking,
    assignment_to_attribute,
    generator,
    catches,
    fails_at_compile_time,
)
