"""The pool on up to 64 cores, as a model with measured costs says: nobody has such a machine here."""

from __future__ import annotations

import pytest
from scheduler_model import Costs, elapsed, sizes, speed_up

from tilewright.runtime.drivers.cpu.native.pool import EVENLY, GRADUALLY, SINGLY

pytestmark = pytest.mark.quick

CORES = (2, 3, 4, 8, 16, 32, 48, 64)


def best(total: int, threads: int) -> float:
    """The speed-up of equal programs if nothing but themselves took time."""
    return total / -(-total // threads)


@pytest.mark.parametrize("division", [GRADUALLY, EVENLY, SINGLY])
@pytest.mark.parametrize("threads", CORES)
def test_each_program_runs_once(threads: int, division: int) -> None:
    for total in (2, threads - 1, threads, threads + 1, 1000, 4096):
        ran = list[int]()

        def work(program: int, ran: list[int] = ran) -> float:
            ran.append(program)
            return 1.0

        elapsed(total, work, threads, division=division)
        assert sorted(ran) == list(range(total))


@pytest.mark.parametrize("threads", CORES)
@pytest.mark.parametrize(("total", "each"), [(64, 310.0), (256, 80.0)])
def test_a_large_product_scales(total: int, each: float, threads: int) -> None:
    """1024³ in tiles of 128 × 128 and of 64 × 64, by awake threads."""
    assert speed_up(total, lambda _: each, threads) >= 0.93 * best(total, threads)


@pytest.mark.parametrize("threads", CORES)
def test_causal_attention_scales(threads: int) -> None:
    """The last of 16 blocks of each of 32 heads takes 16 times as long as the first one."""
    def work(program: int) -> float:
        return 12.0 * (program % 16 + 1)

    assert speed_up(512, work, threads) >= 0.8 * threads


@pytest.mark.parametrize("threads", CORES)
def test_a_short_launch_gains_as_far_as_programs_reach(threads: int) -> None:
    """64 programs of 1 µs: handing over takes as long as one of them."""
    gained = speed_up(64, lambda _: 1.0, threads, division=EVENLY)
    assert gained >= min(0.75 * threads, 4.5)  # most with 16 threads: 9


@pytest.mark.parametrize("threads", CORES)
def test_memory_is_the_limit_of_a_copy(threads: int) -> None:
    costs = Costs()
    gained = speed_up(10_000, lambda _: 0.1, threads, moved=12 << 10)
    limit = min(threads, costs.socket / costs.core)
    assert 0.89 * limit <= gained <= limit


@pytest.mark.parametrize("threads", CORES)
def test_waking_costs_no_more_than_it_gains(threads: int) -> None:
    """From 50 µs on, as `_COLD_MICROSECONDS` has it, sleeping threads are woken by launches of 64 programs."""
    gains = {work: speed_up(64, lambda _, each=work / 64: each, threads, asleep=True) for work in (50.0, 1e3, 1e5)}
    assert gains[1e3] > 1
    assert gains[1e5] >= 0.9 * best(64, threads)
    assert gains[50.0] > 0.55  # the launch that wakes 63 threads pays for the ones behind it


def test_claims_stay_cheap_if_a_line_takes_three_times_as_long() -> None:
    slow = Costs(line=0.3)
    assert speed_up(4096, lambda _: 5.0, 64, costs=slow) >= 0.85 * 64


def test_one_by_one_would_not_do() -> None:
    """4096 programs of a microsecond: 64 cores wait for the counter if each claims one at a time."""
    together, singly = (elapsed(4096, lambda _: 1.0, 64, division=division) for division in (GRADUALLY, SINGLY))
    assert together < singly / 3


def test_chunks_are_those_of_the_pool() -> None:
    assert sizes(1000, 4, GRADUALLY) == (125, 31)
    assert sizes(1000, 4, EVENLY) == (250, 31)
    assert sizes(1000, 4, SINGLY) == (1, 1)
