"""`triton.tools.ragged_tma`: blocks of slices do not reach into the next slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optional_peers
import tilewright as tw
import tilewright.language as tl
from tilewright.compat.tensor_descriptor import create_ragged_descriptor, wrapping_descriptor
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


@pytest.mark.parametrize("add", [False, True])
def test_descriptors_for_gpus_begin_where_the_tensor_does(add: bool) -> None:
    """One that begins in front of it, where nothing is mapped, is an illegal address to hardware."""
    x, out = torch.arange(32 * 32, dtype=torch.float32).reshape(32, 32), torch.zeros(32, 16)
    source, target = (wrapping_descriptor(tensor, [BLOCK, 16], 0) for tensor in (x, out))
    assert source.base.data_ptr() == x.data_ptr()
    with tw.simulate("cuda:90"):
        doubled[(3,)](source, target, 5, 19, ADD=add, ROWS=BLOCK)
    expected = torch.zeros(32, 16)
    expected[5:24] = x[5:24, 16:] + 1
    assert torch.equal(out, expected)


def test_an_inner_axis_may_be_ragged() -> None:
    x = torch.arange(3 * 16 * 16, dtype=torch.float32).reshape(3, 16, 16)
    out: Any = np.ones((BLOCK, 16), np.float32)

    from_the_middle[(1,)](create_ragged_descriptor(x, [1, BLOCK, 16], ragged_dim=1), out, 4, 7, ROWS=BLOCK)

    np.testing.assert_array_equal(out[:5], x[1, 6:11].numpy())
    assert not out[5:].any()
