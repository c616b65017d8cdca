"""torch tensors that a kernel cannot take as they are: negated, without memory, of another device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optional_peers
import tilewright as tw
import tilewright.language as tl

torch = optional_peers.module("torch")
pytestmark = pytest.mark.needs_torch


@tw.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)


def freed(count: int, offset: int) -> Any:
    tensor = torch.arange(count + offset, dtype=torch.float32)[offset:]
    tensor.untyped_storage().resize_(0)
    return tensor


def fake() -> Any:
    with torch._subclasses.fake_tensor.FakeTensorMode():
        return torch.empty(16)


REFUSED = {
    "negated": (lambda: torch._neg_view(torch.arange(16.0)), r"negated lazily: .*; pass tensor.resolve_neg\(\)"),
    "imaginary part": (lambda: torch.randn(16, dtype=torch.complex64).conj().imag, "negated lazily"),
    "reinterpreted": (lambda: tw.reinterpret(torch._neg_view(torch.arange(16.0)), tl.float32), "negated lazily"),
    "freed": (lambda: freed(16, 0), "the Tensor has elements but no memory: .* or its memory was freed"),
    "freed view": (lambda: freed(16, 10_000_000), "the Tensor has elements but no memory"),
    "freed and reinterpreted": (lambda: tw.reinterpret(freed(16, 3), tl.int32), "TensorWrapper has elements but no"),
    "fake": (fake, "the FakeTensor has elements but no memory: it only stands for an array"),
    "meta": (lambda: torch.empty(16, device="meta"), "on device meta, where tensors have no memory"),
    "zeros without memory": (lambda: torch._efficientzerotensor(16), "no memory"),
    "sparse": (lambda: torch.eye(4).to_sparse(), "the Tensor has no memory that a kernel could use"),
}


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    good, out = torch.arange(16.0), torch.full((16,), 7.0)
    given = make()
    for _ in range(3):
        add_one[(1,)](good, out, 16, BLOCK=16)
    out.fill_(7)
    for kernel in (add_one, tw.jit(add_one.fn), tw.jit(add_one.fn, interpret=True)):
        for _ in range(2):
            with pytest.raises(tw.ArgumentError, match=f"argument 'x': .*{message}"):
                kernel[(1,)](given, out, 16, BLOCK=16)
    with pytest.raises(tw.ArgumentError, match=f"argument 'x': .*{message}"):
        add_one[(1,)](given, out, 16, BLOCK=16, sanitize="bounds")
    assert (out == 7).all()


def test_what_a_message_proposes_works() -> None:
    negated, out = torch._neg_view(torch.arange(16.0)), torch.zeros(16)
    add_one[(1,)](negated.resolve_neg(), out, 16, BLOCK=16)
    assert torch.equal(out, 1 - torch.arange(16.0))


def test_tensors_without_elements_need_no_memory() -> None:
    out = torch.zeros(16)
    for empty in (torch.empty(0), torch.empty(3, 0), freed(0, 0), np.empty(0, np.float32)):
        for _ in range(3):
            add_one[(1,)](empty, out, 0, BLOCK=16)


def test_a_grid_without_programs_reads_nothing() -> None:
    for _ in range(3):
        add_one[(0,)](freed(16, 0), torch.zeros(16), 16, BLOCK=16)


@pytest.mark.parametrize("is_native", [False, True])
def test_a_grid_function_frees_an_argument(is_native: bool) -> None:
    kernel, out = tw.jit(add_one.fn), torch.zeros(16)
    if is_native:
        for _ in range(3):
            kernel[(1,)](torch.zeros(16), out, 16, BLOCK=16)

    def grid(meta: dict[str, Any]) -> tuple[int]:
        meta["x"].untyped_storage().resize_(0)
        return (1,)

    for _ in range(2):
        with pytest.raises(tw.ArgumentError, match="no memory"):
            kernel[grid](torch.arange(16.0), out, 16, BLOCK=16)
    assert not is_native or (out == 1).all()


def test_a_grid_function_gives_an_argument_other_memory() -> None:
    out = torch.zeros(16)

    def grid(meta: dict[str, Any]) -> tuple[int]:
        meta["x"].set_(torch.full((16,), 7.0))
        return (1,)

    for _ in range(4):
        add_one[grid](torch.arange(16.0), out, 16, BLOCK=16)
        assert (out == 8).all()
        out.zero_()
