"""Tensor descriptors made on the host, as arguments of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.parameters import kernel_params
from tilewright.runtime.specialize import specialize


class Descriptor:
    """What a kernel asks of a descriptor, whatever its class."""

    def __init__(self, base: Any, block_shape: tuple[int, ...], padding: str = "zero") -> None:
        self.base, self.shape, self.block_shape, self.padding = base, base.shape, block_shape, padding
        self.strides = [stride // base.itemsize for stride in base.strides]


def doubled(x, out, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    out.store([row, 0], 2 * x.load([row, 0]))


def padded(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, x.load([0]))


@pytest.mark.parametrize("interpret", [False, True])
def test_kernels_read_and_write_blocks_of_the_tensor(interpret: bool) -> None:
    x = np.arange(40 * 16, dtype=np.float32).reshape(40, 16)
    out = np.zeros((44, 16), np.float32)

    tw.jit(doubled, interpret=interpret)[(3,)](Descriptor(x, (16, 16)), Descriptor(out[:40], (16, 16)), 16)

    assert (out[:40] == 2 * x).all()
    assert (out[40:] == 0).all()


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_padding_is_what_the_descriptor_says(padding: str) -> None:
    out = np.ones(8, np.float32)

    tw.jit(padded)[(1,)](Descriptor(np.ones(5, np.float32), (8,), padding), out, 8)

    assert (out[:5] == 1).all()
    assert np.isnan(out[5:]).all() if padding == "nan" else (out[5:] == 0).all()


def test_one_kernel_serves_all_shapes_of_a_kind() -> None:
    kernel = tw.jit(padded)
    out = np.ones(8, np.float32)

    made = [kernel[(1,)](Descriptor(np.ones(n, np.float32), (8,)), out, 8) for n in (5, 6, 7)]
    other = kernel[(1,)](Descriptor(np.ones(5, np.float32), (8,), "nan"), out, 8)

    assert len(set(map(id, made))) == 1
    assert other is not made[0]


def test_type_is_tritons() -> None:
    found = specialize(Descriptor(np.ones((4, 64), np.float16), (4, 64)), kernel_params(doubled)[0])

    assert found.as_triton() == ("tensordesc<fp16[4, 64]>", None)
