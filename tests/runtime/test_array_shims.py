"""Objects that stand for arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.allocation import allocator
from tilewright.runtime.parameters import kernel_params
from tilewright.runtime.specialize import specialize


def plain(x): ...


PARAM = kernel_params(plain)[0]


@pytest.mark.needs_torch
def test_mock_tensors_count_as_aligned() -> None:
    import torch

    assert specialize(tw.MockTensor(torch.bfloat16), PARAM)[:2] == ("*bf16", "D")
    assert specialize(tw.MockTensor(np.dtype("f2"), (4, 8)), PARAM)[:2] == ("*fp16", "D")
    assert tw.MockTensor(np.float32, (2, 3, 4)).stride() == (12, 3, 1)


@pytest.mark.needs_torch
def test_only_dtypes_are_wrapped() -> None:
    import torch

    wrap = tw.MockTensor.wrap_dtype
    assert wrap(torch.float32).dtype is torch.float32
    assert wrap(np.float32).dtype == np.float32
    for value in (3, "float32", tl.float32, np.zeros(2), None):
        assert wrap(value) is value


def test_reinterpreted_memory() -> None:
    @tw.jit
    def negate(x, out):
        offsets = tl.arange(0, 16)
        tl.store(out + offsets, (-tl.load(x + offsets)).to(tl.float32))

    halves, out = np.arange(16, dtype=np.float16), np.zeros(16, np.float32)
    view = tw.reinterpret(halves.view(np.int16), tl.float16)
    negate[(1,)](view, out)
    assert np.array_equal(out, -halves.astype(np.float32))
    assert str(view).startswith("TensorWrapper[fp16]")
    assert view.element_size() == 2


@pytest.mark.needs_torch
def test_reinterpreting_back_gives_the_tensor() -> None:
    import torch

    tensor = torch.zeros(16, dtype=torch.int8)
    view = tw.reinterpret(tensor, tl.float8e5)
    assert view.data_ptr() == tensor.data_ptr()
    assert view.shape == tensor.shape
    assert specialize(view, PARAM).type == "*fp8e5"
    assert tw.reinterpret(view, torch.int8) is tensor
    assert specialize(tw.reinterpret(view, tl.float8e4nv), PARAM).type == "*fp8e4nv"
    assert view.clone().data_ptr() != view.data_ptr()
    with pytest.raises(TypeError, match="reinterpret a list"):
        tw.reinterpret([1], tl.float32)


def test_allocators() -> None:
    with pytest.raises(RuntimeError, match="set_allocator"):
        allocator.get()(16, 16, None)
    token = allocator.set(allocator.get())
    try:
        tw.set_allocator(lambda size, alignment, stream: np.zeros(size, np.uint8))
        assert len(allocator.get()(16, 16, None)) == 16
    finally:
        allocator.reset(token)
