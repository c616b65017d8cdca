"""The memory that arrays cover, for views of every kind."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from tilewright.runtime.arrays import view_of
from tilewright.runtime.extents import Extent, extent_of, storage_of


def extent_of_array(array: Any) -> Extent:
    view = view_of(array)
    assert view is not None
    extent = extent_of("x", view)
    assert extent is not None
    return extent


def random_view(rng: random.Random, memory: np.ndarray) -> np.ndarray:
    """Slices with steps of either sign, axes in any order, new ones, and ones of step 0."""
    view = memory
    for axis in range(memory.ndim):
        step = rng.choice([-3, -2, -1, 1, 1, 2, 5])
        begin, end = sorted(rng.sample(range(memory.shape[axis] + 1), 2))
        part = slice(begin, end, step) if step > 0 else slice(end - 1, begin - 1 if begin else None, step)
        view = view[(slice(None),) * axis + (part,)]
    view = view.transpose(rng.sample(range(view.ndim), view.ndim))
    if rng.random() < 0.3:
        view = np.broadcast_to(view[..., :1], (*view.shape[:-1], 4))
    return view[..., 0] if rng.random() < 0.2 else view


@pytest.mark.parametrize("seed", range(200))
def test_extents_of_views(seed: int) -> None:
    rng = random.Random(seed)
    memory = np.zeros(rng.choice([(24,), (5, 7), (3, 4, 6)]), rng.choice([np.int8, np.float32, np.float64]))
    view = random_view(rng, memory)
    extent = extent_of_array(view)
    begin = view.__array_interface__["data"][0]
    addresses = {
        begin + sum(step * place for step, place in zip(view.strides, index, strict=True)): index
        for index in product(*map(range, view.shape))
    }
    assert (extent.start, extent.low) == (begin, min(addresses, default=begin))
    assert extent.high == max(addresses, default=begin - view.itemsize) + view.itemsize
    if view.size == len(addresses) > 1:
        assert {address: extent.element_at(address) for address in addresses} == addresses


@pytest.mark.needs_torch
def test_extents_of_tensors_are_those_of_arrays() -> None:
    import torch

    memory = torch.zeros(6, 8)
    for view in (memory, memory.t()[2:5, ::3], memory[:, :1].expand(6, 4), memory[3], memory[0, 0]):
        assert extent_of_array(view) == extent_of_array(view.numpy())


def test_extents_of_foreign_arrays() -> None:
    class Interface:
        def __init__(self, array: np.ndarray) -> None:
            self.__array_interface__ = array.__array_interface__

    backwards = np.zeros((4, 6), np.float32)[::-1, ::2]
    assert extent_of_array(Interface(backwards)) == extent_of_array(backwards)


def storage_of_array(array: Any) -> tuple[int, int]:
    view = view_of(array)
    assert view is not None
    found = storage_of("x", view)
    assert found is not None
    return found.low, found.high


@pytest.mark.parametrize("seed", range(20))
def test_storages_of_views(seed: int) -> None:
    rng = random.Random(seed)
    memory = np.zeros((5, 7), np.float32)
    start = memory.ctypes.data
    view = random_view(rng, memory)[::-1] if seed % 2 else random_view(rng, memory)
    assert storage_of_array(view) == (start, start + memory.nbytes)
    assert storage_of_array(memory[2:2]) == (start, start + memory.nbytes)


@pytest.mark.needs_torch
def test_storages_of_tensors() -> None:
    import torch

    memory = torch.zeros(6, 8)
    start = memory.data_ptr()
    for view in (memory, memory.t()[2:5, ::3], memory[3], memory[0, 0], memory[2:2]):
        assert storage_of_array(view) == (start, start + 192)
