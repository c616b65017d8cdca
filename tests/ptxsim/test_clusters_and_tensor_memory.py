"""Shared memory of other CTAs, the barrier of a cluster, and tensor memory."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_programs import kernel_text
from ptx_programs import run as run_kernel

from tilewright.backends.ptxsim import SimulationError
from tilewright.backends.ptxsim.tensor_memory import places

PEER = """
mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
mov.u32 %r3, memory; shl.b32 %r4, %r0, 2; add.s32 %r3, %r3, %r4;
mad.lo.s32 %r4, %r1, 100, %r0; st.shared.b32 [%r3], %r4;
MEET
mapa.shared::cluster.u32 %r5, %r3, %r2; ld.shared::cluster.b32 %r6, [%r5]; getctarank.shared::cluster.u32 %r7, %r5;
mad.lo.s32 %r7, %r7, 1000, %r6;
MEET
mad.lo.s32 %r8, %r1, 32, %r0; mul.wide.u32 %d10, %r8, 4; add.s64 %d10, %d10, %d0; st.global.b32 [%d10], %r7;
"""
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def peers(meet: str = MEET, *, body: str = PEER) -> np.ndarray:
    text = kernel_text(body.replace("MEET", meet), 1, head=".extern .shared .align 16 .b8 memory[];")
    return run_kernel(text, np.zeros(64, np.int32), shared=256, grid=2, cluster=(2, 1, 1))[0]


def test_memory_of_the_other_cta() -> None:
    assert peers().tolist() == [*range(1100, 1132), *range(32)]


def test_the_rank_in_an_address() -> None:
    """Kernels name the memory of the first CTA of a pair by one bit less, which is faster than `mapa`."""
    body = PEER.replace("mapa.shared::cluster.u32 %r5, %r3, %r2;", "and.b32 %r5, %r3, 0xfeffffff;")
    assert peers(body=body).tolist() == [*range(32), *range(32)]


def test_a_cluster_meets_while_others_do_not() -> None:
    body = """mov.u32 %r9, %clusterid.x; setp.eq.u32 %p1, %r9, 1; @%p1 bra $end; MEET
    mad.lo.s32 %r8, %r9, 32, %r0; mul.wide.u32 %d10, %r8, 4; add.s64 %d10, %d10, %d0; st.global.b32 [%d10], 1; $end:"""
    text = kernel_text(body.replace("MEET", MEET), 1)
    found = run_kernel(text, np.zeros(96, np.int32), grid=6, cluster=(2, 1, 1), checks=False)[0]
    assert found.tolist() == [1] * 32 + [0] * 32 + [1] * 32


def test_without_the_barrier() -> None:
    with pytest.raises(SimulationError, match="no barrier between"):
        peers("")
    with pytest.raises(SimulationError, match="has not arrived"):
        peers("barrier.cluster.wait.aligned;")
    with pytest.raises(SimulationError, match="arrives twice"):
        peers("barrier.cluster.arrive.aligned;" * 2)


def test_ranks_outside_of_the_cluster() -> None:
    with pytest.raises(SimulationError, match="none of rank"):
        peers(body=PEER.replace("xor.b32 %r2, %r1, 1", "add.s32 %r2, %r1, 2"))


SEND = """
mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r0, 0;
shl.b32 %r3, %r0, 2; mad.lo.s32 %r4, %r1, 100, %r0; st.shared.b32 [%r3], %r4;
mov.b32 %r20, 4096; mov.b32 %r21, 1024; mov.b32 %r22, 0;
@%p1 mbarrier.init.shared::cta.b64 [%r20], 1; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], BYTES;
fence.proxy.async.shared::cta; MEET
mapa.shared::cluster.u32 %r23, %r21, %r2; mapa.shared::cluster.u32 %r24, %r20, %r2;
@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r23], [%r22], BYTES, [%r24];
CHANGE
$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra $wait;
ld.shared.b32 %r7, [%r3+1024]; mad.lo.s32 %r8, %r1, 32, %r0;
mul.wide.u32 %d10, %r8, 4; add.s64 %d10, %d10, %d0; st.global.b32 [%d10], %r7; MEET
"""


def sent(change: str = "", count: int = 128) -> np.ndarray:
    """The numbers that CTAs get which copy so many bytes to each other, and `change` something before it has come."""
    body = SEND.replace("MEET", MEET).replace("CHANGE", change).replace("BYTES", str(count))
    text = kernel_text(body, 1)
    return run_kernel(text, np.zeros(64, np.int32), shared=8192, grid=2, cluster=(2, 1, 1))[0]


def test_bytes_go_to_the_other_cta() -> None:
    assert sent().tolist() == [*range(100, 132), *range(32)]
    with pytest.raises(SimulationError, match="nothing has stored"):
        sent(count=64)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("st.shared.b32 [%r3], 0;", "still reads"),
        ("ld.shared.b32 %r7, [%r3+1024];", "is writing"),
        ("st.shared.b32 [%r3+1024], 0;", "is writing"),
        ("mad.lo.s32 %r23, %r0, 4, %r23; st.shared::cluster.b32 [%r23], 0;", "is writing"),
    ],
)
def test_bytes_on_their_way_are_left_alone(change: str, problem: str) -> None:
    with pytest.raises(SimulationError, match=problem):
        sent(change)


ALLOCATE = (
    "mov.b32 %r40, 0; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r40], 64; ld.shared.b32 %r41, [%r40];"
)
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r41, 64;"
SHAPES = (("32x32b", 4, 4), ("16x64b", 4, 4), ("16x128b", 2, 4), ("16x256b", 1, 4))


def stored(body: str, registers: int = 4) -> np.ndarray:
    """%r10, … behind `body`, by lane; before it they hold 100 * lane + number."""
    start = "".join(f"mad.lo.s32 %r{10 + number}, %r0, 100, {number};" for number in range(registers))
    out = "".join(f"st.global.b32 [%d10+{4 * number}], %r{10 + number};" for number in range(registers))
    place = f"mul.wide.u32 %d10, %r0, {4 * registers}; add.s64 %d10, %d10, %d0;"
    text = kernel_text(start + body + place + out, 1).replace("sm_90a", "sm_100a")
    return run_kernel(text, np.zeros((32, registers), np.int32), shared=256)[0]


VALUES = "{%r10, %r11, %r12, %r13}"
WAIT_STORE, WAIT_LOAD = "tcgen05.wait::st.sync.aligned;", "tcgen05.wait::ld.sync.aligned;"


@pytest.mark.parametrize(("shape", "repeats", "registers"), SHAPES)
def test_shapes_of_accesses(shape: str, repeats: int, registers: int) -> None:
    """Data written with one shape come out row by row; the same with the shape again."""
    store = f"tcgen05.st.sync.aligned.{shape}.x{repeats}.b32 [%r41], {VALUES}; {WAIT_STORE}"
    rows = f"tcgen05.ld.sync.aligned.32x32b.x4.b32 {VALUES}, [%r41]; {WAIT_LOAD}"
    found = stored(ALLOCATE + store + rows + FREE)
    row, column = places(shape, repeats, 0)
    inside = column < 4
    expected = 100 * np.arange(32)[:, None] + np.arange(registers)
    assert (found[row[inside], column[inside]] == expected[inside]).all()
    back = f"tcgen05.ld.sync.aligned.{shape}.x{repeats}.b32 {VALUES}, [%r41]; {WAIT_LOAD}"
    assert (stored(ALLOCATE + store + back + FREE) == expected).all()


def test_places_of_shapes() -> None:
    row, column = places("16x256b", 2, 0)
    assert (row[9].tolist(), column[9].tolist()) == ([2, 2, 10, 10, 2, 2, 10, 10], [2, 3, 2, 3, 10, 11, 10, 11])
    row, column = places("16x32bx2", 2, 16)
    assert (row[17].tolist(), column[17].tolist()) == ([1, 1], [16, 17])
    row, column = places("16x64b", 1, 0)
    assert [(int(row[lane, 0]), int(column[lane, 0])) for lane in range(5)] == [(0, 0), (8, 0), (0, 1), (8, 1), (1, 0)]


def test_packed_halves() -> None:
    store = f"tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [%r41], {VALUES}; {WAIT_STORE}"
    load = f"tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {VALUES}, [%r41]; {WAIT_LOAD}"
    assert (stored(ALLOCATE + store + load + FREE) == 100 * np.arange(32)[:, None] + np.arange(4)).all()


STORE = f"tcgen05.st.sync.aligned.32x32b.x4.b32 [%r41], {VALUES};"
LOAD = f"tcgen05.ld.sync.aligned.32x32b.x4.b32 {VALUES}, [%r41];"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (STORE + LOAD + WAIT_LOAD, "in flight will write"),
        (STORE + WAIT_STORE + LOAD, "still uses"),
        (STORE + WAIT_STORE + LOAD + STORE, "still reads"),
    ],
)
def test_words_in_flight(body: str, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        stored(ALLOCATE + body + FREE)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("add.s32 %r42, %r41, 64; " + STORE.replace("[%r41]", "[%r42]"), "not allocated"),
        ("add.s32 %r42, %r41, 2097152; " + STORE.replace("[%r41]", "[%r42]"), "this warp reaches 0 to 31"),
        (ALLOCATE.replace(", 64", ", 48"), "not 48"),
        (ALLOCATE.replace(", 64", ", 512"), "no 512 columns"),
        ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + ALLOCATE, "relinquished"),
        (FREE.replace(", 64", ", 32"), "columns 0 to 31 are no allocation"),
    ],
)
def test_mistakes(body: str, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        stored(ALLOCATE + body + FREE)


def test_memory_that_nobody_frees() -> None:
    with pytest.raises(SimulationError, match="has not freed"):
        stored(ALLOCATE)


def shared_rows(first: str, then: str, meet: str) -> None:
    """Warps 0 and 4, which reach the same rows, use the same words: `first` by warp 0, `then` by warp 4."""
    body = """setp.lt.u32 %p1, %r0, 32; setp.ge.u32 %p2, %r0, 128; mov.b32 %r40, 0;
    mov.b32 %r10, 1; mov.b32 %r11, 1; mov.b32 %r12, 1; mov.b32 %r13, 1;
    @%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r40], 64; bar.sync 0; ld.shared.b32 %r41, [%r40];
    STORE bar.sync 0; FIRST MEET THEN bar.sync 0; @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r41, 64;"""
    for name, text in {"STORE": guarded(STORE, "%p1"), "FIRST": first, "MEET": meet, "THEN": then}.items():
        body = body.replace(name, text)
    text = kernel_text(body, 0, threads=160).replace("sm_90a", "sm_100a")
    run_kernel(text, shared=256)


def guarded(access: str, predicate: str) -> str:
    """An access by the warps of a predicate, and the wait for it."""
    wait = WAIT_LOAD if "ld" in access else WAIT_STORE
    return f"@{predicate} {access} @{predicate} {wait}"


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (STORE, LOAD, "read that warp 0 has written"),
        (STORE, STORE, "written that warp 0 has written"),
        (LOAD, LOAD, ""),
        (LOAD, STORE, "written that warp 0 has read"),
    ],
)
def test_other_warps_words_of_tensor_memory(first: str, then: str, said: str) -> None:
    first, then = guarded(first, "%p1"), guarded(then, "%p2")
    shared_rows(first, then, "bar.sync 0;")
    if not said:
        shared_rows(first, then, "")
        return
    with pytest.raises(SimulationError, match=said):
        shared_rows(first, then, "")
