"""Tensor memory that the code of other warps allocates."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import TensorMemoryLayout, allocate_tensor_memory


@gluon.jit
def through_tensor_memory(x, out, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, N], [32, 1], [4, 1], [0, 1])
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))[:, None]
    places = rows * N + gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]
    memory = allocate_tensor_memory(gl.float32, [128, N], TensorMemoryLayout((128, N), col_stride=1))
    memory.store(gl.load(x + places))
    gl.store(out + places, memory.load(layout) + 1)


@gluon.jit
def by_two_groups(x, out, N: gl.constexpr, EARLIER: gl.constexpr):
    if EARLIER:
        through_tensor_memory(x, out, N)
    size: gl.constexpr = 128 * N
    gl.warp_specialize(
        [(through_tensor_memory, (x, out, N)), (through_tensor_memory, (x + size, out + size, N))], [4], [96]
    )


@pytest.mark.parametrize("earlier", [False, True])
def test_all_warps_get_the_columns_together_and_partitions_have_columns_of_their_own(earlier: bool) -> None:
    n = 32
    x, out = np.arange(2 * 128 * n, dtype=np.float32), np.zeros(2 * 128 * n, np.float32)
    with tw.simulate("cuda:100"):
        kernel = by_two_groups[(1,)](x, out, n, earlier)
    assert (out == x + 1).all()
    text = kernel.asm["ptx"]
    assert text.count("tcgen05.alloc.") == text.count("tcgen05.dealloc.") == 1
    assert re.search(r"tcgen05\.alloc\.cta_group::1\.sync\.aligned\.shared::cta\.b32 \[\S+\], 64\s*", text)
