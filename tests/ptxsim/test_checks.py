"""Mistakes that the simulator refuses: each by its kind, its line, its thread and its source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_programs import kernel_text, run

from tilewright.backends.ptxsim import SimulationError

SHARED = ".shared .align 16 .b8 tile[1024];"
STORE_OWN = "shl.b32 %r1, %r0, 2; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1; st.shared.b32 [%r3], %r0;"
"""Every thread stores its number to a word of its own."""
LOAD_OTHER = "xor.b32 %r4, %r1, 128; add.u32 %r4, %r4, %r2; ld.shared.b32 %r5, [%r4];"
"""Every thread loads the word of a thread of the neighbouring warp."""


def mistake(body: str, *arrays: Any, threads: int = 64, head: str = SHARED, **options: Any) -> SimulationError:
    """The error that a kernel makes."""
    arrays = arrays or (np.zeros(64, np.uint32),)
    with pytest.raises(SimulationError) as caught:
        run(kernel_text(body, len(arrays), head=head, threads=threads), *arrays, **options)
    return caught.value


def fine(body: str, *arrays: Any, threads: int = 64, head: str = SHARED, **options: Any) -> list[Any]:
    """The arrays behind a kernel without mistakes."""
    arrays = arrays or (np.zeros(64, np.uint32),)
    return run(kernel_text(body, len(arrays), head=head, threads=threads), *arrays, **options)


def test_the_place_of_a_mistake() -> None:
    body = """.file 1 "kernel.py"
    .loc 1 12 5
    mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0;
    .loc 1 13 9
    st.global.b32 [%d1], %r0;"""
    error = mistake(body, np.zeros(40, np.uint32))
    assert (error.kind, error.thread, error.cta) == ("out of bounds", (40, 0, 0), (0, 0, 0))
    assert error.instruction == "st.global.b32 [%d1], %r0"
    assert str(error.source) == "kernel.py:13:9"
    assert error.text == "store of 4 bytes at 0x10000400a0, byte 160 of `a0`, which has 160 bytes"


def test_places_of_inlined_calls_name_the_caller() -> None:
    body = '.file 1 "k.py"\n.loc 1 3 0, function_name $L__info0, inlined_at 1 20 4\ntrap;'
    assert str(mistake(body).source) == "k.py:3, called from k.py:20:4"


def test_misaligned_and_unwritten_global_memory() -> None:
    assert mistake("ld.global.b32 %r1, [%d0+2];").kind == "misaligned address"
    assert mistake("st.shared.v2.b32 [tile+4], {%r0, %r0};").kind == "misaligned address"
    assert mistake("ld.shared.b32 %r1, [tile+1024];").kind == "out of bounds"


def test_reads_of_shared_memory_that_nobody_stored() -> None:
    error = mistake("ld.shared.b32 %r1, [tile];")
    assert error.kind == "uninitialised memory"


def test_words_at_the_end_of_a_vector_that_nobody_uses_need_no_value() -> None:
    """LLVM reads four words where three are wanted."""
    body = "st.shared.v2.b32 [tile], {%r0, %r0}; st.shared.b32 [tile+8], %r0;"
    body += "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [tile]; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;"
    fine(body, threads=1)
    assert mistake(body + "add.u32 %r1, %r1, %r4;", threads=1).kind == "uninitialised memory"
    assert mistake(body.replace("st.shared.b32 [tile+8], %r0;", ""), threads=1).kind == "uninitialised memory"


def test_reads_of_shared_memory_that_nobody_stored_may_be_nans() -> None:
    """Every thread adds 1 to a word; only those below 40 have stored one."""
    body = STORE_OWN.replace("st.shared", "setp.lt.u32 %p1, %r0, 40; @%p1 st.shared")
    body += "ld.shared.b32 %r5, [%r3]; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0; st.global.b32 [%d1], %r5;"
    assert mistake(body).thread == (40, 0, 0)
    found = fine(body, uninitialized="nan")[0]
    assert found[:40].tolist() == list(range(40))
    for dtype in (np.float16, np.float32, np.float64):
        assert np.isnan(found[40:].view(dtype)).all()
    assert fine("atom.shared.add.u32 %r1, [tile], 5; st.global.b32 [%d0], %r0;", threads=1, uninitialized="nan")


def test_where_unwritten_memory_is_nan_a_missing_barrier_is_still_a_race() -> None:
    assert mistake(STORE_OWN + LOAD_OTHER, uninitialized="nan").kind == "race"


def test_a_missing_barrier_is_a_race() -> None:
    error = mistake(STORE_OWN + LOAD_OTHER)
    assert error.kind == "race"
    assert error.text == "read of shared memory that warp 1 has stored, with no barrier between"
    assert error.thread == (0, 0, 0)
    fine(STORE_OWN + "bar.sync 0;" + LOAD_OTHER)


def test_a_store_after_a_read_needs_a_barrier_too() -> None:
    body = STORE_OWN + "bar.sync 0;" + LOAD_OTHER
    error = mistake(body + "st.shared.b32 [%r3], %r5;")
    assert error.text == "store to shared memory that warp 1 has read, with no barrier between"
    assert error.thread == (0, 0, 0)
    fine(body + "bar.sync 0; st.shared.b32 [%r3], %r5;")


def test_a_warp_may_read_and_overwrite_what_is_its_own() -> None:
    fine(STORE_OWN + "ld.shared.b32 %r5, [%r3]; st.shared.b32 [%r3], %r5;")
    fine(STORE_OWN + "bar.sync 0;" + LOAD_OTHER + "bar.sync 0; ld.shared.b32 %r5, [%r3]; st.shared.b32 [%r3], %r5;")


def test_a_barrier_of_some_warps_orders_those_only() -> None:
    """Warps 0 and 1 meet at barrier 1; warp 2 reads what warp 0 stored without having met it."""
    meet = "setp.lt.u32 %p1, %r0, 64; @%p1 bar.sync 1, 64;"
    two = STORE_OWN + meet + "@%p1 xor.b32 %r4, %r1, 128; @%p1 add.u32 %r4, %r4, %r2; @%p1 ld.shared.b32 %r5, [%r4];"
    fine(two, threads=96)
    error = mistake(two + "setp.ge.u32 %p2, %r0, 64; @%p2 ld.shared.b32 %r5, [tile];", threads=96)
    assert (error.kind, error.thread) == ("race", (64, 0, 0))


def test_threads_that_store_different_values_at_once_race() -> None:
    assert mistake("st.global.b32 [%d0], %r0;").kind == "race"
    assert mistake("st.shared.b32 [tile], %r0;", threads=32).kind == "race"
    fine("mov.u32 %r1, 7; st.global.b32 [%d0], %r1;")


def test_atomic_operations_on_shared_memory_do_not_race_with_each_other() -> None:
    start = "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.b32 [tile], %r0; bar.sync 0; red.shared.add.u32 [tile], %r0;"
    end = "ld.shared.b32 %r5, [tile]; @%p1 st.global.b32 [%d0], %r5;"
    assert fine(start + "bar.sync 0;" + end)[0][0] == sum(range(64))
    assert mistake(start + end).kind == "race"


def test_barriers_that_threads_reach_apart() -> None:
    assert mistake("setp.lt.u32 %p1, %r0, 16; @%p1 bar.sync 0;").kind == "divergent warp"
    error = mistake("setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 0; @!%p1 bar.sync 1;")
    assert error.kind == "deadlock"
    error = mistake("bar.sync 0, 64;", threads=128)
    assert (error.kind, error.thread) == ("barrier", (0, 0, 0))
    assert error.text == "128 threads come to barrier 0, which waits for 64: chance says for which"
    fine("setp.lt.u32 %p1, %r0, 64; @%p1 bar.sync 0, 64; @!%p1 bar.sync 1, 64;", threads=128)
    assert fine("setp.ge.u32 %p1, %r0, 32; @%p1 ret; bar.sync 0; mov.u32 %r1, 1; st.global.b32 [%d0], %r1;")[0][0] == 1


def test_a_lock_that_is_never_released_is_a_deadlock() -> None:
    lock = "$spin: atom.global.cas.b32 %r1, [%d0], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra $spin;"
    assert mistake(lock, threads=32).kind == "deadlock"
    released = lock + "ld.global.b32 %r2, [%d0+4]; add.u32 %r2, %r2, 1; st.global.b32 [%d0+4], %r2;"
    assert fine(released + "atom.global.exch.b32 %r3, [%d0], 0;", threads=32)[0][1] == 32


def test_shuffles_read_lanes_that_are_there() -> None:
    error = mistake("setp.lt.u32 %p1, %r0, 16; @%p1 shfl.sync.bfly.b32 %r1, %r0, 16, 31, 0xffff;", threads=32)
    assert error.kind == "divergent warp"
    assert "reads lane 16" in error.text
    error = mistake("setp.lt.u32 %p1, %r0, 16; @%p1 shfl.sync.bfly.b32 %r1, %r0, 8, 31, -1;", threads=32)
    assert "names this thread as a member" in error.text


def test_members_of_an_instruction_are_here_and_who_is_here_is_a_member() -> None:
    some = "setp.{} %p1, %r0, 40; @%p1 bar.warp.sync {};"
    error = mistake(some.format("lt.u32", "-1"))
    assert (error.kind, error.thread) == ("divergent warp", (40, 0, 0))
    assert error.text == "the instruction names this thread as a member, and it is elsewhere"
    for compares, members, thread in (("lt.u32", "0x7f", 7), ("ge.u32", "0x7fffff00", 63)):
        error = mistake(some.format(compares, members))
        assert (error.kind, error.thread) == ("divergent warp", (thread, 0, 0))
        assert error.text == "the thread executes the instruction, and its mask of members does not name it"
    fine(some.format("ge.u32", "0xffffff00"))


def test_unknown_instructions_and_functions() -> None:
    error = mistake("frobnicate.b32 %r1, %r2;")
    assert (error.kind, error.instruction) == ("unsupported", "frobnicate.b32 %r1, %r2")
    assert error.line > 0
    assert mistake("add.odd.s32 %r1, %r1, %r2;").text == "the simulator does not know the modifier .odd"
    assert mistake("red.async.shared::cluster.b32 [%r1], %r2, [%r3];").kind == "unsupported"


def test_launches_that_do_not_fit() -> None:
    assert mistake("", threads=64, cluster=(2, 1, 1)).kind == "launch"
    with pytest.raises(SimulationError, match="takes 2 arguments, not 1"):
        run(kernel_text("", 2), np.zeros(1))


SLOT = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d1, %d0; setp.eq.u32 %p1, %r0, 0;"
"""%d1 is a word for every CTA, %p1 chooses one thread."""


def test_ctas_that_load_what_others_store_race() -> None:
    exchange = (
        SLOT + "@%p1 st.global.b32 [%d1], %r1; xor.b32 %r2, %r1, 1; mul.wide.u32 %d2, %r2, 4; add.s64 %d2, %d2, %d0;"
    )
    error = mistake(exchange + "@%p1 ld.global.b32 %r3, [%d2];", threads=32, grid=2)
    assert (error.kind, error.thread, error.cta) == ("race", (0, 0, 0), (0, 0, 0))
    assert error.text.startswith("load of what another CTA or warp has stored")
    copy = "@%p1 cp.async.ca.shared.global [tile], [%d2], 4; cp.async.wait_all;"
    assert mistake(exchange + copy, threads=32, grid=2).text == error.text
    for between in ("atom.global.add.u32 %r4, [%d0+8], 1;", "st.release.gpu.global.b32 [%d0+8], 1;"):
        fine(f"{exchange} @%p1 {between} @%p1 ld.global.b32 %r3, [%d2];", threads=32, grid=2)


@pytest.mark.quick
@pytest.mark.parametrize(
    "wide", ["st.global.v4.b32 [%d0], {%r9, %r9, %r9, %r9};", "ld.global.v2.b64 {%d8, %d9}, [%d0];"]
)
@pytest.mark.parametrize("place", [0, 4, 12, 16])
def test_all_bytes_of_a_wide_access_race(wide: str, place: int) -> None:
    """CTA 0 accesses 16 bytes, CTA 1 stores a word of them, in both orders, or the word that follows them."""
    for first, second in ((0, 1), (1, 0)):
        choose = f"setp.eq.and.u32 %p2, %r1, {first}, %p1; setp.eq.and.u32 %p3, %r1, {second}, %p1; mov.u32 %r9, 5;"
        body = f"{SLOT}{choose} @%p2 {wide} @%p3 st.global.b32 [%d0+{place}], 7;"
        if place == 16:
            fine(body, threads=32, grid=2)
        else:
            assert mistake(body, threads=32, grid=2).kind == "race"


def test_a_store_where_another_cta_adds_races() -> None:
    adds = "setp.eq.and.u32 %p2, %r1, 0, %p1; setp.ne.and.u32 %p3, %r1, 0, %p1; @%p2 red.global.add.u32 [%d0], 1;"
    error = mistake(SLOT + adds + "@%p3 st.global.b32 [%d0], 5;", threads=32, grid=2)
    assert (error.kind, error.cta) == ("race", (1, 0, 0))


def test_ctas_that_store_to_one_place_race_unless_they_agree() -> None:
    fine(SLOT + "mov.u32 %r2, 7; st.global.b32 [%d0], %r2;", threads=32, grid=40)
    assert mistake(SLOT + "@%p1 st.global.b32 [%d0], %r1;", threads=1024, grid=4).kind == "race"
    error = mistake(SLOT + "ld.global.b32 %r2, [%d0]; @%p1 st.global.b32 [%d1], 5;", threads=1024, grid=4)
    assert error.text.startswith("store where another CTA or warp has loaded")


def test_warps_order_their_accesses_to_global_memory_by_barriers() -> None:
    own = "mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0; st.global.b32 [%d1], %r0; "
    other = "xor.b32 %r2, %r0, 32; mul.wide.u32 %d2, %r2, 4; add.s64 %d2, %d2, %d0; ld.global.b32 %r3, [%d2];"
    assert mistake(own + other).kind == "race"
    fine(own + "bar.sync 0;" + other)


MASKED = "setp.lt.u32 %p1, %r0, 40; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0; @%p1 ld.global.b32 %r1, [%d1];"
"""Threads from 40 on have no %r1."""


def test_registers_without_a_value_must_not_get_anywhere() -> None:
    error = mistake(MASKED + "add.u32 %r2, %r1, 1; st.global.b32 [%d1], %r2;")
    assert (error.kind, error.thread) == ("uninitialised register", (40, 0, 0))
    assert error.text == "the stored value comes from a register that nothing has set"
    error = mistake(MASKED + "mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d2, %d0; ld.global.b32 %r3, [%d2];")
    assert error.text == "the address comes from a register that nothing has set"
    error = mistake(MASKED + "setp.eq.u32 %p2, %r1, 0; $end: @%p2 bra $end;")
    assert error.text == "whether this is executed depends on a register that nothing has set"
    assert mistake("$end: @%p0 bra $end;").text == error.text  # the first of all registers
    some = "setp.lt.u32 %p0, %r0, 40; @%p0 mov.b32 %r1, 5; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0;"
    assert mistake(some + "st.global.b32 [%d1], %r1;").thread == (40, 0, 0)
    assert mistake("setp.lt.u32 %p0, %r0, 40; @%p0 mov.b32 %r1, %r7; st.global.b32 [%d0], %r1;").thread == (0, 0, 0)


def test_words_may_be_put_together_from_bytes_that_are_unset() -> None:
    fine(MASKED + "prmt.b32 %r2, %r0, %r1, 0x5410; prmt.b32 %r2, %r2, %r0, 0x4010; st.global.b32 [%d1], %r2;")
    assert mistake("st.global.b32 [%d0], %r7;").kind == "uninitialised register"


def test_registers_may_be_put_together_with_unset_ones() -> None:
    body = "mov.b64 %d5, {%r7, %r0}; mov.b64 {_, %r8}, %d5; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0;"
    assert fine(f"{body} st.global.b32 [%d1], %r8;")[0].tolist() == list(range(64))
    pair = "mov.b32 %r1, 0f3F800000; {} mov.b32 {{%h1, _}}, %r2; cvt.u32.u16 %r3, %h1; st.global.b32 [%d0], %r3;"
    assert fine(pair.format("cvt.rn.f16x2.f32 %r2, %r7, %r1;"))[0][0] == 0x3C00
    assert mistake(pair.format("cvt.rn.f16x2.f32 %r2, %r7, %r8;")).kind == "uninitialised register"


def test_registers_without_a_value_may_be_computed_with() -> None:
    fine(MASKED + "add.u32 %r2, %r1, 1; @%p1 st.global.b32 [%d1], %r2;")
    fine(MASKED + "add.u32 %r2, %r1, 1; selp.b32 %r3, %r2, 0, %p1; st.global.b32 [%d1], %r3;")
    fine(MASKED + "setp.ne.u32 %p2, %r1, 1; and.pred %p3, %p2, %p1; @%p3 st.global.b32 [%d1], 3;")
    fine(MASKED + "@!%p1 mov.u32 %r1, 5; st.global.b32 [%d1], %r1;")


def test_warps_may_store_the_same_value_to_one_place() -> None:
    """Warps that hold the same elements store them in any order; another value is a race."""
    first = "setp.lt.u32 %p1, %r0, 32; mov.b32 %r5, 7; @%p1 st.shared.b32 [tile], %r5;"
    fine(first + "@!%p1 st.shared.b32 [tile], %r5;")
    assert mistake(first + "add.s32 %r5, %r5, 1; @!%p1 st.shared.b32 [tile], %r5;").kind == "race"
    read = "@%p1 ld.shared.b32 %r6, [tile];"
    assert mistake(first + read + "@!%p1 st.shared.b32 [tile], %r5;").kind == "race"


COUNT = {
    "st.volatile": "add.u32 %r5, %r5, STEP; st.volatile.global.b32 [%d0], %r5;",
    "st.relaxed": "add.u32 %r5, %r5, STEP; st.relaxed.gpu.global.b32 [%d0], %r5;",
    "atom.add": "atom.global.add.u32 %r5, [%d0], STEP;",
    "red.max": "add.u32 %r5, %r5, STEP; red.global.max.u32 [%d0], %r5;",
}


@pytest.mark.quick
@pytest.mark.parametrize("count", COUNT)
def test_loops_that_poll_and_count_are_no_deadlock(count: str) -> None:
    """Warp 0 counts until warp 1, which waits for a large number, answers; without steps both wait for ever."""
    body = f"""mov.u32 %r5, 0; and.b32 %r6, %r0, 31; setp.ne.u32 %p1, %r6, 0; setp.eq.u32 %p2, %r0, 32;
    @%p1 bra $end; @%p2 bra $wait;
    $count: ld.volatile.global.b32 %r7, [%d0+4]; {COUNT[count]} setp.eq.u32 %p3, %r7, 0; @%p3 bra $count; bra $end;
    $wait: ld.volatile.global.b32 %r7, [%d0]; setp.lt.u32 %p3, %r7, 250; @%p3 bra $wait;
    st.volatile.global.b32 [%d0+4], 1; $end:"""
    poll = "ld.volatile.global.b32 %r7, [%d0+4];"
    for text in (body, body.replace(f"{poll} {COUNT[count]}", f"{COUNT[count]} {poll}")):
        fine(text.replace("STEP", "1"), threads=64)
        assert mistake(text.replace("STEP", "0"), threads=64).kind == "deadlock"


@pytest.mark.quick
def test_loops_that_compute_while_another_polls_are_no_deadlock() -> None:
    body = """mov.u32 %r5, 0; and.b32 %r6, %r0, 31; setp.ne.u32 %p1, %r6, 0; setp.eq.u32 %p2, %r0, 32;
    @%p1 bra $end; @%p2 bra $wait;
    ld.volatile.global.b32 %r7, [%d0+4];
    $compute: add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 400; @%p3 bra $compute;
    st.volatile.global.b32 [%d0+4], %r5; bra $end;
    $wait: ld.volatile.global.b32 %r7, [%d0+4]; setp.eq.u32 %p3, %r7, 0; @%p3 bra $wait;
    st.global.b32 [%d0+8], %r7; $end:"""
    assert fine(body, threads=64)[0][:3].tolist() == [0, 400, 400]
