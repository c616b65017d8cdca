"""Programs that take turns by a lock are ordered; without it, the same code races."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def add_in_turn(data, lock, LOCKED: tl.constexpr):
    if LOCKED:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    places = data + tl.arange(0, 128)
    tl.store(places, tl.load(places) + 1.0)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.slow
@pytest.mark.parametrize("programs", [2, 9, 40])
def test_locked(programs: int) -> None:
    data, lock = np.zeros(128, np.float32), np.zeros(1, np.int32)
    with tw.simulate("cuda:80"):
        add_in_turn[(programs,)](data, lock, LOCKED=True)
    assert (data == programs).all()


@pytest.mark.slow
def test_unlocked() -> None:
    data, lock = np.zeros(128, np.float32), np.zeros(1, np.int32)
    with tw.simulate("cuda:80"), pytest.raises(tw.SimulationError, match="race"):
        add_in_turn[(2,)](data, lock, LOCKED=False)
