"""Index arithmetic: what wraps, what is narrowed or widened, masks, remainders, fast versions that do not apply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, jit, random_numbers

import tilewright.language as tl


def floats(*shape: int, seed: int = 0) -> Any:
    return random_numbers(np.float32, shape, seed)


@jit
def known_numbers(out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, i.to(tl.int8).to(tl.int32))
    tl.store(out + B + i, (i * 3).to(tl.int8).to(tl.int64).to(tl.int32))
    tl.store(out + 2 * B + i, i.to(tl.uint8).to(tl.int32))
    tl.store(out + 3 * B + i, (i - 5).to(tl.uint16).to(tl.int32))
    tl.store(out + 4 * B + i, tl.where(i.to(tl.int8) < 3, 1, 0))
    tl.store(out + 5 * B + i, ((i * 1664525 + 1013904223).to(tl.int64) >> 8).to(tl.int32))
    tl.store(out + 6 * B + i, ((i - 7).to(tl.uint32).to(tl.int64) >> 8).to(tl.int32))
    tl.store(out + 7 * B + i, i * 1664525 * 1664525)


def test_numbers_that_wrap() -> None:
    agree(known_numbers, np.zeros(8 * 512, np.int32), B=512)


@jit
def seeded_numbers(out, seed, B: tl.constexpr):
    place = tl.arange(0, B)
    i = place + seed
    tl.store(out + place, i.to(tl.int8).to(tl.int32))
    tl.store(out + B + place, (i * 1664525 + 1013904223).to(tl.int64))
    tl.store(out + 2 * B + place, (i * seed * seed).to(tl.int64))
    tl.store(out + 3 * B + place, (i - 7).to(tl.uint32).to(tl.int64))


@pytest.mark.parametrize("seed", [0, 5, 77777, -3])
def test_numbers_that_wrap_at_run_time(seed: int) -> None:
    agree(seeded_numbers, np.zeros(4 * 512, np.int64), seed, B=512)


@jit
def masked_in_every_way(x, out, places, n, low, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if KIND == "below":
        mask = i < n
    elif KIND == "mirrored":
        mask = n >= i
    elif KIND == "from":
        mask = i >= low
    elif KIND == "between":
        mask = (i > low) & (i <= n)
    elif KIND == "unsigned":
        mask = i.to(tl.uint32) < n.to(tl.uint32)
    elif KIND == "unsigned, shifted":
        mask = (i - 3).to(tl.uint32) <= n.to(tl.uint32)
    elif KIND == "either":
        mask = (i < n) | (i > low)
    else:
        mask = (i != n) & (i < n + 5) & (low < 3)
    tl.store(out + i, tl.load(x + i, mask=mask, other=-9))
    tl.store(places + i, i, mask=mask)


KINDS = ("below", "mirrored", "from", "between", "unsigned", "unsigned, shifted", "either", "not")


@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind: str) -> None:
    for n in (-5, 0, 1, 100, 255, 256, 1000, 2**31 - 1, -(2**31)):
        for low in (-1, 7, 300):
            out, places = np.zeros(1024, np.float32), np.full(1024, -1, np.int32)
            agree(masked_in_every_way, floats(1024), out, places, n, low, KIND=kind, B=256, grid=(4,))


@jit
def wrapped_around(x, out, width, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i % width) + i // width, mask=i < n)
    negative = (i - n) % width
    tl.store(out + n + i, tl.load(x + negative * (negative > 0)), mask=i < n)


@pytest.mark.parametrize("width", [1, 3, 7, 64, 100, 255, 256, 1000, 5000])
def test_remainders(width: int) -> None:
    agree(wrapped_around, floats(5000), floats(2048, seed=1), width, 1000, B=256, grid=(4,))


@jit
def divided(x, out, divisor, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i) / divisor)


DIVISORS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e-40, 2.0**-126, 2.0**126, 3e38, 3.0, 1.0)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_divisors(divisor: float) -> None:
    x = random_numbers(np.float32, 64, special=True)
    x[:4] = [3e38, 1e-42, -1e-45, 1e38]
    agree(divided, x, np.zeros(64, np.float32), float(divisor), B=64)


@jit
def shares(x, out, M: tl.constexpr, N: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + places)
    tl.store(out + places, tile / tl.sum(tile, 1)[:, None])


def test_divisors_of_rows() -> None:
    x = floats(8, 64)
    x[0], x[1, 3], x[2, 5], x[3], x[4] = 0, np.nan, np.inf, 1e-44, 3e38 / 64
    agree(shares, x, np.zeros_like(x), M=8, N=64)


@jit
def far_apart(x, out, stride, B: tl.constexpr):
    i = tl.arange(0, B).to(tl.int64)
    tl.store(out + i, tl.load(x + i * stride - i * stride + i))
    tl.store(out + B + i, (i * stride).to(tl.float32))


def test_offsets_of_64_bits() -> None:
    agree(far_apart, floats(64), np.zeros(128, np.float32), 2**33 + 7, B=64)


@jit
def as_other_numbers(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    source = (x + i).to(tl.pointer_type(tl.int32), bitcast=True)
    target = (out + i).to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(target, tl.load(source) + 1)


def test_pointers_to_another_type() -> None:
    x = floats(100)
    agree(as_other_numbers, x, np.zeros(64, np.float32), B=64)
    agree(as_other_numbers, x[3:], x[5:], B=64)


@jit
def chosen_pointers(x, y, out, n, width, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(tl.where(i % 3 == 0, x + i, y + i * 2)))
    tl.store(tl.where(i % 3 == 1, out + B + i, out + 2 * B + i), i.to(tl.float32))
    place, total = x + i, tl.zeros([B], tl.float32)
    for step in range(n):
        total += tl.load(place)
        place += tl.where(i % 2 == 0, width, 1)
        place += step
    tl.store(out + 3 * B + i, total + tl.load(place))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_tiles_of_pointers(n: int) -> None:
    agree(chosen_pointers, floats(1000), floats(128, seed=1), np.zeros(256, np.float32), n, 17, B=64)
