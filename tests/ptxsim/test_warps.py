"""Matrix moves between shared memory and registers, match, redux and elect."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_programs import kernel_text, run


def moved(code: str, words: int) -> np.ndarray:
    """The registers %r10, … of a warp behind `code`, with bytes 0, 1, 2, … in shared memory."""
    place = "shl.b32 %r1, %r0, 4;"
    content = (np.arange(512) % 256).astype(np.uint8).view(np.uint32).reshape(32, 4)
    loads = "mul.wide.u32 %d60, %r0, 16; add.s64 %d60, %d60, %d0; ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%d60];"
    store = "st.shared.v4.b32 [%r1], {%r5, %r6, %r7, %r8}; bar.sync 0;"
    results = "\n".join(f"st.global.b32 [%d61+{4 * number}], %r{10 + number};" for number in range(words))
    out = f"mul.wide.u32 %d61, %r0, {4 * words}; add.s64 %d61, %d61, %d1; {results}"
    text = kernel_text("\n".join([place, loads, store, code, out]))
    return run(text, content, np.zeros((32, words), np.uint32), shared=1024)[1]


def test_ldmatrix() -> None:
    found = moved("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r1];", 4)
    raw = (np.arange(512) % 256).astype(np.uint8).reshape(4, 8, 16)
    for lane in (0, 5, 31):
        for number in range(4):
            row = raw[number, lane // 4, lane % 4 * 4 : lane % 4 * 4 + 4]
            assert found[lane, number].tobytes() == row.tobytes()


def test_ldmatrix_transposed() -> None:
    found = moved("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r10, %r11}, [%r1];", 2)
    raw = (np.arange(256) % 256).astype(np.uint8).view(np.uint16).reshape(2, 8, 8)
    for lane in (0, 5, 31):
        for number in range(2):
            column = raw[number, lane % 4 * 2 : lane % 4 * 2 + 2, lane // 4]
            assert found[lane, number].tobytes() == column.tobytes()


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_is_the_reverse(trans: str) -> None:
    code = f"""
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r1];
    add.s32 %r9, %r1, 512; stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r9], {{%r10, %r11, %r12, %r13}};
    bar.sync 0; ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r9];
    """
    assert (moved(code, 4).view(np.uint8).ravel() == np.arange(512) % 256).all()


def test_movmatrix() -> None:
    code = """
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r1]; movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r9;
    ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r11}, [%r1];
    """
    found = moved(code, 2)
    assert (found[:, 0] == found[:, 1]).all()


def of_warp(code: str, values: np.ndarray, results: int = 2) -> np.ndarray:
    """%r10, … of each lane behind `code`, with the lane's value in %r1."""
    load = "mul.wide.u32 %d60, %r0, 4; add.s64 %d60, %d60, %d0; ld.global.b32 %r1, [%d60];"
    stores = "".join(f"st.global.b32 [%d61+{4 * number}], %r{10 + number};" for number in range(results))
    out = f"mul.wide.u32 %d61, %r0, {4 * results}; add.s64 %d61, %d61, %d1; {stores}"
    text = kernel_text("\n".join([load, code, out]))
    return run(text, values, np.zeros((32, results), np.uint32))[1]


LANES = np.arange(32, dtype=np.uint32)


def test_match() -> None:
    code = """
    match.any.sync.b32 %r10, %r1, -1; match.all.sync.b32 %r11|%p1, %r1, -1;
    """
    found = of_warp(code, LANES % 2)
    assert found[:2, 0].tolist() == [0x55555555, 0xAAAAAAAA]
    assert not found[:, 1].any()
    assert (of_warp(code, LANES * 0)[:, 1] == 0xFFFFFFFF).all()


def test_redux() -> None:
    code = "redux.sync.add.s32 %r10, %r1, -1; redux.sync.max.u32 %r11, %r1, -1;"
    assert of_warp(code, LANES).tolist() == [[496, 31]] * 32
    few = "mov.b32 %r10, 0; setp.lt.u32 %p1, %r0, 4; @%p1 redux.sync.max.s32 %r10, %r1, 0xF;"
    assert of_warp(few, LANES, 1)[:5, 0].tolist() == [3, 3, 3, 3, 0]
    floats = (LANES.astype(np.float32) - 20).view(np.uint32)
    code = "redux.sync.max.abs.f32 %r10, %r1, -1; redux.sync.min.NaN.f32 %r11, %r1, -1;"
    assert of_warp(code, floats).view(np.float32)[0].tolist() == [20.0, -20.0]
    floats[3] = 0x7FC00000
    found = of_warp(code, floats).view(np.float32)[0]
    assert (found[0], np.isnan(found[1])) == (20.0, True)


def test_elect() -> None:
    code = "mov.b32 %r11, 0; elect.sync %r10|%p1, -1; @%p1 mov.b32 %r11, 1;"
    found = of_warp(code, LANES)
    assert (found[:, 0].any(), found[:, 1].tolist()) == (False, [1] + [0] * 31)
