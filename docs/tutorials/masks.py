# %% [markdown]
# # Masks and ragged sizes
#
# Tiles have sizes that are powers of two, and data seldom has. This page shows what masks do at the edges, in one and in
# two dimensions, and how to find out that a mask is wrong.

# %%
import numpy as np

import tilewright as tw
import tilewright.language as tl

# %% [markdown]
# ## What a masked-off element is
#
# A load does not touch memory where its mask is off. The element is then what `other` says, and undefined without it.
# So give `other` whenever the element takes part in a result, as in this sum of a row:


# %%
@tw.jit
def row_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


x = np.arange(15, dtype=np.float32).reshape(3, 5)
out = np.empty(3, np.float32)
row_sum[(3,)](x, out, 5, BLOCK=8)
print(out, x.sum(axis=1))

# %% [markdown]
# For a maximum, `other` is minus infinity; for a product it is 1.
#
# ## Two dimensions
#
# `rows[:, None]` and `columns[None, :]` stretch against each other as in NumPy. One mask per axis, joined with `&`, covers
# ragged edges on both sides. This kernel transposes a matrix of any shape in tiles of 16 by 32:


# %%
@tw.jit
def transpose(x_ptr, out_ptr, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tile = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=inside)
    tl.store(out_ptr + columns[None, :] * m + rows[:, None], tile, mask=inside)


m, n = 45, 77
x = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
out = np.empty((n, m), np.float32)
transpose[(tw.cdiv(m, 16), tw.cdiv(n, 32))](x, out, m, n, ROWS=16, COLUMNS=32)
assert (out == x.T).all()
print(out.shape)

# %% [markdown]
# ## Strides
#
# The kernel above computes with `n` as the distance between rows. A view of a larger array has another distance, and NumPy
# tells it in bytes. Pass strides as arguments, in elements:


# %%
@tw.jit
def scale(x_ptr, row_stride, column_stride, m, n, factor, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    at = x_ptr + rows[:, None] * row_stride + columns[None, :] * column_stride
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(at, tl.load(at, mask=inside) * factor, mask=inside)


whole = np.ones((6, 10), np.float32)
view = whole[1:5, 2:9:3]
steps = [stride // view.itemsize for stride in view.strides]
scale[(1,)](view, *steps, *view.shape, 7.0, ROWS=4, COLUMNS=4)
print(whole)

# %% [markdown]
# ## A mask that is wrong
#
# A mask that lets one element too many through reads or writes memory of somebody else. Mostly nothing is seen of it. The
# sanitizer checks every access while the kernel runs, and names the line, the element and the program:


# %%
@tw.jit
def shift(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets + 1, mask=offsets < n)  # reads element n
    tl.store(out_ptr + offsets, x, mask=offsets < n)


x = np.arange(100, dtype=np.float32)
try:
    shift[(1,)](x, np.empty_like(x), x.size, BLOCK=128, sanitize="bounds")
except tw.SanitizerError as error:
    print(error)

# %% [markdown]
# Next: [reductions](reductions.py). [The sanitizer](../sanitizer.md) has a page of its own.
