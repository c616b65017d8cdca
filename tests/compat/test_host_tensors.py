"""Tensors on the host: wrapped ones, descriptors, microscaling formats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optional_peers
import tilewright as tw
import tilewright.language as tl
from tilewright import GPUTarget, TensorWrapper, reinterpret
from tilewright.compat.gluon import NVMMASharedLayout
from tilewright.compat.gluon import TensorDescriptor as GluonDescriptor
from tilewright.compat.internal_testing import numpy_random, to_numpy, to_triton
from tilewright.compat.mxfp import E2M1, MXFP4Tensor, MXScaleTensor
from tilewright.compat.signatures import canonicalize_dtype, canonicalize_ptr_dtype, get_primitive_bitwidth
from tilewright.compat.tensor_descriptor import TensorDescriptor
from tilewright.compat.unavailable import HIPBackend, NotOnCpu
from tilewright.runtime.drivers.cpu.launcher import is_native

pytestmark = pytest.mark.needs_torch
torch = optional_peers.module("torch")


@tw.jit
def widen(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(tl.float32))


def test_kernels_see_a_wrapped_tensor_under_its_new_type() -> None:
    bits = torch.tensor([0x3C, 0x40, 0x44, 0x80 - 256], dtype=torch.int8)
    out = torch.zeros(4)

    widen[(1,)](reinterpret(bits, tl.float8e5), out, BLOCK=4)

    assert out.tolist() == [1.0, 2.0, 4.0, 0.0]


def test_reinterpreting_back_gives_the_tensor() -> None:
    base = torch.zeros(2, dtype=torch.int8)
    wrapped = reinterpret(base, tl.uint8)

    assert isinstance(wrapped, TensorWrapper)
    assert reinterpret(wrapped, base.dtype) is base
    assert reinterpret(wrapped, tl.float8e5).base is base


def test_a_wrapped_tensor_moves_under_its_type() -> None:
    bits = torch.tensor([0x3C, 0x40], dtype=torch.int8)
    there = reinterpret(bits, tl.float8e5).to("cpu")
    assert isinstance(there, TensorWrapper)
    assert (there.dtype, there.base.tolist()) == (tl.float8e5, bits.tolist())


@pytest.mark.parametrize("name", ["int8", "uint16", "uint64", "float16", "bfloat16", "float64"])
def test_random_numbers_survive_the_way_to_a_kernel_argument_and_back(name: str) -> None:
    numbers = numpy_random((64,), name)

    assert (to_numpy(to_triton(numbers, "cpu", name)) == numbers).all()
    assert (numbers == numpy_random((64,), name)).all()


@pytest.mark.parametrize("value", [-7.0, -0.0, 0.2, 0.25, 0.75, 1.2, 1.25, 1.75, 2.5, 3.5, 5.0, 5.1, np.inf, np.nan])
def test_four_bit_floats_are_the_nearest_ones(value: float) -> None:
    found = MXFP4Tensor(data=torch.tensor([value])).to(torch.float32).item()

    size = abs(value) if np.isfinite(value) else 6.0
    best = min(E2M1, key=lambda number: (abs(number - size), E2M1.index(number) % 2))  # ties to even codes
    assert found == (-best if value < 0 else best)
    assert np.signbit(found) == np.signbit(value)


def test_four_bit_floats_in_pairs() -> None:
    codes = MXFP4Tensor(size=(3, 5)).random()

    packed = codes.to_packed_tensor(dim=1)

    assert packed.shape == (3, 3)
    assert (packed[:, 0] == codes.data[:, 0] + 16 * codes.data[:, 1]).all()
    assert (codes.unpack_packed_tensor(packed, 1, (3, 5)) == codes.data).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch has a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "cpu", None])
def test_tensors_for_a_gpu_that_is_not_there_are_on_the_cpu(device: str | None) -> None:
    assert MXFP4Tensor(size=(2, 4), device=device).random().to_packed_tensor(dim=1).device.type == "cpu"
    assert MXScaleTensor(size=(2, 4), device=device).random().data.device.type == "cpu"


def test_scales_are_the_powers_of_two_below() -> None:
    values = torch.tensor([0.75, 1.0, 5.0, 2.0**-126, 0.0, -1.0, np.inf, np.nan])

    found = MXScaleTensor(data=values).to(torch.float32)

    assert found[:4].tolist() == [0.5, 1.0, 4.0, 2.0**-126]
    assert found[4:].isnan().all()
    assert set(MXScaleTensor(size=99).random(low=0.5, high=2.0).to(torch.float32).tolist()) <= {0.5, 1.0, 2.0}


def described(**changes: Any) -> TensorDescriptor:
    fields = {"base": torch.zeros(32, 16), "shape": [32, 16], "strides": [16, 1], "block_shape": [8, 16]}
    return TensorDescriptor(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strides": [16]}, "rank mismatch"),
        ({"shape": [], "strides": [], "block_shape": []}, "1 to 5 axes"),
        ({"strides": [17, 1]}, "strides must be 16-byte aligned"),
        ({"strides": [16, 2]}, "last axis must be contiguous"),
        ({"shape": [0, 16]}, "shape must be positive"),
        ({"padding": "one"}, "padding is zero or nan"),
        ({"base": torch.zeros(32, 16, dtype=torch.int32), "padding": "nan"}, "for floats"),
    ],
)
def test_descriptor_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        described(**changes)


@pytest.mark.parametrize("changes", [{}, {"strides": [17, 1]}, {"shape": [0, 16]}, {"padding": "one"}], ids=str)
def test_descriptor_refuses_a_block_before_anything_else(changes: dict[str, Any]) -> None:
    for block, axis in (([3, 16], 0), ([16, 30], 1), ([16, 0], 1), ([48, 3], 0)):
        with pytest.raises(ValueError, match=f"Shape element {axis} must be a power of 2"):
            described(block_shape=block, **changes)


@pytest.mark.parametrize("shape", [[0, 16], [32, -1]])
def test_descriptor_refuses_wrong_strides_before_an_empty_tensor(shape: list[int]) -> None:
    with pytest.raises(AssertionError, match="strides must be 16-byte aligned"):
        described(shape=shape, strides=[17, 1])


def test_descriptor_of_a_tensor() -> None:
    tensor = torch.zeros(32, 16)

    assert TensorDescriptor.from_tensor(tensor, [8, 16]) == described(base=tensor, shape=tensor.shape, strides=(16, 1))


@tw.jit
def windows(x, out, first, deep, last, BLOCK: tl.constexpr):
    out.store([0, 0], x.load([first, 0]) + deep.load([0, last, 0]).reshape(BLOCK, BLOCK))


@pytest.mark.skipif(not is_native(), reason="there is no native launcher here")
def test_descriptors_are_launched_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second launch on, whatever their extents are, and the numbers among them and behind them."""
    slow: list[Any] = []
    launch = type(windows)._launch
    monkeypatch.setattr(type(windows), "_launch", lambda self, *args: slow.append(args) or launch(self, *args))
    for rows, first, last in ((30, 3, 2), (29, 5, 3), (23, 7, 5), (31, 2, 7)):
        x, out = torch.arange(rows * 16.0).reshape(rows, 16), torch.zeros(8, 16)
        deep = -torch.arange(2 * 36 * 16.0).reshape(2, 36, 16)
        flat = [TensorDescriptor.from_tensor(tensor, [8, 8]) for tensor in (x, out)]
        windows[(1,)](*flat, first, TensorDescriptor.from_tensor(deep, [1, 8, 8]), last, BLOCK=8)
        assert (out[:, :8] == x[first : first + 8, :8] + deep[0, last : last + 8, :8]).all()
        assert (out[:, 8:] == 0).all()
    assert len(slow) == 1


@pytest.mark.parametrize(
    ("dtype", "name", "bits"),
    [(torch.float32, "fp32", 32), (tl.bfloat16, "bf16", 16), ("bool", "u1", 1), (torch.float8_e5m2, "fp8e5", 8)],
)
def test_element_types_in_signatures(dtype: Any, name: str, bits: int) -> None:
    assert canonicalize_dtype(dtype) == name
    assert canonicalize_ptr_dtype(dtype, True) == f"*k{name}"
    assert get_primitive_bitwidth(name) == bits


def test_descriptor_with_a_layout() -> None:
    layout = NVMMASharedLayout(0, 32)

    descriptor = GluonDescriptor.from_tensor(torch.zeros(32, 16), [8, 16], layout)

    assert (descriptor.block_shape, descriptor.layout) == ([8, 16], layout)


def test_amds_back_end_specialises_and_does_not_compile() -> None:
    assert HIPBackend.get_int_specialization(32, align=True) == "D"
    with pytest.raises(NotOnCpu, match="does not compile for hip"):
        HIPBackend(GPUTarget("hip", "gfx942", 64)).parse_options({})
