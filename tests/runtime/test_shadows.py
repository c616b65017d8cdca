"""Shadow memory: what is kept from launch to launch, and which arguments share it."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.runtime import sanitizer
from tilewright.runtime.extents import Extent
from tilewright.runtime.sanitizer import FIRST, LARGEST, _Pool, _regions


def test_the_smallest_free_plane_that_fits_is_taken() -> None:
    pool = _Pool()
    planes = [np.zeros(count, np.int32) for count in (100, 10, 50)]
    pool.give_back(planes, pool.generation)
    assert [plane.size for plane in pool.free] == [10, 50, 100]
    assert pool.take(50) is planes[2]
    assert pool.take(50) is planes[0]
    assert pool.take(11).size == 11
    assert pool.take(10) is planes[1]
    assert pool.free == []


def test_only_so_many_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest planes go first; what one launch of usual size needs is kept."""
    pool = _Pool()
    pool.give_back([np.zeros(1 << 20, np.int32)] * 3, pool.generation)
    assert len(pool.free) == 3
    monkeypatch.setattr(sanitizer, "KEPT_BYTES", 400)
    pool.free = []
    pool.give_back([np.zeros(count, np.int32) for count in (60, 40, 1)], pool.generation)
    assert [plane.size for plane in pool.free] == [1, 40]
    pool.give_back([np.zeros(59, np.int32)], pool.generation)
    assert [plane.size for plane in pool.free] == [1, 40, 59]


def test_stamps_are_new_until_they_run_out() -> None:
    pool = _Pool()
    assert pool.stamps(10) == (FIRST, 0)
    assert pool.stamps(5) == (FIRST + 10, 0)
    kept = np.zeros(4, np.int32)
    pool.give_back([kept], 0)
    pool.next = LARGEST - 7
    assert pool.stamps(7) == (LARGEST - 7, 0)
    assert pool.free == [kept]
    assert pool.stamps(1) == (FIRST, 1)
    assert pool.free == []
    pool.give_back([kept], 0)  # of the generation before: its stamps may be larger than new ones
    assert pool.free == []


@pytest.mark.quick
@pytest.mark.parametrize(
    ("ends", "groups"),
    [
        ([(0, 8), (8, 16)], [[0], [1]]),
        ([(0, 9), (8, 16)], [[0, 1]]),
        ([(20, 30), (0, 25), (26, 28), (30, 31)], [[1, 0, 2], [3]]),
        ([(0, 100), (10, 20), (50, 60)], [[0, 1, 2]]),
        ([(5, 5), (0, 10)], [[1]]),
        ([], []),
    ],
)
def test_arguments_that_share_memory(ends: list[tuple[int, int]], groups: list[list[int]]) -> None:
    extents = {n: Extent(f"x{n}", low, low, high, 1, (high - low,), (1,)) for n, (low, high) in enumerate(ends)}
    assert _regions(extents) == groups
