"""Layouts drawn as Triton draws them; tests/oracle/test_tritons_views.py compares more of them with Triton itself."""

from __future__ import annotations

import pytest

from tilewright.gluon import language as gl

SMALL = gl.BlockedLayout([1, 2], [2, 2], [2, 1], [1, 0])


def test_a_tile_in_registers() -> None:
    assert SMALL.format_tensor_view([2, 4]) == (
        "[[T0:0|T4:0, T0:1|T4:1, T1:0|T5:0, T1:1|T5:1]\n[ T2:0|T6:0, T2:1|T6:1, T3:0|T7:0, T3:1|T7:1]]\n"
    )


def test_brackets_of_three_axes() -> None:
    layout = gl.BlockedLayout([1, 1, 1], [1, 1, 2], [1, 1, 1], [2, 1, 0])
    rows = [f"T0:{row}, T1:{row}" for row in range(8)]
    assert layout.format_tensor_view([2, 4, 2]) == (
        f"[[[{rows[0]}]\n[  {rows[1]}]\n[  {rows[2]}]\n[  {rows[3]}]]\n"
        f"[[ {rows[4]}]\n[  {rows[5]}]\n[  {rows[6]}]\n[  {rows[7]}]]]\n"
    )


def test_elements_of_registers() -> None:
    assert SMALL.format_hardware_view([4, 4]) == (
        "Warp0:\n(0,0), (0,2), (1,0), (1,2)\n(0,1), (0,3), (1,1), (1,3)\n"
        "Warp1:\n(2,0), (2,2), (3,0), (3,2)\n(2,1), (2,3), (3,1), (3,3)\n"
    )


def test_several_ctas() -> None:
    layout = gl.BlockedLayout([1], [2], [1], [0], [[1]])
    assert layout.format_tensor_view([4]) == "[B0:T0:0, B0:T1:0, B1:T0:0, B1:T1:0]\n"
    assert layout.format_hardware_view([4]) == "Block0:\nWarp0:\n(0), (1)\nBlock1:\nWarp0:\n(2), (3)\n"


def test_shared_memory() -> None:
    swizzled = gl.SwizzledSharedLayout(1, 1, 2, [1, 0])
    assert swizzled.format_tensor_view([2, 2]) == "[[(0:0),(0:1)]\n[ (1:1),(1:0)]]\n"
    assert swizzled.format_hardware_view([2, 2]) == (
        "Block: 0:\nOffset: 0 -> (0,0)\nOffset: 1 -> (0,1)\nOffset: 2 -> (1,1)\nOffset: 3 -> (1,0)\n"
    )


@pytest.mark.parametrize("layout", [gl.AutoLayout(), gl.CoalescedLayout()])
def test_open_layouts_have_no_view(layout: gl.DistributedLayout) -> None:
    with pytest.raises(ValueError, match="cannot be visualized: no layout is known yet"):
        layout.format_tensor_view([4])


def test_padded_layouts_have_no_view() -> None:
    layout = gl.PaddedSharedLayout.with_identity_for([[32, 4]], [16, 64], [1, 0])
    with pytest.raises(ValueError, match="PaddedSharedLayout cannot be visualized: its places have holes"):
        layout.format_hardware_view([16, 64])
