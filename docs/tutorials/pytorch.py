# %% [markdown]
# # PyTorch
#
# Kernels take tensors of the CPU as they are, a kernel becomes an operator with a gradient in a few lines, and
# `torch.compile` can let Tilewright compile a whole model.

# %%
import numpy as np
import torch

import tilewright as tw
import tilewright.language as tl


@tw.jit
def silu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * tl.sigmoid(x), mask=i < n)


x = torch.randn(1000)
out = torch.empty_like(x)
silu[(tw.cdiv(1000, 256),)](x, out, 1000, BLOCK=256)
torch.testing.assert_close(out, torch.nn.functional.silu(x))
print(out[:4])

# %% [markdown]
# ## With a gradient
#
# `torch.autograd.Function` joins a kernel for the result and one for the gradient.


# %%
@tw.jit
def silu_backward(x_ptr, grad_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    s = tl.sigmoid(x)
    grad = tl.load(grad_ptr + i, mask=i < n)
    tl.store(out_ptr + i, grad * s * (1 + x * (1 - s)), mask=i < n)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        out = torch.empty_like(x)
        silu[(tw.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out

    @staticmethod
    def backward(context, grad):
        (x,) = context.saved_tensors
        out = torch.empty_like(x)
        silu_backward[(tw.cdiv(x.numel(), 256),)](x, grad.contiguous(), out, x.numel(), BLOCK=256)
        return out


x = torch.randn(50, dtype=torch.float64, requires_grad=True)
print(torch.autograd.gradcheck(Silu.apply, x))

# %% [markdown]
# ## A whole model
#
# Inductor writes Triton kernels, and Tilewright compiles them for the CPU. There is no C++ compiler involved.

# %%
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8), torch.nn.Softmax(dim=-1))
compiled = torch.compile(model, backend="tilewright")
batch = torch.randn(16, 32)
with torch.no_grad():
    torch.testing.assert_close(compiled(batch), model(batch))
    print(np.abs((compiled(batch) - model(batch)).numpy()).max())

# %% [markdown]
# [PyTorch](../torch.md) says how fast models are, and how packages without Python are made.
#
# Next: [ahead of time](ahead_of_time.py).
