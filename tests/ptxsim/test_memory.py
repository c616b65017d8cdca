"""The memory of a device, and what kernels find in special registers and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_programs import compute, kernel_text

from tilewright.backends.ptxsim import DeviceMemory, Launch, SimulationError, load
from tilewright.backends.ptxsim.memory import GAP

LOAD = "ld.global.b32 %r1, [%d0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0; st.global.b32 [%d1], %r0;"


def launch(memory: DeviceMemory, address: Any, body: str = LOAD) -> None:
    Launch(load(kernel_text(body, 1))).run(memory, [address])


def test_memory_without_values_may_be_stored_to_and_not_loaded() -> None:
    memory = DeviceMemory()
    address = memory.allocate(128, name="fresh")
    with pytest.raises(SimulationError, match="uninitialised memory: load of 4 bytes at byte 0 of `fresh`"):
        launch(memory, address)
    launch(memory, address, LOAD.partition(";")[2])
    assert memory.copy_out(address, (32,), np.int32).tolist() == list(range(32))


def test_memory_that_was_given_back_is_nobodys() -> None:
    memory = DeviceMemory()
    address = memory.copy_in(np.zeros(32, np.int32))
    launch(memory, address)
    memory.free(address)
    with pytest.raises(SimulationError, match="out of bounds"):
        launch(memory, address)


def test_a_place_is_an_address_where_nothing_was_allocated() -> None:
    address = DeviceMemory().allocate(128)
    with pytest.raises(SimulationError, match=f"out of bounds: load of 4 bytes at {address:#x}\n"):
        launch(DeviceMemory(), address)


def test_what_a_kernel_stored_is_known() -> None:
    memory = DeviceMemory()
    address = memory.copy_in(np.zeros(40, np.int32))
    launch(memory, address)
    assert memory.was_written(address, 160).tolist() == [True] * 128 + [False] * 32


def test_read_only_memory_is_not_stored_to() -> None:
    memory = DeviceMemory()
    address = memory.copy_in(np.zeros(32, np.int32), name="constant", writable=False)
    with pytest.raises(SimulationError, match="read-only memory: store of 4 bytes at byte 0 of `constant`"):
        launch(memory, address)


def test_allocations_lie_apart_at_the_place_that_is_asked_for() -> None:
    memory = DeviceMemory()
    first, second = memory.allocate(100), memory.allocate(100, align=256, phase=12)
    assert first % 256 == 0
    assert second % 256 == 12
    assert second - first >= GAP
    with pytest.raises(MemoryError):
        memory.allocate(1 << 40)


def test_parameters_have_their_sizes_and_alignments() -> None:
    text = """.version 8.8 .target sm_90 .address_size 64
    .visible .entry k(.param .u8 small, .param .u64 pointer, .param .f32 number, .param .align 16 .b8 bytes[16])
    .reqntid 1 { .reg .b32 %r<5>; .reg .b64 %d<2>; .reg .b16 %h;
    ld.param.u8 %h, [small]; cvt.u32.u16 %r0, %h; ld.param.u64 %d0, [pointer]; ld.param.f32 %r1, [number];
    mov.b64 %d1, bytes; cvta.param.u64 %d1, %d1; ld.v2.b32 {%r2, %r3}, [%d1+8];
    st.global.v4.b32 [%d0], {%r0, %r1, %r2, %r3}; ret; }"""
    memory = DeviceMemory()
    address = memory.copy_in(np.zeros(4, np.uint32))
    arguments = [200, address, 1.5, np.arange(4, dtype=np.uint32).tobytes()]
    Launch(load(text)).run(memory, arguments)
    assert memory.copy_out(address, (4,), np.uint32).tolist() == [200, 0x3FC00000, 2, 3]
    with pytest.raises(SimulationError, match="bytes has 16 bytes, not 3"):
        Launch(load(text)).run(memory, [*arguments[:3], b"abc"])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("register", "wanted"),
    [
        ("%laneid", lambda n: n % 32),
        ("%tid.y", lambda n: 0),
        ("%ntid.x", lambda n: 32),
        ("%lanemask_lt", lambda n: (1 << n % 32) - 1),
        ("%lanemask_ge", lambda n: 0xFFFFFFFF & ~((1 << n % 32) - 1)),
        ("%ctaid.x", lambda n: n // 32),
        ("WARP_SZ", lambda n: 32),
    ],
)
def test_special_registers(register: str, wanted: Any) -> None:
    found = compute(f"mov.u32 %r9, {register};", "u4", np.zeros(64, np.uint32))
    assert found.tolist() == [wanted(n) for n in range(64)]


def test_blocks_of_several_dimensions_count_x_first() -> None:
    body = """mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mad.lo.u32 %r3, %r2, 2, %r1; mad.lo.u32 %r3, %r3, 8, %r0;
    mul.wide.u32 %d1, %r3, 4; add.s64 %d1, %d1, %d0; mov.u32 %r4, %warpid; st.global.b32 [%d1], %r4;"""
    text = kernel_text(body, 1).replace(".reqntid 32", "")
    memory = DeviceMemory()
    address = memory.copy_in(np.zeros(64, np.uint32))
    Launch(load(text), threads=(8, 2, 4)).run(memory, [address])
    assert memory.copy_out(address, (64,), np.uint32).tolist() == [n // 32 for n in range(64)]
