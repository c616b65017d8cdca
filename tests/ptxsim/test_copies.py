"""Asynchronous copies: what lands, when, and what may not be touched meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ptx_programs import REGISTERS, kernel_text, run

from tilewright.backends.ptxsim import DeviceMemory, Launch, SimulationError, load
from tilewright.backends.ptxsim.tensor_maps import SIZE, TensorMap

pytestmark = pytest.mark.quick

SOURCE = np.arange(1, 1025, dtype=np.float32)
COPY = "shl.b32 %r1, %r0, 4; mul.wide.u32 %d10, %r0, 16; add.s64 %d10, %d10, %d0; add.s64 %d11, %d1, 0;"
SEND = "mul.wide.u32 %d12, %r0, 16; add.s64 %d12, %d12, %d1; st.global.v4.b32 [%d12], {%r4, %r5, %r6, %r7};"
LOOK = f"ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r1]; {SEND}"


def copied(body: str, *, threads: int = 32, shared: int = 2048) -> np.ndarray:
    memory = DeviceMemory()
    source, out = memory.copy_in(SOURCE), memory.copy_in(np.zeros(4 * threads, np.float32))
    Launch(load(kernel_text(body, threads=threads)), shared=shared).run(memory, [source, out])
    return memory.copy_out(out, (4 * threads,), np.float32)


ASYNC = "cp.async.cg.shared.global [%r1], [%d10], 16;"


def test_copies_land_at_the_wait() -> None:
    found = copied(f"{COPY} {ASYNC} cp.async.commit_group; cp.async.wait_group 0; {LOOK}")
    assert (found == SOURCE[:128]).all()
    assert (copied(f"{COPY} {ASYNC} cp.async.wait_all; {LOOK}") == SOURCE[:128]).all()


@pytest.mark.parametrize("wait", ["", "cp.async.wait_group 0;", "cp.async.commit_group; cp.async.wait_group 1;"])
def test_copies_that_nobody_waits_for(wait: str) -> None:
    with pytest.raises(SimulationError, match="asynchronous copy is writing"):
        copied(f"{COPY} {ASYNC} {wait} {LOOK}")
    with pytest.raises(SimulationError, match="asynchronous copy is writing"):
        copied(f"{COPY} {ASYNC} {wait} st.shared.b32 [%r1], %r0;")


def test_bytes_behind_the_size_are_zero() -> None:
    size = "setp.lt.u32 %p1, %r0, 4; selp.b32 %r2, 16, 0, %p1; setp.eq.u32 %p1, %r0, 1; @%p1 mov.b32 %r2, 8;"
    body = f"{COPY} {size} cp.async.ca.shared.global [%r1], [%d10], 16, %r2; cp.async.wait_all; {LOOK}"
    assert copied(body)[:20].tolist() == [1, 2, 3, 4, 5, 6, 0, 0, *range(9, 17), 0, 0, 0, 0]


def test_other_warps_need_a_barrier() -> None:
    other = "xor.b32 %r1, %r1, 512;"
    body = f"{COPY} {ASYNC} cp.async.wait_all; BARRIER {other} {LOOK}"
    found = copied(body.replace("BARRIER", "bar.sync 0;"), threads=64)
    assert found[0] == SOURCE[128]
    with pytest.raises(SimulationError, match="no barrier between"):
        copied(body.replace("BARRIER", ""), threads=64)
    with pytest.raises(SimulationError, match="no barrier between"):  # it is met before the copy has landed
        copied(f"{COPY} {ASYNC} bar.sync 0; cp.async.wait_all; {other} {LOOK}", threads=64)


INIT = """
setp.eq.u32 %p1, %r0, 0; mov.b32 %r20, 4096;
@%p1 mbarrier.init.shared::cta.b64 [%r20], COUNT; bar.sync 0;
"""
WAIT = """
mov.b32 %r21, 0;
$wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], %r21; @!%p2 bra $wait;
"""
BULK = """
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 512;
mov.b32 %r22, 0;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r22], [%d0], 512, [%r20];
"""


def test_bulk_copies_tell_an_mbarrier() -> None:
    body = INIT.replace("COUNT", "1") + BULK + WAIT + COPY + LOOK
    assert (copied(body, shared=8192) == SOURCE[:128]).all()


def test_bulk_copies_that_nobody_waits_for() -> None:
    body = INIT.replace("COUNT", "1") + BULK + COPY + LOOK
    with pytest.raises(SimulationError, match="asynchronous copy is writing"):
        copied(body, shared=8192)


def bulk_copies(second: str) -> str:
    """Two bulk copies fill one place before anybody waits; `second` says from where the second comes."""
    again = BULK.partition("@%p1 cp")[1] + BULK.partition("@%p1 cp")[2]
    begin = INIT.replace("COUNT", "1") + BULK.replace("[%r20], 512", "[%r20], 1024")
    return begin + f"add.s64 %d5, %d0, {second};" + again.replace("[%d0]", "[%d5]")


def test_bulk_copies_of_the_same_bytes_may_fill_one_place_at_once() -> None:
    found = copied(bulk_copies("0") + WAIT + COPY + LOOK, shared=8192)
    assert (found == SOURCE[:128]).all()
    with pytest.raises(SimulationError, match="store to shared memory that an asynchronous copy is writing"):
        copied(bulk_copies("16") + WAIT + COPY + LOOK, shared=8192)
    with pytest.raises(SimulationError, match="read of shared memory that an asynchronous copy is writing"):
        copied(bulk_copies("0") + COPY + LOOK, shared=8192)
    with pytest.raises(SimulationError, match="store to shared memory that an asynchronous copy is writing"):
        copied(bulk_copies("0") + COPY + "st.shared.b32 [%r1], %r0;", shared=8192)


def test_a_place_belongs_to_each_of_the_copies_that_fill_it() -> None:
    """The second copy tells another mbarrier, for which nobody waits."""
    second = "@%p1 mbarrier.init.shared::cta.b64 [%r25], 1; bar.sync 0;" + BULK.replace("[%r20]", "[%r25]")
    body = INIT.replace("COUNT", "1") + BULK + "add.s32 %r25, %r20, 8;" + second + WAIT + COPY + LOOK
    with pytest.raises(SimulationError, match="read of shared memory that an asynchronous copy is writing"):
        copied(body, shared=8192)


def test_other_copies_may_not_fill_one_place_at_once() -> None:
    """Those of threads and their groups, whatever they bring."""
    with pytest.raises(SimulationError, match="store to shared memory that an asynchronous copy is writing"):
        copied(f"{COPY} {ASYNC} {ASYNC} cp.async.wait_all; {LOOK}")


@pytest.mark.parametrize(("size", "missing"), [("496", "16 bytes less"), ("528", "16 more bytes")])
def test_wrong_byte_counts_are_deadlocks(size: str, missing: str) -> None:
    body = INIT.replace("COUNT", "1") + BULK.replace("[%r20], 512", f"[%r20], {size}") + WAIT
    with pytest.raises(SimulationError, match="deadlock") as caught:
        copied(body, shared=8192)
    (line,) = caught.value.waiting
    assert line.endswith(f": the mbarrier at shared address 0x1000, phase 0 (parity 0), wants {missing}")


@pytest.mark.quick
@pytest.mark.parametrize(("warp", "chosen"), [(0, "setp.lt.u32 %p3, %r0, 32;"), (3, "setp.ge.u32 %p3, %r0, 96;")])
def test_a_deadlock_says_what_each_warp_waits_for(warp: int, chosen: str) -> None:
    """One warp waits at an mbarrier for another one, which waits for it at a barrier."""
    waits = f"{chosen} @!%p3 bra $others; {WAIT} $others: bar.sync 2, 128;"
    arrival = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r20];"
    with pytest.raises(SimulationError, match="deadlock") as caught:
        copied(INIT.replace("COUNT", "2") + arrival + waits, threads=128, shared=8192)
    lines = [line.partition(": ")[::2] for line in caught.value.waiting]
    ((where, what),) = [line for line in lines if "mbarrier" in line[1]]
    others = [line for line in lines if line[0] != where]
    assert where.startswith(f"warp {warp} of CTA (0, 0, 0), PTX line ")
    assert what == "the mbarrier at shared address 0x1000, phase 0 (parity 0), wants 1 more of 2 arrivals"
    assert [what for _, what in others] == ["bar.sync 2, 128"]
    assert str(caught.value).endswith("  " + caught.value.waiting[-1])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [%r20], 3;", "3 arrivals at an mbarrier that waits for 2"),
        ("@%p1 mbarrier.init.shared::cta.b64 [%r20], 1;", "an mbarrier already"),
        ("mov.b32 %r20, 4104; st.shared.b64 [%r20], %d0; mbarrier.arrive.shared::cta.b64 _, [%r20];", "no initialised"),
        ("@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r20], 16; @%p1 mbarrier.inval.shared::cta.b64 [%r20];",
         "will still signal"),
        ("@%p1 mbarrier.inval.shared::cta.b64 [%r20]; @%p1 ld.shared.b64 %d9, [%r20];", "uninitialised memory"),
    ],
)
def test_misused_mbarriers(body: str, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        copied(INIT.replace("COUNT", "2") + body, shared=8192)


def test_arrivals_of_copies() -> None:
    """Each lane's arrival comes when its copies have landed."""
    tell = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r20];"
    body = INIT.replace("COUNT", "32") + COPY + ASYNC + tell + WAIT + LOOK
    assert (copied(body, shared=8192) == SOURCE[:128]).all()


def test_mbarriers_order_warps() -> None:
    """Warp 1 reads what warp 0 has stored, behind a phase in which all have arrived."""
    arrive = "mbarrier.arrive.shared::cta.b64 %d30, [%r20];"
    store = "shl.b32 %r1, %r0, 4; st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0};"
    other = "xor.b32 %r1, %r1, 512;"
    body = INIT.replace("COUNT", "64") + store + arrive + WAIT + other + LOOK
    found = copied(body, threads=64, shared=8192).view(np.int32)
    assert found[::4].tolist() == [*range(32, 64), *range(32)]
    with pytest.raises(SimulationError, match="no barrier between"):
        copied(body.replace(WAIT, ""), threads=64, shared=8192)


MAP = TensorMap(0, "f32", (40, 20), (160,), (32, 8), 128, (1, 1))
TENSOR = np.arange(800, dtype=np.float32).reshape(20, 40)


def tensor_kernel(body: str, *, threads: int = 32) -> str:
    """A kernel with a map by value, its address in %d0, and a pointer in %d1."""
    head = ".version 8.8 .target sm_100a .address_size 64"
    parameters = ".param .align 64 .b8 k_param_0[128], .param .u64 k_param_1"
    start = "mov.b64 %d0, k_param_0; cvta.param.u64 %d0, %d0; ld.param.b64 %d1, [k_param_1]; mov.u32 %r0, %tid.x;"
    return f"{head}\n.visible .entry k({parameters})\n.reqntid {threads}\n{{ {REGISTERS} {start}\n{body}\nret;\n}}"


def tensor_run(body: str, map: TensorMap, out: np.ndarray, *, threads: int = 32, **launch: object) -> list[np.ndarray]:
    memory = DeviceMemory()
    tensor, result = memory.copy_in(TENSOR), memory.copy_in(out)
    start = map.encode() if map.address else replace(map, address=tensor).encode()
    Launch(load(tensor_kernel(body, threads=threads)), shared=8192, **launch).run(memory, [start, result])
    return [memory.copy_out(tensor, TENSOR.shape, np.float32), memory.copy_out(result, out.shape, np.float32)]


TENSOR_LOAD = """
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 1024; mov.b32 %r22, 0; mov.b32 %r23, X; mov.b32 %r24, Y;
@%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r22], [%d0, {%r23, %r24}], [%r20];
"""
UNSWIZZLED = """
shr.u32 %r1, %r0, 2; and.b32 %r2, %r0, 3; shl.b32 %r3, %r1, 7; shl.b32 %r2, %r2, 5;
xor.b32 %r4, %r1, 0; shl.b32 %r4, %r4, 4; xor.b32 %r5, %r2, %r4; add.s32 %r5, %r5, %r3;
ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r5]; xor.b32 %r5, %r5, 16;
ld.shared.v4.b32 {%r14, %r15, %r16, %r17}, [%r5];
mul.wide.u32 %d12, %r0, 32; add.s64 %d12, %d12, %d1;
st.global.v4.b32 [%d12], {%r10, %r11, %r12, %r13}; st.global.v4.b32 [%d12+16], {%r14, %r15, %r16, %r17};
"""


def test_a_swizzled_box_over_the_border() -> None:
    body = INIT.replace("COUNT", "1") + TENSOR_LOAD.replace("X;", "16;").replace("Y;", "-3;") + WAIT + UNSWIZZLED
    _, found = tensor_run(body, MAP, np.zeros((8, 32), np.float32))
    expected = np.zeros((8, 32), np.float32)
    expected[3:, :24] = TENSOR[:5, 16:]
    assert (found == expected).all()


STORE = """
shr.u32 %r1, %r0, 2; and.b32 %r2, %r0, 3; shl.b32 %r3, %r0, 5; mov.b32 %r4, 0f3F800000;
st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4}; st.shared.v4.b32 [%r3+16], {%r4, %r4, %r4, %r4};
FENCE
bar.sync 0; setp.eq.u32 %p1, %r0, 0; mov.b32 %r22, 0; mov.b32 %r23, 24; mov.b32 %r24, 16;
@%p1 COPY [%d0, {%r23, %r24}], [%r22];
@%p1 cp.async.bulk.commit_group; WAIT
"""


def stored(copy: str = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", **changes: str) -> np.ndarray:
    changed = {"FENCE": "fence.proxy.async.shared::cta;", "WAIT": "cp.async.bulk.wait_group.read 0;", **changes}
    body = STORE.replace("COPY", copy)
    for name, text in changed.items():
        body = body.replace(name, text)
    return tensor_run(body, replace(MAP, swizzle=0), np.zeros(1, np.float32))[0]


def test_a_box_is_stored_and_added() -> None:
    expected = TENSOR.copy()
    expected[16:, 24:] = 1
    assert (stored() == expected).all()
    expected[16:, 24:] = TENSOR[16:, 24:] + 1
    assert (stored("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group") == expected).all()


@pytest.mark.parametrize(("operation", "expected"), [("inc", [1, 2, 3, 0, 0]), ("dec", [3, 0, 1, 2, 3])])
def test_a_bulk_copy_counts_up_to_a_limit(operation: str, expected: list[int]) -> None:
    body = f"""
    shl.b32 %r1, %r0, 2; mov.b32 %r2, 3; st.shared.b32 [%r1], %r2; fence.proxy.async.shared::cta; bar.sync 0;
    setp.eq.u32 %p1, %r0, 0; mov.b32 %r22, 0;
    @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.u32 [%d0], [%r22], 128;
    @%p1 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    (found,) = run(kernel_text(body, 1), np.arange(32, dtype=np.uint32), shared=128)
    assert found[:5].tolist() == expected


WRITE = """
shl.b32 %r1, %r0, 2; st.shared.b32 [%r1], %r0; st.shared.b32 [%r1+128], %r1; fence.proxy.async.shared::cta; bar.sync 0;
setp.eq.u32 %p1, %r0, 0; mov.b32 %r22, 0; mov.b32 %r23, 128;
@%p1 FIRST [%d0], [%r22], 128; @%p1 cp.async.bulk.commit_group; WAIT bar.sync 0;
THEN
@%p1 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
COPY_OUT = "cp.async.bulk.global.shared::cta.bulk_group"
ADD_OUT = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
AGAIN, SAME = (f"@%p1 {{}} [%d0], [{start}], 128;" for start in ("%r23", "%r22"))


def written(then: str, wait: str, first: str = COPY_OUT) -> np.ndarray:
    body = WRITE.replace("FIRST", first).replace("WAIT", f"cp.async.bulk.wait_group{wait} 0;").replace("THEN", then)
    return run(kernel_text(body, 1), np.zeros(32, np.uint32), shared=256)[0]


OTHERS = {
    "load": "ld.global.b32 %r5, [%d0]; st.shared.b32 [%r1], %r5;",
    "store": "@%p1 st.global.b32 [%d0], %r23;",
    "atomic": "@%p1 red.global.add.u32 [%d0], 1;",
    "copy of other numbers": AGAIN.format(COPY_OUT),
    "sum over a copy": SAME.format(ADD_OUT),
}


@pytest.mark.parametrize("then", OTHERS.values(), ids=OTHERS)
def test_what_a_bulk_copy_writes_is_complete_behind_a_wait_for_more_than_its_reads(then: str) -> None:
    written(then, "")
    with pytest.raises(SimulationError, match=r"race: .*still writes.*wait_group without \.read"):
        written(then, ".read")


def test_copies_of_the_same_numbers_and_sums_need_no_order() -> None:
    np.testing.assert_array_equal(written(SAME.format(COPY_OUT), ".read"), np.arange(32))
    twice = written(SAME.format(ADD_OUT), ".read", ADD_OUT)
    np.testing.assert_array_equal(twice, 2 * np.arange(32))


OWN = "mov.u32 %r8, %ctaid.x; mul.lo.u32 %r8, %r8, 7; add.u32 %r8, %r8, %r0;"
"""Other numbers in each program."""


@pytest.mark.parametrize(
    ("before", "text"), [("@%p1 ld.global.b32 %r9, [%d0+4];", "copy to where another CTA"), ("", "still writes")]
)
def test_bulk_copies_race_with_what_other_programs_do(before: str, text: str) -> None:
    body = WRITE.replace("st.shared.b32 [%r1], %r0;", OWN + "st.shared.b32 [%r1], %r8;")
    body = body.replace("mov.b32 %r22, 0;", "mov.b32 %r22, 0;" + before).replace("FIRST", COPY_OUT)
    body = body.replace("WAIT", "cp.async.bulk.wait_group 0;").replace("THEN", "")
    with pytest.raises(SimulationError, match=f"race: .*{text}"):
        run(kernel_text(body, 1), np.zeros(32, np.uint32), shared=256, grid=2)


MISALIGNED = "misaligned address: a box that starts at {} along the innermost dimension.* at a multiple of 4, or use"


@pytest.mark.parametrize("x", [18, -1])
def test_a_box_starts_at_whole_16_bytes_along_the_innermost_dimension_when_loaded(x: int) -> None:
    body = INIT.replace("COUNT", "1") + TENSOR_LOAD.replace("X;", f"{x};").replace("Y;", "-3;") + WAIT + UNSWIZZLED
    with pytest.raises(SimulationError, match=MISALIGNED.format(x)):
        tensor_run(body, MAP, np.zeros((8, 32), np.float32))


@pytest.mark.parametrize("part", ["cp.async", "cp.reduce.async"])
def test_a_box_starts_at_whole_16_bytes_along_the_innermost_dimension_when_stored(part: str) -> None:
    copy = f"{part}.bulk.tensor.2d.global.shared::cta{'.add.tile' * ('reduce' in part)}.bulk_group"
    with pytest.raises(SimulationError, match=MISALIGNED.format(22)):
        stored(copy, **{"%r23, 24;": "%r23, 22;"})


@pytest.mark.parametrize("part", ["cp.async", "cp.reduce.async"])
def test_a_box_is_not_stored_in_front_of_a_tensor(part: str) -> None:
    """Loads may begin there; NVIDIA's guide forbids stores, and an H200 took them for illegal instructions."""
    copy = f"{part}.bulk.tensor.2d.global.shared::cta{'.add.tile' * ('reduce' in part)}.bulk_group"
    with pytest.raises(SimulationError, match=r"out of bounds: a box that is stored at \(-8, 16\), in front of the"):
        stored(copy, **{"%r23, 24;": "%r23, -8;"})


@pytest.mark.parametrize("fence", ["", "fence.proxy.async.global;"])
def test_what_is_stored_to_shared_memory_needs_a_fence_of_its_own(fence: str) -> None:
    with pytest.raises(SimulationError, match=r"no fence\.proxy\.async"):
        stored(FENCE=fence)


def test_hazards_of_stored_boxes() -> None:
    with pytest.raises(SimulationError, match="the CTA ends while"):
        stored(WAIT="")
    with pytest.raises(SimulationError, match="still reads"):
        stored(WAIT="st.shared.b32 [%r3], %r4;")


def test_gathered_rows() -> None:
    gather = """
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 512;
    mov.b32 %r22, 0; mov.b32 %r23, 4; mov.b32 %r24, 7; mov.b32 %r25, 19; mov.b32 %r26, 0; mov.b32 %r27, 20;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
        [%r22], [%d0, {%r23, %r24, %r25, %r26, %r27}], [%r20];
    """
    body = INIT.replace("COUNT", "1") + gather + WAIT + COPY.replace("%d0", "%d1") + LOOK
    _, found = tensor_run(body, replace(MAP, box=(32, 1), swizzle=0), np.zeros((4, 32), np.float32))
    assert (found[:3] == TENSOR[[7, 19, 0], 4:36]).all()
    assert not found[3].any()
    with pytest.raises(SimulationError, match=MISALIGNED.format(5)):
        tensor_run(body.replace("%r23, 4;", "%r23, 5;"), replace(MAP, box=(32, 1), swizzle=0), np.zeros((4, 32)))


def test_multicast_to_both_ctas() -> None:
    """CTA 0 loads for both; each waits at its own mbarrier."""
    both = """
    mov.u32 %r30, %cluster_ctarank; setp.eq.u32 %p3, %r30, 0; and.pred %p3, %p3, %p1; mov.b16 %h1, 3;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 1024; mov.b32 %r22, 0; mov.b32 %r23, 0;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r22], [%d0, {%r23, %r23}], [%r20], %h1;
    """
    place = "mul.wide.u32 %d13, %r30, 1024; add.s64 %d1, %d1, %d13;"
    body = INIT.replace("COUNT", "1") + both + WAIT + place + UNSWIZZLED
    out = np.zeros((2, 8, 32), np.float32)
    _, found = tensor_run(body, MAP, out, grid=(2, 1, 1), cluster=(2, 1, 1))
    assert (found == TENSOR[:8, :32]).all()


MAKE = """
shl.b32 %r1, %r0, 2; mov.b32 %r2, 0; st.shared.b32 [%r1], %r2; bar.warp.sync -1;
mov.b32 %r3, 0; setp.eq.u32 %p1, %r0, 0;
mov.b32 %r5, 32; mov.b32 %r6, 8; mov.b32 %r7, 40; mov.b32 %r8, 20; mov.b32 %r9, 1; mov.b64 %d20, 160;
@%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %d2;
@%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3], 0x1;
@%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3], 0x0, %r5;
@%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3], 0x1, %r6;
@%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 0x0, %r7;
@%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 0x1, %r8;
@%p1 tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r3], 0x0, %d20;
@%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r3], 0x0, %r9;
@%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r3], 0x1, %r9;
@%p1 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r3], 0x7;
@%p1 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r3], 0x3;
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r3], 0x80;
ACQUIRE
bar.sync 0;
"""


@pytest.mark.parametrize("acquire", ["fence.proxy.tensormap::generic.acquire.gpu [%d0], 0x80;", ""])
def test_maps_made_on_the_device(acquire: str) -> None:
    memory = DeviceMemory()
    map, out = memory.allocate(SIZE), memory.copy_in(np.zeros((8, 32), np.float32))
    tensor = memory.copy_in(TENSOR)
    load_box = INIT.replace("COUNT", "1") + TENSOR_LOAD.replace("X;", "8;").replace("Y;", "2;") + WAIT + UNSWIZZLED
    program = load(kernel_text(MAKE.replace("ACQUIRE", acquire) + load_box, 3))
    launch = Launch(program, shared=8192)
    if acquire:
        launch.run(memory, [map, out, tensor])
        assert (memory.copy_out(out, (8, 32), np.float32) == TENSOR[2:10, 8:40]).all()
    else:
        with pytest.raises(SimulationError, match=r"no fence\.proxy\.tensormap"):
            launch.run(memory, [map, out, tensor])


ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%d0], 0x80;"
STORED_AGAIN = """
mov.b32 %r3, 6144; mad.lo.u32 %r2, %r0, 4, %r3; mov.b32 %r1, 0; st.shared.b32 [%r2], %r1; bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r3], 0x80;
"""


def stored_again(between: str, behind: str) -> None:
    """A copy, `between`, another map in the place of its map, and `behind`."""
    memory = DeviceMemory()
    map, out = memory.allocate(SIZE), memory.copy_in(np.zeros((8, 32), np.float32))
    tensor = memory.copy_in(TENSOR)
    copy = INIT.replace("COUNT", "1") + TENSOR_LOAD.replace("X;", "8;").replace("Y;", "2;")
    program = load(kernel_text(MAKE.replace("ACQUIRE", ACQUIRE) + copy + between + STORED_AGAIN + behind, 3))
    Launch(program, shared=8192).run(memory, [map, out, tensor])


def test_a_map_is_not_stored_where_a_copy_under_way_reads_one() -> None:
    stored_again(WAIT, "")
    with pytest.raises(SimulationError, match="nobody has waited for reads the tensor map there"):
        stored_again("", WAIT)


def test_a_map_that_is_stored_again_is_acquired_again() -> None:
    with pytest.raises(SimulationError, match=r"no fence\.proxy\.tensormap"):
        stored_again(WAIT, TENSOR_LOAD.replace("X;", "8;").replace("Y;", "2;"))
