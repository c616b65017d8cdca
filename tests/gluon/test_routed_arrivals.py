"""Barriers that CTAs tell for other CTAs of their cluster: `from_cta`."""

from __future__ import annotations

import gluon_programs as programs
import numpy as np
import pytest
from descriptors import aligned, described
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.hopper import mbarrier


@pytest.mark.parametrize(("first", "told"), [(0, 2), (1, 2), (2, 2), (3, 0)])
def test_some_ctas_tell_the_barriers_of_others(first: int, told: int) -> None:
    """With 3, the bits of all four, each tells its own."""
    a, b = aligned((128, 32), np.float32), aligned((128, 32), np.float32)
    a[...] = np.arange(a.size).reshape(a.shape)
    blocks = [described(array, [128, 32], programs.QUARTERS) for array in (a, b)]
    with tilewright.simulate("cuda:90"):
        kernel = programs.copy_counted_by_others[(1,)](*blocks, FIRST=first, num_ctas=4)
    np.testing.assert_array_equal(a, b)
    text = assembled_text(kernel, 90)
    assert sum("mbarrier.arrive" in line and "shared::cluster" in line for line in text.splitlines()) == told
    assert ("fence.mbarrier_init" in text) == bool(told)


@gluon.jit
def told_by_first(out, FIRST: gl.constexpr, BARRIER: gl.constexpr, SHAPE: gl.constexpr):
    bar = gl.allocate_shared_memory(gl.int64, SHAPE, BARRIER)
    mbarrier.init(bar, count=2)
    mbarrier.arrive(bar, from_cta=FIRST)
    mbarrier.wait(bar, 0)


EACH = mbarrier.MBarrierLayout(cga_layout=[[1], [2]])
PAIRS = mbarrier.MBarrierLayout(cga_layout=[[0], [1]])


def test_each_barrier_is_told_once() -> None:
    """It counts to two, so that nobody gets on."""
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.SimulationError) as caught:
        told_by_first[(1,)](np.zeros(1, np.float32), FIRST=0, BARRIER=EACH, SHAPE=[4], num_ctas=4)
    assert caught.value.kind == "deadlock"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("first", "layout", "shape", "problem"),
    [
        (4, EACH, [4], "from_cta is a number from 0 to 3"),
        (-1, EACH, [4], "from_cta is a number from 0 to 3"),
        ("0", EACH, [4], "from_cta is a number from 0 to 3"),
        (0, PAIRS, [2], "from_cta is for a barrier of each CTA"),
        (3, PAIRS, [2], "from_cta is for a barrier of each CTA"),
    ],
)
def test_wrong_routes_are_refused(first: object, layout: object, shape: list[int], problem: str) -> None:
    with tilewright.simulate("cuda:100"), pytest.raises(tilewright.CompilationError) as caught:
        told_by_first[(1,)](np.zeros(1, np.float32), FIRST=first, BARRIER=layout, SHAPE=shape, num_ctas=4)
    assert problem in caught.value.diagnostic.headline
    assert "mbarrier.arrive(bar" in str(caught.value)
