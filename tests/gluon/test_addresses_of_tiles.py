"""Places of elements times numbers: one address serves a thread, and no product is another one than the program's."""

from __future__ import annotations

import re

import gluon_programs as programs
import numpy as np
import pytest
from descriptors import aligned

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl

STORED_AT = re.compile(r"st\.global\S* \[ ?(%rd\d+)")
RANDOM = np.random.default_rng(7)


def test_a_thread_stores_its_part_of_a_product_at_one_address() -> None:
    """Bits of the row lie on both sides of one that counts warps, so LLVM by itself takes rows for three addresses."""
    a, b, c = (aligned(shape, dtype) for shape, dtype in [((64, 32), "f2"), ((32, 64), "f2"), ((64, 64), "f4")])
    a[...], b[...] = RANDOM.integers(-4, 5, a.shape), RANDOM.integers(-4, 5, b.shape)
    with tilewright.simulate("cuda:80"):
        kernel = programs.product_by_warps[(1,)](a, b, c, M=64, N=64, K=32)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert len(set(STORED_AT.findall(kernel.asm["ptx"]))) == 1


@gluon.jit
def multiples(out, FACTOR: gl.constexpr, WIDE: gl.constexpr):
    places = gl.arange(0, 1024, layout=gl.BlockedLayout([2], [32], [4], [0]))
    first = places.to(gl.int64) if WIDE else places
    gl.store(out + places, first * FACTOR)


@pytest.mark.parametrize("factor", [3, -5, 2**30 + 1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("wide", [False, True])
def test_multiples_of_places_wrap_around_as_the_program_says(factor: int, wide: bool) -> None:
    out = aligned((1024,), np.int64 if wide else np.int32)
    with tilewright.simulate("cuda:80"):
        multiples[(1,)](out, FACTOR=factor, WIDE=wide)
    np.testing.assert_array_equal(out, (np.arange(1024) * factor).astype(out.dtype))
