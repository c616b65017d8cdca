"""Kernels with loops."""

import tilewright as tw
import tilewright.language as tl


@tw.jit
def sum_rows(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        acc += tl.load(x + i * BLOCK + offsets)
    tl.store(out + offsets, acc)


@tw.jit
def count_down(out, n):
    total = 0
    for i in range(n, 0, -2):
        total += i
    tl.store(out, total)


@tw.jit
def hints(x, n):
    for i in tl.range(0, n, 2, num_stages=3, loop_unroll_factor=4, disable_licm=True):
        tl.store(x + i, i)


@tw.jit
def unrolled(x, N: tl.constexpr):
    total = 0.0
    for i in tl.static_range(N):
        total += tl.load(x + i) * i
    tl.store(x, total)


@tw.jit
def nested(x, n, m):
    total = 0
    for i in range(n):
        row = 0
        for j in range(m):
            row += i * j
        total += row
    tl.store(x, total)


@tw.jit
def collatz(x, out):
    n = tl.load(x)
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out, steps)


@tw.jit
def carried_tuple(x, n):
    pair = (0, 1.0)
    for i in range(n):
        a, b = pair
        pair = (a + i, b * 2)
    tl.store(x, pair[1] + pair[0])


@tw.jit
def constant_parameter_changes(x, n, START: tl.constexpr):
    for i in range(n):
        START = START + i
    tl.store(x, START)


@tw.jit
def constant_parameter_stays(x, n, SIZE: tl.constexpr, GROW: tl.constexpr):
    for i in range(n):
        if GROW:
            SIZE = SIZE * 2
        offsets = tl.arange(0, SIZE)
        tl.store(x + offsets, i)


@tw.jit
def wide_counter(x, n):
    for i in range(n):
        tl.store(x + i, i)


@tw.jit
def tuples_by_number(x, a, b):
    pairs = ((x, a), (x + 1, b))
    for i in tl.static_range(len(pairs)):
        pointer, value = pairs[i]
        tl.store(pointer, value)


@tw.jit
def swapped(x, n):
    a = tl.load(x)
    b = tl.load(x + 1)
    for i in range(n):
        a, b = b, a
    tl.store(x, a - b)


@tw.jit
def hinted_while(x, n):
    i = 0
    while tl.condition(i < n, disable_licm=True):
        tl.store(x + i, i)
        i += 1


@tw.jit
def assigned_in_condition(x, n):
    left = n
    turns = 0
    while (left := left - 2) > 0:
        turns += left
    tl.store(x, turns * 100 + left)


@tw.jit
def condition_that_stays(out, n):
    go = n > 9
    count = 0
    while go:
        go = go
        count += 1
    tl.store(out, count)
