"""Kernels of users in functions that `backend="tilewright"` compiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs_torch, pytest.mark.slow]

Run = Callable[..., list[str]]

KERNELS = """
import torch
import tilewright as tw
import tilewright.language as tl
from tilewright.language import float32 as single, load
from tilewright.language.extra.libdevice import fast_dividef as quotient

@tw.jit
def halved(x):
    return quotient(x.to(single), 2.0)

@tw.jit
def halve(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, halved(load(x + lanes, lanes < n)), lanes < n)

@tw.jit
def scale(x, out, n, factor: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * factor, lanes < n)

tuned = tw.autotune([tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 256})], key=["n"])(scale)

def scaled(x):
    out = torch.empty_like(x)
    scale[(tw.cdiv(x.numel(), 64),)](x, out, x.numel(), 3.0, BLOCK=64)
    return out.cos() + x

def scaled_bare(x):
    out = torch.empty_like(x)
    halve[(tw.cdiv(x.numel(), 64),)](x * 6, out, x.numel(), BLOCK=64)
    return out.cos() + x

def scaled_tuned(x):
    out = torch.empty_like(x)
    tuned[lambda meta: (tw.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), 3.0)
    return out.cos() + x

@torch.library.triton_op("mine::triple", mutates_args={})
def triple(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(scale)[(tw.cdiv(x.numel(), 64),)](x, out, x.numel(), 3.0, BLOCK=64)
    return out

triple.register_autograd(lambda ctx, grad: grad * 3.0)

x = torch.randn(1000)
for function in (scaled, scaled_tuned, scaled_bare):
    compiled = torch.compile(function, backend="tilewright", fullgraph=FULL)
    torch.testing.assert_close(compiled(x), (x * 3).cos() + x)
    print(function.__name__)
if FULL:
    wide = torch.randn(40, dtype=torch.float64, requires_grad=True)
    print(torch.autograd.gradcheck(triple, (wide,)))
    torch.testing.assert_close(torch.compile(triple, backend="tilewright", fullgraph=True)(x).cos(), (x * 3).cos())
"""


def test_users_kernels_are_parts_of_graphs(run: Run) -> None:
    assert run(KERNELS.replace("FULL", "True")) == ["scaled", "scaled_tuned", "scaled_bare", "True"]


@pytest.mark.needs_triton
def test_users_kernels_run_between_graphs_beside_the_real_triton(run: Run) -> None:
    assert run(KERNELS.replace("FULL", "False"), triton=True) == ["scaled", "scaled_tuned", "scaled_bare"]


def test_the_example_of_an_operator(run: Run) -> None:
    example = Path(__file__).parents[2] / "examples" / "pytorch" / "custom_op.py"
    assert run(example.read_text()) == ["gradcheck: True", "compiled equals eager: True"]
