"""Programs that take over the work of others which have not started (cluster launch control), on a simulated sm_100."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import clc
from tilewright.language.gluon.nvidia.hopper import mbarrier

BLOCK = 128


@gluon.jit
def squares(out, counts, BLOCK: gl.constexpr, AGAIN: gl.constexpr):
    """Each program squares its block, and those of programs that will not start; `counts`: of how many."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    program, count, phase, more = gl.program_id(0), 0, 0, True
    while more:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        at = program * BLOCK + gl.arange(0, BLOCK, layout=layout)
        gl.store(out + at, at * at)
        count += 1
        mbarrier.wait(bar, phase)
        phase = phase ^ 1
        found = clc.load_result(answer)
        more = found.is_canceled()
        program = gl.where(more, found.program_id(0), program)
    gl.store(counts + gl.program_id(0), count)
    if AGAIN:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        mbarrier.wait(bar, phase)
    mbarrier.invalidate(bar)


def squared(programs: int, *, again: bool = False, target: str = "cuda:100") -> list[int]:
    """The number of blocks that each program has done."""
    out, counts = np.zeros(programs * BLOCK, np.int32), np.zeros(programs, np.int32)
    with tw.simulate(target):
        squares[(programs,)](out, counts, BLOCK=BLOCK, AGAIN=again)
    assert (out == np.arange(programs * BLOCK) ** 2).all()
    return [int(count) for count in counts]


@pytest.mark.parametrize("programs", [1, 2, 7, 16])
def test_every_block_is_done_once(programs: int) -> None:
    """A quarter of the programs start at once and do all the work; nobody else runs."""
    counts, started = squared(programs), -(-programs // 4)
    assert sum(counts) == programs
    assert all(counts[:started])
    assert not any(counts[started:])


def test_who_has_seen_that_nothing_is_left_may_not_ask_again() -> None:
    with pytest.raises(tw.SimulationError, match="has seen that nothing is left"):
        squared(2, again=True)


def test_older_devices_do_not_have_it() -> None:
    with pytest.raises(tw.CompilationError, match="from sm_100 on"):
        squared(2, target="cuda:90")
