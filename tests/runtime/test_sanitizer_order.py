"""Programs that atomics put in order, in the ways that kernels do it, are no races; nearly the same without order are.

Everything runs on one thread and on two: on one the verdict is exact, on two no order may be missed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

PROGRAMS = 150


@tw.jit
def wait_for(flag):
    while tl.atomic_add(flag, 0) == 0:
        pass


@tw.jit
def chain_kernel(x_ptr, sums_ptr, flags_ptr, ORDERED: tl.constexpr, BLOCK: tl.constexpr):
    """Program n waits for program n - 1 only, and reads what all before it wrote."""
    program, lane = tl.program_id(0), tl.arange(0, BLOCK)
    if ORDERED and program > 0:
        wait_for(flags_ptr + program - 1)
    tl.store(sums_ptr + program, tl.sum(tl.load(x_ptr + lane, mask=lane < program, other=0), axis=0))
    tl.store(x_ptr + program, 1)
    tl.atomic_xchg(flags_ptr + program, 1)


@tw.jit
def ticket_kernel(x_ptr, tickets_ptr, ROUNDS: tl.constexpr):
    """A lock that is given out in order, taken several times by each program."""
    for _ in range(ROUNDS):
        ticket = tl.atomic_add(tickets_ptr, 1)
        while tl.atomic_add(tickets_ptr + 1, 0) != ticket:
            pass
        tl.store(x_ptr, tl.load(x_ptr) + 1)
        tl.atomic_add(tickets_ptr + 1, 1)


@tw.jit
def first_initialises_kernel(x_ptr, out_ptr, states_ptr, BLOCK: tl.constexpr):
    """The first program fills a table, the others wait for it."""
    lane = tl.arange(0, BLOCK)
    if tl.atomic_cas(states_ptr, 0, 1) == 0:
        tl.store(x_ptr + lane, lane)
        tl.atomic_xchg(states_ptr, 2)
    while tl.atomic_add(states_ptr, 0) != 2:
        pass
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + lane), axis=0))


@tw.jit
def tile_of_flags_kernel(x_ptr, flags_ptr, out_ptr, ORDERED: tl.constexpr, BLOCK: tl.constexpr):
    """The last program reads flags of all others by one atomic, until all are there."""
    program, lane = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(x_ptr + program, program)
    tl.atomic_xchg(flags_ptr + program, 1, sem="release" if ORDERED else "relaxed")
    if program == BLOCK - 1:
        while tl.sum(tl.atomic_add(flags_ptr + lane, tl.zeros((BLOCK,), tl.int32)), axis=0) < BLOCK:
            pass
        tl.store(out_ptr, tl.sum(tl.load(x_ptr + lane), axis=0))


@tw.jit
def after_release_kernel(x_ptr, lock_ptr):
    """The second store stands behind the release."""
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(x_ptr, 1)
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(x_ptr + 1, 1)


@tw.jit
def reads_of_others_kernel(x_ptr, lock_ptr):
    """All read under the lock; the last program writes without it."""
    if tl.program_id(0) < tl.num_programs(0) - 1:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        tl.store(x_ptr + 1 + tl.program_id(0), tl.load(x_ptr))
        tl.atomic_xchg(lock_ptr, 0)
    else:
        tl.store(x_ptr, 1)


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"sanitize": "bounds,races,uninit", "num_threads": request.param}


@pytest.mark.slow
def test_order_goes_through_chains(options: dict[str, Any]) -> None:
    x, sums = zeros(PROGRAMS), zeros(PROGRAMS)
    chain_kernel[(PROGRAMS,)](x, sums, zeros(PROGRAMS), ORDERED=True, BLOCK=256, **options)
    assert np.array_equal(sums, np.arange(PROGRAMS))


def test_the_same_without_waiting_is_a_race() -> None:
    with pytest.raises(tw.SanitizerError) as caught:
        chain_kernel[(PROGRAMS,)](
            zeros(PROGRAMS), zeros(PROGRAMS), zeros(PROGRAMS), ORDERED=False, BLOCK=256, sanitize="races", num_threads=1
        )
    (finding,) = caught.value.findings
    assert (finding.access.kind, finding.access.program, finding.element) == ("load", (1, 0, 0), (0,))


def test_ticket_locks(options: dict[str, Any]) -> None:
    x = zeros(1)
    ticket_kernel[(PROGRAMS,)](x, zeros(2), ROUNDS=7, **options)
    assert x[0] == 7 * PROGRAMS


@pytest.mark.spared
def test_the_first_initialises(options: dict[str, Any]) -> None:
    out = zeros(PROGRAMS)
    first_initialises_kernel[(PROGRAMS,)](zeros(32), out, zeros(1), BLOCK=32, **options)
    assert (out == 31 * 16).all()


def test_atomics_on_tiles_order_too(options: dict[str, Any]) -> None:
    out = zeros(1)
    tile_of_flags_kernel[(128,)](zeros(128), zeros(128), out, ORDERED=True, BLOCK=128, **options)
    assert out[0] == 127 * 64


@pytest.mark.spared
def test_relaxed_atomics_order_nothing() -> None:
    with pytest.raises(tw.SanitizerError) as caught:
        tile_of_flags_kernel[(128,)](
            zeros(128), zeros(128), zeros(1), ORDERED=False, BLOCK=128, sanitize="races", num_threads=1
        )
    assert [finding.access.kind for finding in caught.value.findings] == ["load"]


def test_what_stands_behind_the_release_is_not_ordered() -> None:
    with pytest.raises(tw.SanitizerError) as caught:
        after_release_kernel[(3,)](zeros(2), zeros(1), sanitize="races", num_threads=1)
    assert [finding.element for finding in caught.value.findings] == [(1,)]


def test_a_writer_without_the_lock() -> None:
    with pytest.raises(tw.SanitizerError) as caught:
        reads_of_others_kernel[(4,)](zeros(4), zeros(1), sanitize="races", num_threads=1)
    (finding,) = caught.value.findings
    assert (finding.access.kind, finding.access.program) == ("store", (3, 0, 0))
