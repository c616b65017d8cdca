"""Products of warp groups: layouts of operands and sum that go together, and how others are refused.

Each of those that are refused gave a wrong result, a broken rule of the verifier, a failing assertion or PTX that the
assembler does not know.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

DEPTH = 64


@gluon.jit
def product_in_layouts(
    a,
    b,
    c,
    N: gl.constexpr,
    SUM: gl.constexpr,
    LEFT: gl.constexpr,
    RIGHT: gl.constexpr,
    DTYPE: gl.constexpr,
    WIDTH: gl.constexpr,
    ASYNC: gl.constexpr,
):
    K: gl.constexpr = 64
    M: gl.constexpr = 64
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None]
    depths = gl.arange(0, K, layout=gl.SliceLayout(0, layout))[None, :]
    below = gl.arange(0, K, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]
    y = gl.allocate_shared_memory(b.dtype.element_ty, [K, N], RIGHT, gl.load(b + below * N + columns))
    total = gl.zeros([M, WIDTH], DTYPE, layout=SUM)
    left = gl.load(a + rows * K + depths)
    if isinstance(LEFT, gl.DotOperandLayout):
        fence_async_shared()
        total = warpgroup_mma(gl.convert_layout(left, LEFT), y, total, is_async=ASYNC)
    else:
        x = gl.allocate_shared_memory(a.dtype.element_ty, [M, K], LEFT, left)
        fence_async_shared()
        total = warpgroup_mma(x, y, total, is_async=ASYNC)
    if ASYNC:
        total = warpgroup_mma_wait(0, deps=(total,))
    at_rows = gl.arange(0, M, layout=gl.SliceLayout(1, SUM))[:, None]
    at_columns = gl.arange(0, WIDTH, layout=gl.SliceLayout(0, SUM))[None, :]
    gl.store(c + at_rows * WIDTH + at_columns, total)


def sums(*shape: int, warps: tuple[int, int] = (4, 1), version: int = 3) -> gl.NVMMADistributedLayout:
    return gl.NVMMADistributedLayout([version, 0], [*warps], [*shape])


def memory(bits: int = 16, swizzle: int = 64, *, transposed: bool = False) -> gl.NVMMASharedLayout:
    return gl.NVMMASharedLayout(swizzle, bits, 2, transposed=transposed)


def run(
    layout: Any, left: Any = None, right: Any = None, *, dtype: Any = np.float16, columns: int = 64, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the kernel stores, and what it should."""
    random = np.random.default_rng(3)
    bits = 8 * np.dtype(dtype).itemsize
    a, b = (random.integers(-3, 4, shape).astype(dtype) for shape in ((64, DEPTH), (DEPTH, columns)))
    chosen = {"DTYPE": gl.float32, "WIDTH": columns, "ASYNC": False, "num_warps": 4, **options}
    c = np.zeros((64, chosen["WIDTH"]), np.float32)
    with tilewright.simulate("cuda:90"):
        product_in_layouts[(1,)](
            a, b, c, N=columns, SUM=layout, LEFT=left or memory(bits), RIGHT=right or memory(bits), **chosen
        )
    return c, a.astype(np.float32) @ b.astype(np.float32)


PLAIN = sums(16, 64, 16)


@pytest.mark.parametrize(
    ("layout", "left", "options"),
    [
        pytest.param(PLAIN, None, {}, id="memory"),
        pytest.param(PLAIN, None, {"ASYNC": True}, id="running"),
        pytest.param(sums(16, 8, 16), None, {}, id="many-instructions"),
        pytest.param(sums(16, 32, 16, warps=(4, 2)), None, {"num_warps": 8}, id="two-groups"),
        pytest.param(sums(16, 64, 16, warps=(8, 1)), None, {"num_warps": 8}, id="two-groups-with-the-same-rows"),
        pytest.param(PLAIN, gl.DotOperandLayout(0, PLAIN, 2), {}, id="registers"),
        pytest.param(PLAIN, gl.DotOperandLayout(0, sums(16, 32, 16), 2), {}, id="registers-of-an-equal-layout"),
        pytest.param(PLAIN, gl.DotOperandLayout(0, sums(16, 8, version=2), 2), {}, id="registers-as-for-mma"),
    ],
)
def test_layouts_that_go_together(layout: Any, left: Any, options: dict[str, Any]) -> None:
    np.testing.assert_array_equal(*run(layout, left, **options))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.float8_e5m2])
def test_operands_of_other_widths_that_lie_along_the_depth(dtype: Any) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    np.testing.assert_array_equal(*run(sums(16, 64, 256 // bits), None, memory(bits, transposed=True), dtype=dtype))


@gluon.jit
def partial_sums(a, b, c, n, SUM: gl.constexpr, RIGHT: gl.constexpr, IMPRECISE: gl.constexpr):
    """Two products of bytes: one that is added to 1 where `n` says so, and one to 0."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    above, beside = gl.SliceLayout(1, layout), gl.SliceLayout(0, layout)
    left = gl.load(a + gl.arange(0, 64, above)[:, None] * 64 + gl.arange(0, 64, beside)[None, :])
    right = gl.load(b + gl.arange(0, 64, above)[:, None] * 16 + gl.arange(0, 16, beside)[None, :])
    x = gl.allocate_shared_memory(a.dtype.element_ty, [64, 64], gl.NVMMASharedLayout(64, 8, 2), left)
    y = gl.allocate_shared_memory(b.dtype.element_ty, [64, 16], RIGHT, right)
    fence_async_shared()
    ones = gl.full([64, 16], 1.0, gl.float32, layout=SUM)
    added = warpgroup_mma(x, y, ones, use_acc=n > 0, max_num_imprecise_acc=IMPRECISE)
    alone = warpgroup_mma(x, y, gl.zeros([64, 16], gl.float32, layout=SUM), max_num_imprecise_acc=IMPRECISE)
    at = c + gl.arange(0, 64, gl.SliceLayout(1, SUM))[:, None] * 16 + gl.arange(0, 16, gl.SliceLayout(0, SUM))[None, :]
    gl.store(at, added)
    gl.store(at + 64 * 16, alone)


@pytest.mark.quick
@pytest.mark.parametrize("imprecise", [32, 64, None])
@pytest.mark.parametrize("n", [0, 1])
def test_partial_sums_of_bytes_are_added_to_what_was_there(n: int, imprecise: int | None) -> None:
    """Two partial sums, one, or none: then the instruction itself asks whether to add."""
    random, dtype = np.random.default_rng(3), ml_dtypes.float8_e5m2
    a, b = (random.integers(-3, 4, shape).astype(dtype) for shape in ((64, 64), (64, 16)))
    c = np.zeros((2, 64, 16), np.float32)
    with tilewright.simulate("cuda:90"):
        partial_sums[(1,)](a, b, c, n, SUM=sums(16, 16, 32), RIGHT=memory(8, transposed=True), IMPRECISE=imprecise)
    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, [product + n, product])


BLOCKED = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
OTHER_WARPS = gl.DotOperandLayout(0, sums(16, 64, 16, warps=(1, 4)), 2)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(BLOCKED, id="blocked"),
        pytest.param(sums(16, 8, version=2), id="of-mma"),
        pytest.param(sums(16, 128, 16), id="wider-than-the-tile"),
        pytest.param(sums(16, 64, 8), id="other-depth"),
        pytest.param(sums(16, 32, 16, warps=(2, 2)), id="half-a-group"),
    ],
)
def test_sums_in_other_layouts_are_refused_with_the_layout_that_fits(layout: Any, is_async: bool) -> None:
    with pytest.raises(tilewright.CompilationError) as caught:
        run(layout, ASYNC=is_async)
    message = str(caught.value)
    assert f"acc has the layout {layout}" in message
    assert str(PLAIN) in message
    assert "warpgroup_mma(x, y, total, is_async=ASYNC)" in message
    assert "gl.convert_layout" in message


@pytest.mark.parametrize("left", [OTHER_WARPS, gl.DotOperandLayout(0, PLAIN, 1)])
def test_left_operands_in_other_registers_are_refused(left: Any) -> None:
    with pytest.raises(tilewright.CompilationError) as caught:
        run(PLAIN, left)
    assert f"a has the layout {left}" in str(caught.value)
    assert str(gl.DotOperandLayout(0, PLAIN, 2)) in str(caught.value)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "other shapes": ({"layout": PLAIN, "WIDTH": 32}, "acc is of the shape [64, 32], and a @ b of [64, 64]"),
    "a that wgmma cannot read": (
        {"layout": PLAIN, "left": gl.SwizzledSharedLayout(1, 1, 1, [1, 0])},
        "a has the layout SwizzledSharedLayout",
    ),
    "b that wgmma cannot read": (
        {"layout": PLAIN, "right": gl.SwizzledSharedLayout(1, 1, 1, [1, 0])},
        "b has the layout SwizzledSharedLayout",
    ),
    "b without a swizzle in long rows": ({"layout": PLAIN, "right": memory(16, 0)}, "such a right operand"),
    "b with a swizzle of longer rows": (
        {"layout": sums(16, 32, 16), "right": memory(16, 128), "columns": 32},
        "swizzlingByteWidth = 128 needs 64 elements along dimension 1",
    ),
    "b of f32 across the depth": (
        {"layout": sums(16, 64, 8), "dtype": np.float32},
        "a right operand of f32 whose elements do not follow each other along K",
    ),
    "b of f8 across the depth": (
        {"layout": sums(16, 64, 32), "dtype": ml_dtypes.float8_e5m2},
        "a right operand of f8E5M2 whose elements do not follow each other along K",
    ),
    "sums that are too narrow": (
        {"layout": PLAIN, "dtype": ml_dtypes.bfloat16, "DTYPE": gl.float16},
        "a product of bf16 and bf16 summed in f16 by a warp group",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_instruction_computes_is_refused(name: str) -> None:
    arguments, expected = REFUSED[name]
    with pytest.raises(tilewright.CompilationError) as caught:
        run(**arguments)
    assert expected in str(caught.value)
    assert ".py:" in str(caught.value)
