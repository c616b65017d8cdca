"""Programs that take over the work of others which have not started (cluster launch control), on a simulated sm_100."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import clc
from tilewright.language.gluon.nvidia.hopper import cluster, mbarrier

BLOCK = 128


@gluon.jit
def squares(out, counts, BLOCK: gl.constexpr, AGAIN: gl.constexpr, MEETS: gl.constexpr):
    """Each program squares its block, and those of programs that will not start; `counts`: of how many."""
    parts: gl.constexpr = ((1,), (2,))[: gl.num_ctas().bit_length() - 1]
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=parts)
    same: gl.constexpr = [[0]] * (gl.num_ctas().bit_length() - 1)
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=same))
    bar = mbarrier.allocate_mbarrier()
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
        if MEETS:
            cluster.barrier()
    gl.store(counts + gl.program_id(0), count)
    if AGAIN:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        mbarrier.wait(bar, phase)
    mbarrier.invalidate(bar)


def squared(
    programs: int, *, again: bool = False, target: str = "cuda:100", ctas: int = 1, meets: bool = True
) -> list[int]:
    """The number of blocks that each program has done."""
    out, counts = np.zeros(programs * BLOCK, np.int32), np.zeros(programs, np.int32)
    with tw.simulate(target):
        squares[(programs,)](out, counts, BLOCK=BLOCK, AGAIN=again, MEETS=meets and ctas > 1, num_ctas=ctas)
    assert (out == np.arange(programs * BLOCK) ** 2).all()
    return [int(count) for count in counts]


@pytest.mark.parametrize("programs", [1, 2, 7, 16])
def test_every_block_is_done_once(programs: int) -> None:
    """A quarter of the programs start at once and do all the work; nobody else runs."""
    counts, started = squared(programs), -(-programs // 4)
    assert sum(counts) == programs
    assert all(counts[:started])
    assert not any(counts[started:])


@pytest.mark.parametrize("ctas", [2, 4])
@pytest.mark.parametrize("programs", [1, 6])
def test_clusters_take_over_the_work_of_clusters(programs: int, ctas: int) -> None:
    """All CTAs of a cluster get the answer to one question."""
    counts = squared(programs, ctas=ctas)
    assert sum(counts) == programs
    assert counts[0] > (programs > 1)


def test_a_cluster_asks_while_one_of_its_ctas_may_still_read_the_answer() -> None:
    with pytest.raises(tw.SimulationError, match="store to shared memory that warp 4 has read"):
        squared(6, ctas=2, meets=False)


def test_who_has_seen_that_nothing_is_left_may_not_ask_again() -> None:
    with pytest.raises(tw.SimulationError, match="has seen that nothing is left"):
        squared(2, again=True)


def test_older_devices_do_not_have_it() -> None:
    with pytest.raises(tw.CompilationError, match="clusterlaunchcontrol is on sm_100 and later"):
        squared(2, target="cuda:90")


@gluon.jit
def two_questions_at_once(layout: gl.constexpr):
    answer = gl.allocate_shared_memory(gl.int64, [2], layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.expect(bars.index(i), 16)
        clc.try_cancel(answer, bars.index(i))
    for i in gl.static_range(2):
        mbarrier.wait(bars.index(i), 0)
        mbarrier.invalidate(bars.index(i))


def test_two_answers_may_come_to_one_place_if_they_are_the_same() -> None:
    """One program alone is told twice that nothing is left; with three more, one answer would be lost."""
    layout = gl.SwizzledSharedLayout(1, 1, 1, [0])
    with tw.simulate("cuda:100"):
        two_questions_at_once[(1,)](layout)
        with pytest.raises(tw.SimulationError, match="store to shared memory that an asynchronous copy is writing"):
            two_questions_at_once[(4,)](layout)
