# %% [markdown]
# # Reductions
#
# A reduction makes one value of many. Inside a tile it is a function of the language; across programs it needs a second
# step or atomics. This page sums, finds places, scans, and combines values in a way of its own.

# %%
import numpy as np

import tilewright as tw
import tilewright.language as tl

# %% [markdown]
# ## Along an axis
#
# `tl.sum(x, axis=1)` of a tile of 4 by 64 is a tile of 4. This kernel centers rows: it subtracts the mean of each. The tile
# is read once, and stays in registers or in the first cache between its two uses.


# %%
@tw.jit
def center(x_ptr, out_ptr, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    at = rows[:, None] * n + columns[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    mean = tl.sum(x, axis=1) / n
    tl.store(out_ptr + at, x - mean[:, None], mask=inside)


x = np.random.default_rng(1).standard_normal((30, 50)).astype(np.float32)
out = np.empty_like(x)
center[(tw.cdiv(30, 4),)](x, out, 30, 50, ROWS=4, COLUMNS=64)
print(abs(out.mean(axis=1)).max())
assert np.allclose(out, x - x.mean(axis=1, keepdims=True), atol=1e-6)

# %% [markdown]
# ## A row longer than a tile
#
# A loop goes over the row, and a variable holds what was found so far. The number of iterations is known only when the kernel
# runs.


# %%
@tw.jit
def row_maximum(x_ptr, out_ptr, place_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = float("-inf")
    place = 0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=float("-inf"))
        value, index = tl.max(x, axis=0, return_indices=True)
        place = tl.where(value > best, start + index, place)
        best = tl.maximum(value, best)
    tl.store(out_ptr + row, best)
    tl.store(place_ptr + row, place)


x = np.random.default_rng(2).standard_normal((5, 1000)).astype(np.float32)
largest, place = np.empty(5, np.float32), np.empty(5, np.int32)
row_maximum[(5,)](x, largest, place, 1000, BLOCK=128)
print(place, x.argmax(axis=1))
assert (place == x.argmax(axis=1)).all()

# %% [markdown]
# ## Across programs
#
# Programs run at the same time and in no fixed order. When several of them add to one place, the addition must be atomic.
# Floats then add up in an order that differs from run to run; integers do not mind.


# %%
@tw.jit
def count_positive(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum((x > 0).to(tl.int32), axis=0))


count = np.zeros(1, np.int32)
count_positive[(tw.cdiv(x.size, 512),)](x, count, x.size, BLOCK=512)
print(count[0], (x > 0).sum())
assert count[0] == (x > 0).sum()

# %% [markdown]
# ## A combination of your own
#
# `tl.reduce` and `tl.associative_scan` take any function that combines two values, or two tuples of values. This scan
# computes a linear recurrence, `h[i] = a[i] * h[i-1] + b[i]`, for all `i` at once. That works because two steps of it are
# one step of the same form.


# %%
@tw.jit
def two_steps(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@tw.jit
def recurrence(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n, other=1.0)
    b = tl.load(b_ptr + at, mask=at < n, other=0.0)
    _, h = tl.associative_scan((a, b), 0, two_steps)
    tl.store(out_ptr + at, h, mask=at < n)


a, b = np.random.default_rng(3).uniform(0.1, 0.9, (2, 100)).astype(np.float32)
out = np.empty_like(a)
recurrence[(1,)](a, b, out, 100, BLOCK=128)
h, expected = 0.0, []
for factor, term in zip(a, b, strict=True):
    h = factor * h + term
    expected.append(h)
print(abs(out - expected).max())
assert np.allclose(out, expected, atol=1e-5)

# %% [markdown]
# Next: [a matrix product](product.py), step by step.
