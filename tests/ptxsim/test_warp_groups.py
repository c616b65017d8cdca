"""Products of warp groups: layouts of operands, and what may not happen while they are in flight."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_programs import REGISTERS
from test_matrix_descriptors import descriptor

from tilewright.backends.ptxsim import DeviceMemory, Launch, SimulationError, load
from tilewright.backends.ptxsim.matrix_descriptors import WGMMA_SWIZZLES, byte_addresses, read_descriptor
from tilewright.backends.ptxsim.mma import accumulator

M, N, K = 64, 16, 16
A = np.random.default_rng(0).standard_normal((M, K)).astype(np.float16)
B = np.random.default_rng(1).standard_normal((N, K)).astype(np.float16)
FENCE = "wgmma.fence.sync.aligned;"
SECOND = 8192
"""The address of the second operand."""


def image(first: int, second: int, *, across: tuple[bool, bool]) -> np.ndarray:
    """Shared memory with both operands where the descriptors say."""
    memory = np.zeros(16384, np.uint8)
    for bits, matrix, transposed in ((first, A, across[0]), (second, B, across[1])):
        found = read_descriptor(bits, WGMMA_SWIZZLES)
        assert found is not None
        places = byte_addresses(found, rows=len(matrix), depth=K, size=2, transposed=transposed)
        memory[places] = matrix.view(np.uint8)
    return memory


def run(product: str, memory: np.ndarray, *, fence: str = "fence.proxy.async.shared::cta;") -> np.ndarray:
    """The accumulator that the group has behind `product`, in which {D} stands for its registers %r20, …"""
    registers = ", ".join(f"%r{20 + number}" for number in range(8))
    copies = "".join(
        f"ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d10+{2048 * number}];"
        f"st.shared.v4.b32 [%r1+{2048 * number}], {{%r4, %r5, %r6, %r7}};"
        for number in range(8)
    )
    zeros = "".join(f"mov.b32 %r{20 + number}, 0;" for number in range(8))
    stores = "".join(f"st.global.b32 [%d11+{4 * number}], %r{20 + number};" for number in range(8))
    text = f"""
    .version 8.8 .target sm_90a .address_size 64
    .visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)
    .reqntid 128
    {{ {REGISTERS}
    ld.param.b64 %d0, [k_param_0]; ld.param.b64 %d1, [k_param_1]; mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 4; mul.wide.u32 %d10, %r0, 16; add.s64 %d10, %d10, %d0; {copies} {zeros}
    {fence}
    bar.sync 0; wgmma.fence.sync.aligned;
    {product.replace("{D}", "{" + registers + "}")}
    mul.wide.u32 %d11, %r0, 32; add.s64 %d11, %d11, %d1; {stores}
    ret; }}
    """
    heap = DeviceMemory()
    source, out = heap.copy_in(memory), heap.copy_in(np.zeros((4, 32, 8), np.float32))
    Launch(load(text), shared=16384).run(heap, [source, out])
    found = heap.copy_out(out, (4, 32, 8), np.float32)
    result = np.zeros((4, 16, N))
    result[(slice(None), *accumulator(16, N))] = found
    return result.reshape(M, N)


FORM = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"
DONE = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
FIRST = descriptor(0, stride=1024, swizzle=128)
OTHER = descriptor(SECOND, stride=1024, swizzle=128)
PLAIN = image(FIRST, OTHER, across=(False, False))


def issued(first: int = FIRST, second: int = OTHER, flags: str = "0, 1, 1, 0, 0") -> str:
    return f"mov.b64 %d20, {first}; mov.b64 %d21, {second}; {FORM} {{D}}, %d20, %d21, {flags};"


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() < 1e-4)


EXPECTED = A.astype(float) @ B.astype(float).T


@pytest.mark.parametrize("width", [0, 32, 64, 128])
@pytest.mark.parametrize("across", [(False, False), (True, False), (False, True), (True, True)])
def test_layouts(width: int, across: tuple[bool, bool]) -> None:
    """The depth contiguous, or rows; with each swizzle, and none."""
    block = 8 * (width or 16)
    depth = {"leading": 16384 // 4 if not width else 0, "stride": block}
    bits = []
    for start, rows, transposed in ((0, M, across[0]), (SECOND, N, across[1])):
        blocks = -(-rows * 2 // (width or 16))
        far = {"leading": 2 * block, "stride": block} if width else {"leading": block * blocks, "stride": block}
        bits.append(descriptor(start, **(far if transposed else depth), swizzle=width))
    memory = image(bits[0], bits[1], across=across)
    flags = f"0, 1, 1, {int(across[0])}, {int(across[1])}"
    assert close(run(issued(bits[0], bits[1], flags) + DONE, memory), EXPECTED)


def test_chains_signs_and_first_operands_in_registers() -> None:
    again = issued(flags="1, 1, 1, 0, 0") * 2
    assert close(run(issued() + again + DONE, PLAIN), 3 * EXPECTED)
    assert close(run(issued(flags="1, -1, 1, 0, 0") + DONE, PLAIN), -EXPECTED)
    ones = "add.s32 %r10, 0x3C003C00, 0;"
    start = f"{ones} {FENCE} mov.b64 %d21, {OTHER};"
    product = f"{start} {FORM} {{D}}, {{%r10, %r10, %r10, %r10}}, %d21, 0, 1, 1, 0; {DONE}"
    assert close(run(product, PLAIN), np.ones((M, K)) @ B.astype(float).T)


def test_accumulators_in_flight() -> None:
    for nobody_waits in ("", "wgmma.wait_group.sync.aligned 0;"):  # of a group that is not committed
        with pytest.raises(SimulationError, match=r"no wgmma\.wait_group has waited"):
            run(issued() + nobody_waits, PLAIN)
    early = issued() + "mov.b32 %r20, 0;" + DONE
    assert close(run(early, PLAIN), EXPECTED)


def test_first_operands_in_registers_may_be_read_while_products_are_in_flight() -> None:
    start = f"add.s32 %r10, 0x3C003C00, 0; {FENCE} mov.b64 %d21, {OTHER};"
    product = f"{FORM} {{D}}, {{%r10, %r10, %r10, %r10}}, %d21, 0, 1, 1, 0;"
    found = run(f"{start} {product} add.s32 %r3, %r10, 1; {DONE}", PLAIN)
    assert close(found, np.ones((M, K)) @ B.astype(float).T)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("product", "said"),
    [
        (issued() + "st.shared.b32 [%r1], %r0;" + DONE, "still reads"),
        (issued() + DONE + "xor.b32 %r1, %r1, 512; st.shared.b32 [%r1], %r0;", "has read, with no barrier between"),
        ("setp.lt.u32 %p1, %r0, 64;" + issued().replace(FORM, f"@%p1 {FORM}"), "whole group of four warps"),
        (issued(first=FIRST | 1 << 49), "matrix descriptor"),
        (issued(first=descriptor(16128, stride=1024, swizzle=128)), "reaches out"),
    ],
)
def test_mistakes(product: str, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        run(product, PLAIN)


def test_missing_fence() -> None:
    with pytest.raises(SimulationError, match=r"no fence\.proxy\.async"):
        run(issued() + DONE, PLAIN, fence="")


AGAIN = issued(flags="1, 1, 1, 0, 0")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"add.s32 %r20, %r0, 0; {FENCE}", ""),
        (FENCE, "add.s32 %r2, %r27, 0;"),
        (FENCE, "add.s32 %r20, %r0, 0;"),
    ],
)
def test_registers_between_products_and_other_instructions(before: str, after: str) -> None:
    """A fence orders threads that write registers of products; products with the same sums need none."""
    run(before + AGAIN + DONE + after + FENCE + AGAIN + AGAIN + DONE, PLAIN)
    without = before.replace(FENCE, "") + AGAIN if not after else before + AGAIN + DONE + after + AGAIN
    with pytest.raises(SimulationError, match=r"with no wgmma\.fence in between"):
        run(without + DONE, PLAIN)
