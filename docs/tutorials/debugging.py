# %% [markdown]
# # Debugging with the sanitizer and the simulator
#
# Three ways to find a mistake: run the kernel as Python, let compiled code check itself, or run the code for a GPU in a
# simulator that knows GPU mistakes. First, what happens when a kernel does not compile.

# %%
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def outer(x_ptr, out_ptr):
    rows, columns = tl.arange(0, 16), tl.arange(0, 32)
    tl.store(out_ptr + rows * 32 + columns, 1.0)


try:
    outer[(1,)](np.zeros(16, np.float32), np.zeros(512, np.float32))
except tw.CompilationError as error:
    print(error)

# %% [markdown]
# ## Print
#
# `tl.device_print` prints the elements of a tile, with the program they belong to. In a notebook the lines appear under the
# cell.


# %%
@tw.jit
def halves(x_ptr, n):
    i = tl.arange(0, 4)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.device_print("half", x / 2)


halves[(1,)](np.arange(4, dtype=np.float32), 4, num_threads=1)

# %% [markdown]
# ## Run it as Python
#
# With `interpret=True` (or TRITON_INTERPRET=1 for all kernels) a kernel is an ordinary Python function on NumPy arrays:
# `print`, `breakpoint()` and a debugger work inside it.


# %%
@tw.jit(interpret=True)
def looked_into(x_ptr, out_ptr):
    i = tl.arange(0, 4)
    x = tl.load(x_ptr + i)
    print("in program", tl.program_id(0), "x is", x)
    tl.store(out_ptr + i, x * x)


looked_into[(1,)](np.arange(4, dtype=np.float32), np.empty(4, np.float32))

# %% [markdown]
# ## The sanitizer
#
# This kernel should reverse an array in place. Two programs exchange elements with each other, and each may read what the
# other one has already overwritten: a race. Whether the result is right depends on timing, so a test may well pass.


# %%
@tw.jit
def reverse(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + n - 1 - i, x, mask=i < n)


try:
    reverse[(2,)](np.arange(16, dtype=np.float32), 16, BLOCK=8, sanitize="races", num_threads=1)
except tw.SanitizerError as error:
    print(error)

# %% [markdown]
# `sanitize="bounds,races,uninit"` asks for all three checks: accesses outside of an array, races, and elements that were read
# before anything was stored there. [The sanitizer](../sanitizer.md) says what each of them finds.
#
# ## The simulator
#
# The same kernel can be compiled for an NVIDIA GPU and run without one. The simulator executes the PTX and watches every
# thread.

# %%
with tw.simulate("cuda:90"):
    try:
        reverse[(2,)](np.arange(64, dtype=np.float32), 64, BLOCK=32)
    except tw.SimulationError as error:
        print(error.kind)
        print(error)

# %% [markdown]
# `kernel.asm["ptx"]` of a kernel that was launched inside is the code that ran. [The simulator](../simulator.md) lists every
# kind of error, and what is simulated exactly.
#
# Next: [plain functions on arrays](vectorizing.py).
