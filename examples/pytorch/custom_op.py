"""A kernel as an operator of torch: with a gradient, in compiled models, checked by `gradcheck`.

    python examples/pytorch/custom_op.py
"""

from __future__ import annotations

import torch

import tilewright as tw
import tilewright.language as tl
import tilewright.torch_compile  # shows torch a Triton, in front of the first `triton_op`, which looks for one


@tw.jit
def swish_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + lanes, lanes < n)
    tl.store(out + lanes, values / (1 + tl.exp(-values)), lanes < n)


@torch.library.triton_op("examples::swish", mutates_args={})
def swish(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    torch.library.wrap_triton(swish_kernel)[(tw.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def gradient(ctx, grad):
    (x,) = ctx.saved_tensors
    gate = torch.sigmoid(x)
    return grad * gate * (1 + x * (1 - gate))


swish.register_autograd(gradient, setup_context=save)


def main() -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    print("gradcheck:", torch.autograd.gradcheck(swish, (x,)))

    gated = torch.compile(lambda x: swish(x) * 2 + 1, backend="tilewright", fullgraph=True)
    difference = (gated(x) - (torch.nn.functional.silu(x) * 2 + 1)).abs().max()
    print("compiled equals eager:", bool(difference < 1e-12))


if __name__ == "__main__":
    main()
