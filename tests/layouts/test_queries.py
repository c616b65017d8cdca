"""The questions of passes about layouts: sizes per thread, warp and block, orders, views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.layouts import queries
from tilewright.layouts.encodings import Encoding, encoding

BLOCKED = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
CLUSTER = BLOCKED.replace("}>", ", CGALayout = [[0, 1], [0, 0]]}>")
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
WGMMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"
LINEAR = (
    "#ttg.linear<{register = [[0, 1], [0, 0], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "
    "warp = [[16, 0]], block = [[32, 0]]}>"
)
LAYOUTS = {
    "blocked": (BLOCKED, (64, 128)),
    "blocked, small tile": (BLOCKED, (16, 16)),
    "cluster": (CLUSTER, (64, 128)),
    "slice": (f"#ttg.slice<{{dim = 0, parent = {BLOCKED}}}>", (128,)),
    "slice of cluster": (f"#ttg.slice<{{dim = 0, parent = {CLUSTER}}}>", (128,)),
    "mma": (MMA, (64, 64)),
    "wgmma": (WGMMA, (64, 64)),
    "operand 0": (f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>", (64, 32)),
    "operand 1": (f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 2}}>", (32, 64)),
    "operand 1 of blocked": (f"#ttg.dot_op<{{opIdx = 1, parent = {BLOCKED}}}>", (32, 64)),
    "linear": (LINEAR, (64, 8)),
}
ASKED: tuple[Callable[..., Any], ...] = (
    queries.order,
    queries.thread_order,
    queries.warp_order,
    queries.memory_order,
    queries.elements_per_thread,
    queries.total_elements_per_thread,
    queries.unique_elements_per_thread,
    queries.contiguous_per_thread,
    queries.threads_per_warp,
    queries.warps_per_cta,
    queries.shape_per_cta,
)
OF_LAYOUT: tuple[Callable[..., Any], ...] = (
    queries.num_warps,
    queries.num_ctas,
    queries.cga_layout,
    queries.cta_split,
    queries.ctas_per_cga,
)


def test_answers(golden: Callable[[str, str], None]) -> None:
    lines = []
    for name, (text, shape) in LAYOUTS.items():
        layout = encoding(text)
        lines.append(f"{name} {'x'.join(map(str, shape))}: {text}")
        lines += [f"    {ask.__name__} {ask(layout, shape)}" for ask in ASKED]
        lines += [f"    {ask.__name__} {ask(layout)}" for ask in OF_LAYOUT]
    golden("\n".join(lines) + "\n", "layouts/queries.txt")


def made(text: str) -> Any:
    return encoding(text)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>", (0, 1)),
        ("#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>", (0, 1)),
        ("#ttg.padded_shared<[64:+4] {order = [1, 0], shape = [16, 32]}>", (1, 0)),
        ("#ttg.shared_linear<{offset = [[1, 0], [0, 1]]}, alignment = 16>", (0, 1)),
    ],
)
def test_order_of_buffers(text: str, order: tuple[int, ...]) -> None:
    assert queries.buffer_order(made(text)) == order


def test_a_block_has_its_part_of_every_slot_of_a_buffer() -> None:
    layout = made("#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0], CGALayout = [[0, 1]]}>")
    assert queries.shape_per_cta(layout, (3, 64, 32)) == (3, 64, 16)
    assert queries.shape_per_cta(layout, (1,)) == (1,)


def test_equivalent_layouts_have_elements_in_the_same_places() -> None:
    linear: Encoding = made(
        "#ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], block = []}>"
    )
    blocked = made("#ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}>")
    assert queries.equivalent(linear, blocked, (128,))
    assert not queries.equivalent(made(MMA), made(BLOCKED), (64, 64))
    assert not queries.equivalent(made(MMA), blocked, (64, 64))


def test_views_that_move_elements_are_expensive() -> None:
    blocked = made("#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>")
    wide = made(BLOCKED)
    assert not queries.is_expensive_view(blocked, (4096,), wide, (64, 64))
    assert queries.is_expensive_view(blocked, (64,), wide, (8, 8))
    assert queries.is_legal_cat(blocked, (128,), blocked, (256,))
    assert not queries.is_legal_cat(blocked, (64,), blocked, (128,))
