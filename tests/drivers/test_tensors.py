"""torch tensors as arguments of native launches: their keys, and which of them are left to Python."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from driver_kernels import adder, arrays, slow_calls

import optional_peers
from tilewright.runtime.drivers.cpu.launcher import NativeKernel, is_native
from tilewright.runtime.drivers.cpu.records import Parameter

torch = optional_peers.module("torch")
pytestmark = [
    pytest.mark.needs_torch,
    pytest.mark.skipif(not is_native(), reason="there is no native launcher here"),
]


def test_tensors() -> None:
    kernel = adder()
    x, y, out = (torch.arange(1024, dtype=torch.float32) + i for i in range(3))
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1
    assert slow_calls(kernel, (1,), torch.nn.Parameter(x), y, out, 999, BLOCK=1024) == 0
    assert slow_calls(kernel, (1,), x.double(), y, out, 999, BLOCK=1024) == 1
    assert slow_calls(kernel, (1,), x[1:], y, out, 999, BLOCK=1024) == 1
    out.zero_()
    kernel.native[(1,)](x, y, out, 999, BLOCK=1024)
    assert torch.equal(out[:999], (x + y)[:999])


def test_tensors_and_arrays_have_different_keys() -> None:
    kernel, (x, y, out) = adder(), arrays()
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1
    assert slow_calls(kernel, (1,), torch.from_numpy(x), y, out, 999, BLOCK=1024) == 1


def test_tensors_elsewhere_and_of_other_classes_go_to_python() -> None:

    class Tensor(torch.Tensor):
        pass

    misses: list[Any] = []
    kernel = NativeKernel([Parameter("x")], lambda grid, args, kwargs, miss: misses.append(miss))
    kernel[(1,)](torch.empty(3))
    kernel[(1,)](torch.empty(3, device="meta"))
    kernel[(1,)](torch.empty(3).as_subclass(Tensor))
    assert misses[0] is not None
    assert misses[1:] == [None, None]


def test_what_torch_refuses_goes_to_python() -> None:
    misses: list[Any] = []
    kernel = NativeKernel([Parameter("x")], lambda grid, args, kwargs, miss: misses.append(miss))
    kernel[(1,)](torch.eye(3).to_sparse())
    torch.func.vmap(lambda row: kernel[(1,)](row) or row)(torch.eye(3))
    assert misses == [None, None]


def test_tensors_by_dtype_view_and_copy_on_write() -> None:
    kernel, x = adder(), torch.arange(1024, dtype=torch.float32)
    out = torch.zeros(2048)[1024:]
    assert slow_calls(kernel, (1,), x, x, out, 1000, BLOCK=1024) == 1
    assert slow_calls(kernel, (1,), x[1:], x, out, 1000, BLOCK=1024) == 1
    assert slow_calls(kernel, (1,), x.to(torch.int32), x, out, 1000, BLOCK=1024) == 1
    clone = torch._lazy_clone(out)
    assert slow_calls(kernel, (1,), x, x, clone, 9, BLOCK=1024) == 0
    out.zero_()
    kernel.native[(1,)](x, x, clone, 1000, BLOCK=1024)
    assert torch.equal(clone[:1000], (x + x)[:1000])
    assert not out.any()


def test_references_to_tensors() -> None:
    kernel = adder()
    tensors = [torch.arange(1024, dtype=torch.float32) + i for i in range(3)]
    kernel.native[(1,)](*tensors, 999, BLOCK=1024)
    objects = [*tensors, torch.float32, True]
    before = [sys.getrefcount(value) for value in objects]
    for _ in range(20_000):
        kernel.native[(1,)](*tensors, 999, BLOCK=1024)
    assert [sys.getrefcount(value) for value in objects] == pytest.approx(before, abs=10)


def test_tensors_that_are_not_what_is_in_their_memory_go_to_python() -> None:
    misses: list[Any] = []
    kernel = NativeKernel([Parameter("x")], lambda grid, args, kwargs, miss: misses.append(miss))
    plain = torch.arange(16.0)
    freed = torch.arange(64.0)[32:]
    freed.untyped_storage().resize_(0)
    with torch.inference_mode():
        inferred = torch.arange(3)
    for given in (plain, plain[3:], plain.requires_grad_(), inferred, torch.empty(0), torch.empty(4, 0)):
        kernel[(1,)](given)
    assert None not in misses
    misses.clear()
    plain = plain.detach()
    for given in (torch._neg_view(plain), plain.to(torch.complex64).conj().imag, torch._efficientzerotensor(4), freed):
        kernel[(1,)](given)
    assert misses == [None] * 4


def test_keys_have_the_numbers_of_torchs_dtypes() -> None:
    misses: list[Any] = []
    kernel = NativeKernel([Parameter("x")], lambda grid, args, kwargs, miss: misses.append(miss))
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype) and not value.is_complex}
    dtypes -= {dtype for dtype in dtypes if "q" in str(dtype).rpartition(".")[2] or "bits" in str(dtype)}
    for dtype in dtypes:
        kernel[(1,)](torch.empty(4, dtype=dtype))
    assert len({miss.key for miss in misses}) == len(dtypes) > 12
