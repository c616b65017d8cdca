# %% [markdown]
# # Plain functions on arrays: `tw.vectorize`
#
# Not everything needs tiles. A formula for one element becomes a compiled function for arrays of any shape, with NumPy's
# rules for shapes and types.

# %%
import math

import numpy as np

import tilewright as tw


@tw.vectorize
def gelu(x):
    return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x**3)))


x = np.linspace(-3, 3, 100_000, dtype=np.float32)
print(gelu(1.0), gelu(x)[:3])


def numpy_gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


assert np.allclose(gelu(x), numpy_gelu(x), atol=1e-6)

# %% [markdown]
# NumPy computes `x**3`, then the product, then the sum, each as a whole array in memory. The compiled function is one loop.

# %%
ours = tw.testing.do_bench(lambda: gelu(x), warmup=2, rep=20)
numpys = tw.testing.do_bench(lambda: numpy_gelu(x), warmup=2, rep=20)
print(f"vectorize {ours:.3f} ms, NumPy {numpys:.3f} ms, {numpys / ours:.1f} times")

# %% [markdown]
# ## Shapes, types, `out=` and `where=`
#
# Arguments stretch against each other as in NumPy, and the result has the type that NumPy would give.


# %%
@tw.vectorize
def clipped_difference(a, b, limit):
    d = a - b
    if d > limit:
        return limit
    if d < -limit:
        return -limit
    return d


rows, columns = np.arange(4, dtype=np.int32)[:, None], np.arange(3, dtype=np.int16)
print(clipped_difference(rows, columns, 1))
print(clipped_difference(rows, columns, 1).dtype)

out = np.zeros((4, 3), np.float64)
clipped_difference(rows, columns, 2, out=out, where=rows > columns)
print(out)

# %% [markdown]
# Control flow is decided for each element, loops too. This one counts steps of Newton's method:


# %%
@tw.vectorize
def newton_steps(x):
    guess, steps = x, 0
    while abs(guess * guess - x) > 1e-9 * x and steps < 100:
        guess = 0.5 * (guess + x / guess)
        steps += 1
    return steps


print(newton_steps(np.array([1.0, 2.0, 100.0, 1e6])))

# %% [markdown]
# ## Reductions
#
# A function of two arguments folds an array along an axis.


# %%
@tw.vectorize
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)


print(hypotenuse.reduce(np.array([[3.0, 4.0], [5.0, 12.0]]), axis=1))

# %% [markdown]
# [Vectorized functions](../vectorize.md) has everything that such a function may contain.
#
# Next: [PyTorch](pytorch.py).
