# %% [markdown]
# # Softmax and attention
#
# The softmax of a row is `exp(x - max(x)) / sum(exp(x - max(x)))`. NumPy goes over the row five times, and writes a new array
# each time. A kernel does it in one go, and the same idea with a running maximum gives attention without its large matrix.

# %%
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, powers / tl.sum(powers, axis=0), mask=inside)


def numpy_softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


x = np.random.default_rng(0).standard_normal((400, 781)).astype(np.float32)
out = np.empty_like(x)
softmax[(400,)](x, out, 781, BLOCK=tw.next_power_of_2(781))
print("largest error", abs(out - numpy_softmax(x.astype(np.float64))).max())
assert np.allclose(out, numpy_softmax(x), atol=1e-6)

# %%
kernel_time = tw.testing.do_bench(lambda: softmax[(400,)](x, out, 781, BLOCK=1024), warmup=2, rep=20)
numpy_time = tw.testing.do_bench(lambda: numpy_softmax(x), warmup=2, rep=20)
print(f"kernel {kernel_time:.3f} ms, NumPy {numpy_time:.3f} ms, {numpy_time / kernel_time:.1f} times")

# %% [markdown]
# ## Attention
#
# Attention weighs the rows of `v` by the softmax of `q @ k.T`. For 2,000 positions that matrix has four million elements. It
# need not exist: a program holds a few queries and walks over blocks of keys. It keeps for each query
#
# - the largest score so far,
# - the sum of the exponentials relative to that score,
# - the sum of the rows of `v`, weighted by them.
#
# When a larger score turns up, both sums shrink by `exp(old - new)`. At the end one division gives the softmax.


# %%
@tw.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, scale, positions, HEAD: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    features = tl.arange(0, HEAD)
    is_query = rows[:, None] < positions
    q = tl.load(q_ptr + rows[:, None] * HEAD + features[None, :], mask=is_query, other=0.0) * scale
    largest = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, HEAD), tl.float32)
    for start in range(0, positions, N):
        at = start + tl.arange(0, N)
        is_key = at[:, None] < positions
        k = tl.load(k_ptr + at[:, None] * HEAD + features[None, :], mask=is_key, other=0.0)
        v = tl.load(v_ptr + at[:, None] * HEAD + features[None, :], mask=is_key, other=0.0)
        scores = tl.where(at[None, :] < positions, tl.dot(q, tl.trans(k)), float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - larger[:, None])
        shrink = tl.exp(largest - larger)
        total = total * shrink + tl.sum(weights, axis=1)
        acc = tl.dot(weights, v, acc * shrink[:, None])
        largest = larger
    tl.store(out_ptr + rows[:, None] * HEAD + features[None, :], acc / total[:, None], mask=is_query)


positions, head = 300, 32
q, k, v = np.random.default_rng(1).standard_normal((3, positions, head)).astype(np.float32)
out = np.empty_like(q)
attention[(tw.cdiv(positions, 64),)](q, k, v, out, head**-0.5, positions, HEAD=head, M=64, N=64)
expected = numpy_softmax(q @ k.T * head**-0.5) @ v
print("largest error", abs(out - expected).max())
assert np.allclose(out, expected, atol=1e-4)

# %% [markdown]
# The last block of keys is ragged: its scores beyond the end become minus infinity, whose exponential is 0. `examples/flash_attention.py`
# has heads, strides and causal masks, too.
#
# Next: [autotuning](autotuning.py).
