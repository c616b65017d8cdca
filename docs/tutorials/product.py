# %% [markdown]
# # A product, from naive to the machine's limit
#
# The product of two matrices needs 2·M·N·K operations on M·K + K·N numbers: there is much to compute for each number that is
# read. Whether a machine gets to compute depends on how often it reads the same number again. This page takes one step at a
# time and measures each.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tilewright as tw
import tilewright.language as tl

SIZE = 256
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((SIZE, SIZE)).astype(np.float32) for _ in range(2))
expected = a.astype(np.float64) @ b
steps = {}


def measure(name, run):
    """Check the result of `run`, and note its speed on one thread in billions of operations per second."""
    out = np.zeros((SIZE, SIZE), np.float32)
    run(out)
    assert np.allclose(out, expected, atol=1e-3)
    milliseconds = tw.testing.do_bench(lambda: run(out), warmup=2, rep=20)
    steps[name] = 2 * SIZE**3 / milliseconds / 1e6
    print(f"{name}: {steps[name]:.1f} GFLOP/s")


# %% [markdown]
# ## Step 1: a program for each element
#
# Program (i, j) multiplies row i with column j. Neighbouring elements of a column lie a whole row apart, so each of them comes
# from another cache line, and every number is read `SIZE` times.


# %%
@tw.jit
def by_element(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, BLOCK)
    row = tl.load(a_ptr + i * n + k, mask=k < n, other=0.0)
    column = tl.load(b_ptr + k * n + j, mask=k < n, other=0.0)
    tl.store(c_ptr + i * n + j, tl.sum(row * column, axis=0))


measure("one element", lambda out: by_element[(SIZE, SIZE)](a, b, out, SIZE, BLOCK=SIZE, num_threads=1))

# %% [markdown]
# ## Step 2: a program for each row
#
# A program adds up multiples of the rows of `b`. Now all accesses go along rows, and the vector registers of the machine are
# full. But each row of `b` is still read once per row of the result.


# %%
@tw.jit
def by_row(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(n):
        total += tl.load(a_ptr + i * n + k) * tl.load(b_ptr + k * n + j, mask=j < n, other=0.0)
    tl.store(c_ptr + i * n + j, total, mask=j < n)


measure("one row", lambda out: by_row[(SIZE,)](a, b, out, SIZE, BLOCK=SIZE, num_threads=1))

# %% [markdown]
# ## Step 3: tiles, and `tl.dot`
#
# A program computes a tile of the result. It goes along K in steps, and multiplies a tile of `a` with a tile of `b` in each.
# `tl.dot` is one operation to the compiler: on a CPU it becomes a small kernel that keeps a block of the result in registers,
# so that each number that is read serves many products.


# %%
@tw.jit
def by_tile(a_ptr, b_ptr, c_ptr, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, n, K):
        k = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * n + k[None, :])
        b = tl.load(b_ptr + k[:, None] * n + columns[None, :])
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total)


def tiled(m, n, k):
    grid = (SIZE // m, SIZE // n)
    return lambda out: by_tile[grid](a, b, out, SIZE, M=m, N=n, K=k, num_threads=1)


measure("tiles of 16", tiled(16, 16, 16))

# %% [markdown]
# ## Step 4: larger tiles
#
# A tile of 16×16 reads 32 numbers per step for 512 operations. A tile of 64×128 reads 192 for 16,384: larger tiles read
# less, until a tile of the result no longer fits into the caches.

# %%
measure("tiles of 32", tiled(32, 32, 32))
measure("tiles of 64", tiled(64, 64, 64))
measure("64×128, K 256", tiled(64, 128, 256))

# %% [markdown]
# ## The limit
#
# A core can start a fixed number of vector multiply-adds per cycle. The closest thing to that limit that most machines have
# installed is NumPy's BLAS, here with all the threads it likes; the plot shows it as a line for comparison.

# %%
numpy_time = tw.testing.do_bench(lambda: np.matmul(a, b), warmup=2, rep=20)
numpy_speed = 2 * SIZE**3 / numpy_time / 1e6

figure, axes = plt.subplots(figsize=(7, 3.5))
axes.barh(list(steps), list(steps.values()), color="#0a7d91")
axes.axvline(numpy_speed, color="#e0912b", label="NumPy's BLAS, its own threads")
axes.invert_yaxis()
axes.set_xlabel("GFLOP/s, one thread")
axes.legend()
figure.tight_layout()
plt.show()

# %% [markdown]
# `examples/matmul.py` adds what a library needs: masks for ragged sizes, strides, other element types, and an order of
# programs in which neighbours share tiles in the caches. [The micro-kernel](../dot-micro-kernel.md) explains what `tl.dot`
# becomes, and [the tuning tutorial](autotuning.py) lets the machine choose the tile.
#
# Next: [softmax and attention](attention.py).
