"""`triton.tools.ragged_tma`: blocks of slices do not reach into the next slice."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import optional_peers
import tilewright as tw
import tilewright.language as tl
from tilewright.compat.tensor_descriptor import create_ragged_descriptor
from tilewright.language.ragged import atomic_add_ragged, load_ragged, store_ragged

pytestmark = pytest.mark.needs_torch
torch = optional_peers.module("torch")

BLOCK = 8
SLICES = ((0, 5), (5, 0), (5, 19), (24, 8))
"""The starts and lengths of the sequences."""


@tw.jit
def doubled(source, target, off, size, ADD: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    block = load_ragged(source, off, size, [row, 16])
    if ADD:
        atomic_add_ragged(target, off, size, [row, 0], block + 1)
    else:
        store_ragged(target, off, size, [row, 0], block + 1)


@tw.jit
def from_the_middle(source, out, off, size, ROWS: tl.constexpr):
    block = load_ragged(source, off, size, [1, 2, 0], ragged_dim=1)
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, 16)[None, :]
    tl.store(out + i * 16 + j, tl.reshape(block, (ROWS, 16)))


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(("off", "size"), SLICES)
def test_slices_are_moved_alone(off: int, size: int, add: bool) -> None:
    x = torch.arange(32 * 32, dtype=torch.float32).reshape(32, 32)
    out = torch.zeros(32, 16)
    source, target = (create_ragged_descriptor(tensor, [BLOCK, 16]) for tensor in (x, out))

    doubled[(3,)](source, target, off, size, ADD=add, ROWS=BLOCK)

    expected = torch.zeros(32, 16)
    expected[off : off + size] = x[off : off + size, 16:] + 1
    assert torch.equal(out, expected)


@tw.jit
def made_anew(target, pointer, off, size, ADD: tl.constexpr):
    """As kernels do that are given a descriptor for its shape and strides alone."""
    anew = tl.make_tensor_descriptor(pointer, target.shape, (*target.strides[:-1], 1), target.block_shape)
    doubled(anew, anew, off, size, ADD, 8)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("machine", ["", "cuda:90", "cuda:100"])
def test_kernels_may_make_descriptors_anew(machine: str, add: bool) -> None:
    x = torch.arange(32 * 32, dtype=torch.float32).reshape(32, 32)
    expected = x.clone()
    expected[5:24, :16] = x[5:24, 16:] + 1 + (x[5:24, :16] if add else 0)
    descriptor = create_ragged_descriptor(x, [BLOCK, 16])
    assert descriptor.base.data_ptr() == x.data_ptr()  # hardware wants memory there
    with tw.simulate(machine) if machine else nullcontext():
        made_anew[(3,)](descriptor, x, 5, 19, ADD=add)
    assert torch.equal(x, expected)


def test_axes_that_cannot_be_ragged_are_refused() -> None:
    for tensor, axis in ((torch.zeros(4, 16), 1), (torch.zeros(2, 2, 2, 16), 0)):
        with pytest.raises(AssertionError, match="ragged is one of the first two axes of three"):
            create_ragged_descriptor(tensor, [1, 16], axis)


def test_an_inner_axis_may_be_ragged() -> None:
    x = torch.arange(3 * 16 * 16, dtype=torch.float32).reshape(3, 16, 16)
    out: Any = np.ones((BLOCK, 16), np.float32)

    from_the_middle[(1,)](create_ragged_descriptor(x, [1, BLOCK, 16], ragged_dim=1), out, 4, 7, ROWS=BLOCK)

    np.testing.assert_array_equal(out[:5], x[1, 6:11].numpy())
    assert not out[5:].any()
