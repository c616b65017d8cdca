# %% [markdown]
# # The first kernel
#
# A kernel is a Python function that works on *tiles*: small arrays of a fixed size. Many *programs* run the same kernel,
# each on its own tile. This page adds two vectors.

# %%
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


# %% [markdown]
# Line by line:
#
# - `x_ptr` is the address of the first element of an array. `x_ptr + offsets` is a tile of addresses.
# - `tl.program_id(0)` tells which program this is. Program 2 with `BLOCK=256` has the elements 512 to 767.
# - `BLOCK: tl.constexpr` is known when the kernel is compiled. The size of a tile always is, and it is a power of two.
# - `inside` is the mask: where it is false, nothing is read and nothing is written.
#
# A launch says how many programs there are, in square brackets, and then the arguments:

# %%
x = np.arange(1000, dtype=np.float32)
y = 2 * x
out = np.empty_like(x)
grid = (tw.cdiv(x.size, 256),)

kernel = add[grid](x, y, out, x.size, BLOCK=256)

print(grid, out[:4], out[-1])
assert (out == x + y).all()

# %% [markdown]
# `tw.cdiv(1000, 256)` is 1000 / 256 rounded up: four programs. The last of them has 232 elements, and its mask leaves out
# the rest.
#
# The first call compiled the kernel for these types; a second call with arguments of the same kind goes straight to machine
# code. What a launch returns is the compiled kernel. A notebook shows it with all its stages: point at a line to see what
# became of it.

# %%
kernel

# %% [markdown]
# The stages are texts, too. `ttir` is the kernel as Triton's own compiler would have it, `loops` are the vector loops it
# becomes on this machine, `asm` is the machine code.

# %%
print(kernel.asm["ttir"])

# %% [markdown]
# Try it: change `x + y` to `x * y`, or launch three programs instead of four and look at the end of `out`.
#
# Next: [masks and ragged sizes](masks.py).
