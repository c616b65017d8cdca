"""Sorting networks in registers: what they compute, which steps become one, and which are left alone."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from networks_in_numpy import sorted_by_steps

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.network.schedule import Ordering, Renaming, Step, Trade, passes_for


@tw.jit
def sorted_rows(x, out, R: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DESCENDING))


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few different numbers, all extremes, zeros of both signs, NaN of several payloads."""
    rng = np.random.default_rng(shape[-1])
    if np.dtype(dtype).kind != "f":
        info = np.iinfo(dtype)
        return rng.choice(np.array([info.min, info.max, 0, 1, 2, info.max // 2 + 1], dtype), shape)
    x = rng.choice(np.array([-np.inf, -2, -0.0, 0.0, 1, 3, np.inf, np.nan], dtype), shape)
    bits = x.view(f"u{x.itemsize}")
    bits[np.isnan(x)] += rng.integers(0, 99, np.isnan(x).sum()).astype(bits.dtype)
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("shape", [(1, 64), (8, 16), (2, 256), (1, 512)])
def test_every_bit_is_where_the_steps_leave_it(shape: tuple[int, int], dtype: str, descending: bool) -> None:
    x = drawn(shape, dtype)
    out = np.zeros_like(x)
    kernel = sorted_rows[(1,)](x, out, *shape, descending)
    expected = np.stack([sorted_by_steps(row, descending) for row in x])
    bits = f"u{x.itemsize}"
    np.testing.assert_array_equal(out.view(bits), expected.view(bits))
    if x.nbytes > 64:  # the widest vector
        assert networks_of(kernel) == 1


def networks_of(kernel: Any) -> int:
    return str(kernel.asm["ttcir"]).count('"cpu.network"')


@tw.jit
def step(x, i, DISTANCE: tl.constexpr, TURN: tl.constexpr, HOW: tl.constexpr = ""):
    partner = tl.gather(x, i ^ DISTANCE, 0)
    larger, smaller = tl.where(partner > x, partner, x), tl.where(partner < x, partner, x)
    if HOW == "or equal":
        larger = tl.where(partner >= x, partner, x)
    if HOW == "both smaller":
        larger = smaller
    if HOW == "swapped":
        larger, smaller = tl.where(partner > x, x, partner), tl.where(partner < x, x, partner)
    wants_larger = ((i & DISTANCE) != 0) ^ ((i & TURN) != 0)
    if HOW == "any":
        wants_larger = (i & (DISTANCE | TURN)) != 0
    if HOW == "two bits":
        wants_larger = ((i & DISTANCE) != 0) ^ ((i & TURN) != 0) ^ ((i & 32) != 0)
    if HOW == "no partner":
        wants_larger = (i & TURN) != 0
    if HOW == "compared":
        wants_larger = (i > 7) ^ ((i & TURN) != 0)
    return tl.where(wants_larger, larger, smaller)


@tw.jit
def three_steps(x, out, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = step(a, i, 1, 2, HOW)
    c = step(b, i, 2, 4, HOW)
    d = step(c, i, 3 if HOW == "far" else 1, 4, HOW)
    if HOW == "seen between":
        d = d + c
    tl.store(out + i, d)


def three_steps_of(x: np.ndarray, how: str) -> np.ndarray:
    i, c = np.arange(len(x)), x
    for distance, turn in ((1, 2), (2, 4), (3 if how == "far" else 1, 4)):
        before, partner = x, x[i ^ distance]
        larger, smaller = np.maximum(x, partner), np.minimum(x, partner)
        if how == "both smaller":
            larger = smaller
        if how == "swapped":
            larger, smaller = smaller, larger
        wants_larger = ((i & distance) != 0) ^ ((i & turn) != 0)
        if how == "any":
            wants_larger = (i & (distance | turn)) != 0
        if how == "two bits":
            wants_larger ^= (i & 32) != 0
        if how == "no partner":
            wants_larger = (i & turn) != 0
        if how == "compared":
            wants_larger = (i > 7) ^ ((i & turn) != 0)
        c, x = before, np.where(wants_larger, larger, smaller)
    return x + c if how == "seen between" else x


OTHERS = ["or equal", "both smaller", "swapped", "any", "two bits", "no partner", "compared", "far", "seen between"]


@pytest.mark.parametrize("how", ["", *OTHERS])
def test_only_steps_of_sorts_are_a_network(how: str) -> None:
    """Other steps compute what they say, and stay as they are."""
    x = np.random.default_rng(5).permutation(256).astype(np.int32)
    out = np.zeros_like(x)
    kernel = three_steps[(1,)](x, out, 256, how)
    np.testing.assert_array_equal(out, three_steps_of(x, how))
    assert networks_of(kernel) == (not how)


@tw.jit
def sorted_in_a_loop(x, out, turns, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    for turn in range(turns):
        value = tl.sort(value * (i + turn))
        tl.store(x + i, value)
    tl.store(out + i, tl.load(x + i) + tl.sort(value, descending=True))


def test_buffers_of_loops_are_filled_anew() -> None:
    x = np.random.default_rng(1).integers(-9, 9, 128).astype(np.int32)
    given, out, expected = x.copy(), np.zeros_like(x), x
    sorted_in_a_loop[(1,)](given, out, 3, 128)
    for turn in range(3):
        expected = np.sort(expected * (np.arange(128, dtype=np.int32) + turn))
    np.testing.assert_array_equal(given, expected)
    np.testing.assert_array_equal(out, expected + expected[::-1])


@tw.jit
def sorted_anew(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    rising = tl.sort(tl.load(x + i))
    falling = tl.sort(rising, descending=True)
    tl.store(out + i, rising)
    tl.store(out + N + i, falling)
    tl.store(out + 2 * N + i, tl.sort(falling + i * 3))


def test_what_one_network_orders_another_orders_anew() -> None:
    """The second network reads what the first one leaves, not the steps that it stands for."""
    x = np.random.default_rng(3).permutation(64).astype(np.int32)
    out = np.zeros(3 * 64, np.int32)
    kernel = sorted_anew[(1,)](x, out, 64)
    falling = np.sort(x)[::-1]
    np.testing.assert_array_equal(out, [*np.sort(x), *falling, *np.sort(falling + np.arange(64) * 3)])
    assert networks_of(kernel) == 3


@tw.jit
def by_sums_of_sums(x, out, N: tl.constexpr, ITERATIONS: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    before, wants_larger = (i & 1) != 0, (i & 2) != 0
    first, partners = i, value & 1
    for _ in tl.static_range(ITERATIONS):
        before, wants_larger = wants_larger, before ^ wants_larger
        first, partners = partners, first ^ partners
    partner = tl.gather(value, i ^ 1, 0)
    larger, smaller = tl.where(partner > value, partner, value), tl.where(partner < value, partner, value)
    tl.store(out + i, tl.where(wants_larger, larger, smaller) + tl.gather(value, partners, 0))


def test_each_sum_of_two_is_looked_at_few_times() -> None:
    """XORs of the two before, as Fibonacci's numbers are sums: looking at both of each takes 2 ** 25 looks."""
    x, turns = np.random.default_rng(4).integers(-99, 99, 64).astype(np.int32), 36
    out, i = np.zeros_like(x), np.arange(64)
    start = process_time()
    by_sums_of_sums[(1,)](x, out, 64, turns)
    assert process_time() - start < 20
    before, wants_larger, first, partners = i & 1, i >> 1 & 1, i, x & 1
    for _ in range(turns):
        before, wants_larger, first, partners = wants_larger, before ^ wants_larger, partners, first ^ partners
    ordered = np.where(wants_larger, np.maximum(x, x[i ^ 1]), np.minimum(x, x[i ^ 1]))
    np.testing.assert_array_equal(out, ordered + x[partners])


@pytest.mark.parametrize("lane_bits", [1, 2, 4, 6])
@pytest.mark.parametrize("vector_bits", [2, 3, 5])
def test_any_steps_in_any_order(lane_bits: int, vector_bits: int) -> None:
    """Passes on the numbers of places compare the partners of every step, and bring every number home."""
    rng, bits = np.random.default_rng(lane_bits), lane_bits + vector_bits
    for _ in range(20):
        drawn = [rng.choice(bits, 2, replace=False) for _ in range(30)]
        steps = [Step(int(bit), int(turn) if rng.random() < 0.7 else None, rng.random() < 0.5) for bit, turn in drawn]
        at, done = list(range(bits)), []
        for one in passes_for(steps, bits=bits, lane_bits=lane_bits, word_bits=min(2, lane_bits), most=3):
            assert len(set(one.slots)) == len(one.slots) <= 3
            assert all(slot >= lane_bits for slot in one.slots)
            for move in one.moves:
                if isinstance(move, Ordering):
                    assert {move.bit, move.direction_bit} - {None} <= set(one.slots)
                    direction_bit = None if move.direction_bit is None else at[move.direction_bit]
                    done.append(Step(at[move.bit], direction_bit, move.is_descending))
                elif isinstance(move, Renaming):
                    assert {move.a, move.b} <= set(one.slots)
                    at[move.a], at[move.b] = at[move.b], at[move.a]
                else:
                    kept = [place for place in range(lane_bits, bits) if place != move.slot]
                    assert move.slot in one.slots
                    assert list(move.before) == at
                    assert sorted(move.after) == sorted(at)
                    assert all(move.after[place] == at[place] for place in kept)
                    at = list(move.after)
        assert done == steps
        assert at == list(range(bits))


def test_lanes_trade_places_with_what_is_needed_last() -> None:
    """A bitonic sort of 128 elements in vectors of 16: any other choice takes more shuffles."""
    steps = [Step(bit, stage + 1 if stage < 6 else None, False) for stage in range(7) for bit in range(stage, -1, -1)]
    (only,) = passes_for(steps, bits=7, lane_bits=4, word_bits=2, most=3)
    assert sum(isinstance(move, Trade) for move in only.moves) == 23
