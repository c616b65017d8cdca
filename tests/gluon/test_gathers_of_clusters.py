"""Gathers and scatters of rows by several CTAs, on simulated GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from descriptors import aligned, described
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import tma
from tilewright.language.gluon.nvidia.hopper import mbarrier
from tilewright.support.diagnostics import Unsupported

RANDOM = np.random.default_rng(9)


@gluon.jit
def through_rows(source, target, sources, targets, ROWS: gl.constexpr, COLUMNS: gl.constexpr, CGA: gl.constexpr,
                 MULTICAST: gl.constexpr, WAITS: gl.constexpr):  # fmt: skip
    """Rows are gathered from the second column on, and scattered to the first."""
    buffer = gl.allocate_shared_memory(source.dtype, [ROWS, COLUMNS], source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    layout: gl.constexpr = gl.SliceLayout(1, gl.BlockedLayout([4, 1], [1, 32], [4, 1], [0, 1], cga_layout=CGA))
    place = gl.arange(0, ROWS, layout=layout)
    mbarrier.expect(bar, buffer.nbytes_per_cta)
    tma.async_gather(source, gl.load(sources + place), 8, bar, buffer, multicast=MULTICAST)
    if WAITS:
        mbarrier.wait(bar, 0, deps=[buffer])
    tma.async_scatter(target, gl.load(targets + place), 0, buffer)
    tma.store_wait(0)


def moved(cga: list[list[int]], *, of_rows: list[list[int]] | None = None, **options: bool) -> str:
    """The PTX of a program that has moved rows as it should."""
    ctas, split = 1 << len(cga), [1 << sum(row[axis] != 0 for row in cga) for axis in range(2)]
    rows, columns = 32 * split[0], 128 * split[1]
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16, cga_layout=cga)
    x, out = aligned((rows, columns + 8), np.float16), aligned((rows, columns), np.float16)
    x[...] = RANDOM.standard_normal(x.shape)
    sources, targets = (RANDOM.permutation(rows).astype(np.int32) for _ in range(2))
    blocks = [described(array, [1, columns // split[1]], layout) for array in (x, out)]
    settings = {"MULTICAST": False, "WAITS": True, **options}
    with tilewright.simulate("cuda:100"):
        kernel = through_rows[(1,)](
            *blocks, sources, targets, ROWS=rows, COLUMNS=columns, CGA=of_rows or cga, num_ctas=ctas, **settings
        )
    right = np.zeros_like(out)
    right[targets] = x[sources, 8:]
    np.testing.assert_array_equal(out, right)
    return assembled_text(kernel, 100)


@pytest.mark.parametrize("cga", [[[1, 0]], [[0, 1]], [[0, 0]], [[1, 0], [0, 0]], [[0, 1], [1, 0]]])
@pytest.mark.parametrize("multicast", [False, True])
def test_each_cta_has_its_part_of_the_rows(cga: list[list[int]], multicast: bool) -> None:
    text = moved(cga, MULTICAST=multicast)
    assert (".multicast::cluster" in text) == (multicast and [0, 0] in cga)


def test_a_gather_that_nobody_waits_for() -> None:
    with pytest.raises(tilewright.SimulationError) as caught:
        moved([[0, 0]], MULTICAST=True, WAITS=False)
    assert caught.value.kind == "race"


def test_numbers_of_rows_that_other_ctas_have() -> None:
    with pytest.raises(Unsupported, match="rows whose numbers other blocks") as caught:
        moved([[1, 0]], of_rows=[[0, 0]])
    assert "tma.async_gather(source" in str(caught.value)
