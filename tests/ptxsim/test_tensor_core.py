"""Products and copies of sm_100: results in tensor memory, and what may not happen while they are in flight."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_programs import kernel_text

from tilewright.backends.ptxsim import DeviceMemory, Launch, SimulationError, load
from tilewright.backends.ptxsim.matrix_descriptors import instruction_descriptor

ROWS, N, K = 128, 16, 16
A = np.random.default_rng(0).standard_normal((ROWS, K)).astype(np.float16)
B = np.random.default_rng(1).standard_normal((N, K)).astype(np.float16)
SECOND = 4096
PLAIN = np.concatenate([A.view(np.uint8).reshape(-1), B.view(np.uint8).reshape(-1)])
"""Rows of 32 bytes, in blocks of eight."""


def swizzled(image: np.ndarray) -> np.ndarray:
    """The image with the swizzle of 32 bytes."""
    places = np.arange(len(image))
    found = np.zeros_like(image)
    found[places ^ ((places >> 7 & 1) << 4)] = image
    return found


def descriptor(start: int, *, swizzle: int = 6, stride: int = 256, leading: int = 0) -> int:
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | 1 << 46 | swizzle << 61


def form(rows: int = ROWS) -> int:
    return 1 << 4 | N >> 3 << 17 | rows >> 4 << 24


HEAD = """
setp.lt.u32 %p1, %r0, 32; setp.eq.u32 %p2, %r0, 0; mov.b32 %r40, 8192; mov.b32 %r42, 8200;
@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r40], 64;
@%p2 mbarrier.init.shared::cta.b64 [%r42], 1;
shl.b32 %r1, %r0, 4; mul.wide.u32 %d10, %r0, 16; add.s64 %d10, %d10, %d0;
LOADS
fence.proxy.async.shared::cta;
bar.sync 0; ld.shared.b32 %r41, [%r40]; mov.b32 %r43, 0; setp.ne.u32 %p4, %r43, 0; setp.eq.u32 %p5, %r43, 0;
shr.u32 %r44, %r0, 5; shl.b32 %r44, %r44, 21; add.s32 %r44, %r44, %r41;
"""
COMMIT = "@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r42];"
WAIT = "$w: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r42], %r43; @!%p3 bra $w;"
REGISTERS = "{" + ", ".join(f"%r{10 + number}" for number in range(16)) + "}"
LOAD = f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {REGISTERS}, [%r44]; tcgen05.wait::ld.sync.aligned;"
FREE = "bar.sync 0; @%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r41, 64;"
OUT = "mul.wide.u32 %d11, %r0, 64; add.s64 %d11, %d11, %d1;" + "".join(
    f"st.global.b32 [%d11+{4 * number}], %r{10 + number};" for number in range(16)
)


def run(body: str, image: np.ndarray, *, head: str = HEAD) -> np.ndarray:
    """The 16 words of every row of tensor memory that the threads have read behind `body`."""
    padded = np.resize(image, 6144)
    loads = "".join(
        f"ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d10+{2048 * number}];"
        f"st.shared.v4.b32 [%r1+{2048 * number}], {{%r4, %r5, %r6, %r7}};"
        for number in range(3)
    )
    text = kernel_text(head.replace("LOADS", loads) + body + OUT, threads=128).replace("sm_90a", "sm_100a")
    memory = DeviceMemory()
    source, out = memory.copy_in(padded), memory.copy_in(np.zeros((128, 16), np.float32))
    Launch(load(text), shared=8448).run(memory, [source, out])
    return memory.copy_out(out, (128, 16), np.float32)


def product(rows: int = ROWS, *, first: str = "%d20", adds: str = "%p4") -> str:
    return (
        f"mov.b64 %d20, {descriptor(0)}; mov.b64 %d21, {descriptor(SECOND)}; mov.b32 %r45, {form(rows)};"
        f"@%p2 tcgen05.mma.cta_group::1.kind::f16 [%r41], {first}, %d21, %r45, {adds};"
    )


EXPECTED = A.astype(float) @ B.astype(float).T


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() < 1e-4)


def test_products() -> None:
    image = swizzled(PLAIN)
    assert close(run(product() + COMMIT + WAIT + LOAD + FREE, image), EXPECTED)
    twice = product() + product(adds="%p5") + COMMIT + WAIT + LOAD + FREE
    assert close(run(twice, image), 2 * EXPECTED)


def test_sixty_four_rows_leave_gaps() -> None:
    found = run(product(64) + COMMIT + WAIT + LOAD + FREE, swizzled(PLAIN)).reshape(4, 2, 16, N)
    assert close(found[:, 0].reshape(64, N), EXPECTED[:64])
    assert np.isnan(found[:, 1]).all()


def test_first_operands_in_tensor_memory() -> None:
    ones = "mov.b32 %r9, 0x3C003C00; add.s32 %r46, %r44, 32; add.s32 %r47, %r41, 32;"
    registers = ", ".join(["%r9"] * 8)
    store = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r46], {{{registers}}}; tcgen05.wait::st.sync.aligned; bar.sync 0;"
    body = ones + store + product(first="[%r47]") + COMMIT + WAIT + LOAD + FREE
    assert close(run(body, swizzled(PLAIN)), np.ones((ROWS, K)) @ B.astype(float).T)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (product() + COMMIT + LOAD, "in flight will write"),
        (product() + LOAD, "in flight will write"),
        (product() + COMMIT + "st.shared.b32 [%r1], %r0;", "still reads"),
        (product() + WAIT, "deadlock"),
        (product() + COMMIT + FREE, "still uses"),
        (product().replace("cta_group::1", "cta_group::2"), "has no pairs"),
    ],
)
def test_mistakes(body: str, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        run(body, swizzled(PLAIN))


def test_the_word_that_held_the_address_needs_no_fence() -> None:
    """An allocation puts its address where the second operand is; a product may read that, where such reads are none.

    It reads what a thread has stored there as little as ever.
    """
    head = HEAD.replace("LOADS", "").replace("fence.proxy.async.shared::cta;", "").replace("8192", "4096")
    body = head + product() + COMMIT + WAIT + FREE
    text = kernel_text(body, threads=128).replace("sm_90a", "sm_100a")
    reads = "ld.shared.b32 %r41, [%r40];"
    other = text.replace(reads, f"{reads} bar.sync 0; @%p2 st.shared.b32 [%r40], %r41; bar.sync 0;")

    def launch(program: str) -> None:
        memory = DeviceMemory()
        arrays = [memory.copy_in(np.zeros(6144, np.uint8)) for _ in range(2)]
        Launch(load(program), shared=8448, uninitialized="nan").run(memory, arrays)

    launch(text)
    with pytest.raises(SimulationError, match=r"with no fence\.proxy\.async"):
        launch(other)


def test_missing_fence() -> None:
    with pytest.raises(SimulationError, match=r"no fence\.proxy\.async"):
        run(product() + COMMIT + WAIT, swizzled(PLAIN), head=HEAD.replace("fence.proxy.async.shared::cta;", ""))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "width", "rows"),
    [
        ("128x256b", 32, list(range(128))),
        ("128x128b", 16, list(range(128))),
        ("64x128b.warpx2::02_13", 16, [*range(64), *range(64)]),
        ("64x128b.warpx2::01_23", 16, [*range(32), *range(32), *range(32, 64), *range(32, 64)]),
        ("32x128b.warpx4", 16, [*range(32)] * 4),
    ],
)
def test_copies_to_tensor_memory(name: str, width: int, rows: list[int]) -> None:
    image = np.arange(4096 // 4, dtype=np.uint32)
    source = descriptor(0, swizzle=0, stride=8 * 16, leading=2048)
    body = f"mov.b64 %d20, {source}; @%p2 tcgen05.cp.cta_group::1.{name} [%r41], %d20;" + COMMIT + WAIT + LOAD + FREE
    found = run(body, image.view(np.uint8)).view(np.uint32)[:, : width // 4]
    halves = image.reshape(2, 128, 4)
    table = np.concatenate(list(halves), axis=1)[:, : width // 4]
    assert (found == table[rows]).all()


MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PAIR = f"""
mov.u32 %r48, %ctaid.x; mul.wide.u32 %d12, %r48, 6144; add.s64 %d0, %d0, %d12;
mul.wide.u32 %d12, %r48, 8192; add.s64 %d1, %d1, %d12; setp.eq.u32 %p6, %r48, 0;
{HEAD.replace("cta_group::1", "cta_group::2")} and.pred %p2, %p2, %p6;
"""
PAIR_COMMIT = (
    "mov.b16 %h1, 3; @%p2 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    " [%r42], %h1;"
)


def of_pair(body: str) -> np.ndarray:
    """The rows that two CTAs have read, one after the other; each has half of the rows of A and of the columns of B."""
    heights = np.random.default_rng(2).standard_normal((2, ROWS, K)).astype(np.float16)
    halves = zip(heights, np.split(B, 2), strict=True)
    images = [np.concatenate([a.view(np.uint8).reshape(-1), b.view(np.uint8).reshape(-1)]) for a, b in halves]
    padded = np.concatenate([np.resize(swizzled(image), 6144) for image in images])
    loads = "".join(
        f"ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d10+{2048 * number}];"
        f"st.shared.v4.b32 [%r1+{2048 * number}], {{%r4, %r5, %r6, %r7}};"
        for number in range(3)
    )
    text = kernel_text(PAIR.replace("LOADS", loads) + body + OUT, threads=128).replace("sm_90a", "sm_100a")
    memory = DeviceMemory()
    source, out = memory.copy_in(padded), memory.copy_in(np.zeros((256, 16), np.float32))
    Launch(load(text), grid=(2, 1, 1), cluster=(2, 1, 1), shared=8448).run(memory, [source, out])
    found: np.ndarray = memory.copy_out(out, (256, 16), np.float32)
    return found - heights.reshape(256, K).astype(float) @ B.astype(float).T


PAIR_PRODUCT = product().replace("cta_group::1", "cta_group::2").replace(str(form()), str(form(256)))
PAIR_FREE = MEET + FREE.replace("cta_group::1", "cta_group::2")


def test_products_of_pairs_of_ctas() -> None:
    difference = of_pair(MEET + PAIR_PRODUCT + PAIR_COMMIT + WAIT + LOAD + PAIR_FREE)
    assert np.abs(difference).max() < 1e-4


@pytest.mark.quick
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (PAIR_PRODUCT + PAIR_COMMIT + WAIT + LOAD + PAIR_FREE, "race"),
        (MEET + PAIR_PRODUCT + PAIR_COMMIT.replace("%h1, 3", "%h1, 1") + WAIT + LOAD + PAIR_FREE, "deadlock"),
        (MEET + PAIR_PRODUCT + PAIR_COMMIT + LOAD + PAIR_FREE, "in flight will write"),
        (MEET + PAIR_PRODUCT.replace(str(form(256)), str(form(64))), "unsupported"),
    ],
)
def test_mistakes_of_pairs_of_ctas(body: str, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        of_pair(body)


def test_descriptors_of_products() -> None:
    found = instruction_descriptor("mxf4nvf4", 1 << 7 | 1 << 10 | 128 >> 3 << 17 | 1 << 27 | 2 << 29 | 1 << 4)
    assert found is not None
    assert (found.rows, found.columns, found.depth, found.scale, found.scale_places) == (128, 128, 64, "ue4m3", (2, 1))
    assert instruction_descriptor("f16", 1 << 2) is None
    for bit, signs in ((13, (-1, 1)), (14, (1, -1))):
        negated = instruction_descriptor("f16", 1 << 4 | 1 << bit | 1 << 17 | 8 << 24)
        assert negated is not None
        assert negated.signs == signs
    narrow = instruction_descriptor("f8f6f4", 1 << 4 | 5 << 7 | 3 << 10 | 1 << 17 | 8 << 24)
    assert narrow is not None
    raw = np.zeros((1, 16), np.uint8)
    raw[0, :2] = (0x72, 0x0F)
    assert narrow.values(raw, "e2m1")[0, :4].tolist() == [1.0, 6.0, -6.0, 0.0]
    raw[0, :3] = (0b11_011111, 0b0000_0000, 0)
    assert narrow.values(raw, "e2m3")[0, :2].tolist() == [7.5, 0.375]
