"""Gluon's layouts and types as values: what they say of the CTAs of a cluster, and that a pickle keeps them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tilewright.gluon import language as gl
from tilewright.semantics.buffers import buffer_type
from tilewright.semantics.distributed import distributed_type
from tilewright.semantics.layout_values import DistributedLinearLayout
from tilewright.semantics.running_sums import running_type
from tilewright.semantics.tma_descriptors import tma_type
from tilewright.semantics.types import block_type, float16

CTAS = [[1, 0, 0], [0, 2, 0], [0, 0, 4]]
BLOCKED = gl.BlockedLayout([1, 1, 1], [1, 4, 8], [4, 1, 1], [2, 1, 0], CTAS)
LINEAR = DistributedLinearLayout([], [], [], CTAS, [2, 4, 8])
TILE = distributed_type(float16, (32, 8), gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0]))
SWIZZLED = gl.NVMMASharedLayout(32, 16, 2)


@pytest.mark.parametrize("parent", [BLOCKED, LINEAR], ids=["blocked", "linear"])
def test_slices_drop_an_axis_of_the_steps_between_ctas(parent: Any) -> None:
    assert gl.SliceLayout(0, parent).cga_layout == [[0, 0], [2, 0], [0, 4]]
    assert gl.SliceLayout(1, parent).cga_layout == [[1, 0], [0, 0], [0, 4]]
    assert gl.SliceLayout(0, gl.SliceLayout(1, parent)).cga_layout == [[0], [0], [4]]


@pytest.mark.parametrize("parent", [BLOCKED, LINEAR], ids=["blocked", "linear"])
def test_operands_are_the_same_along_their_depth(parent: Any) -> None:
    assert gl.DotOperandLayout(0, parent, 2).cga_layout == [[1, 0, 0], [0, 2, 0], [0, 0, 0]]
    assert gl.DotOperandLayout(1, parent, 2).cga_layout == [[1, 0, 0], [0, 0, 0], [0, 0, 4]]


@pytest.mark.quick
@pytest.mark.parametrize(
    "kind",
    [
        TILE,
        running_type(TILE),
        buffer_type(float16, [64, 16], SWIZZLED, [2, 64, 16]),
        tma_type(block_type(float16, (64, 16)), SWIZZLED),
    ],
    ids=lambda kind: type(kind).__name__,
)
def test_pickling_keeps_identity(kind: Any) -> None:
    assert pickle.loads(pickle.dumps(kind)) is kind
