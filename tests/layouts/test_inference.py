"""Layouts of results: the elements stay where they are, and Triton's verifier agrees."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tilewright.layouts import inference
from tilewright.layouts.blocked import dimension_groups
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Blocked, Distributed, LayoutError, NvidiaMma, encoding
from tilewright.layouts.queries import num_ctas, num_warps

sys.path.insert(0, str(Path(__file__).parent))

from layout_oracle import asked
from random_layouts import Shape, random_layout, split

BLOCKED = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
KINDS = ("blocked", "nvidia_mma", "nvidia_operand", "linear", "slice", "blocked_operand")


def made(text: str) -> Any:
    return encoding(text)


def columns(layout: Any, shape: Shape) -> Any:
    return to_linear_layout(layout, shape).columns


def test_reduced_and_expanded() -> None:
    layout = made(BLOCKED)
    column = inference.reduced(layout, 1)
    assert column.text == f"#ttg.slice<{{dim = 1, parent = {BLOCKED}}}>"
    assert inference.expanded(column, 1) is layout
    with pytest.raises(LayoutError, match="is a slice along 1, not 0"):
        inference.expanded(column, 0)
    with pytest.raises(LayoutError, match="must have a slice layout"):
        inference.expanded(layout, 0)


@pytest.mark.parametrize("text", [BLOCKED, MMA])
def test_transposed_and_back(text: str) -> None:
    layout = made(text)
    there = inference.transposed(layout, (32, 64), (1, 0))
    assert inference.transposed(there, (64, 32), (1, 0)) in (
        layout,
        inference.linear_encoding(to_linear_layout(layout, (32, 64))),
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 2, order = [1, 0]}>",
            "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 2, order = [0, 1]}>",
        ),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>",
            "#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = true, elementBitWidth = 16}>",
        ),
        (
            "#ttg.padded_shared<[64:+4] {order = [1, 0], shape = [16, 32]}>",
            "#ttg.padded_shared<[64:+4] {order = [0, 1], shape = [32, 16]}>",
        ),
        (
            "#ttg.shared_linear<{offset = [[0, 1], [1, 0]]}, alignment = 64>",
            "#ttg.shared_linear<{offset = [[1, 0], [0, 1]]}, alignment = 64>",
        ),
    ],
)
def test_transposed_buffers(text: str, expected: str) -> None:
    layout = made(text)
    shape = (2, 2) if "linear" in text else (16, 32)
    assert inference.transposed(layout, shape, (1, 0)).text == expected


def test_reshaping_keeps_every_element_in_its_place() -> None:
    layout = made(BLOCKED)
    for result in [(2048,), (4, 16, 32), (64, 32), (32, 2, 32), (1, 64, 32)]:
        found = inference.reshaped(layout, (64, 32), result)
        assert columns(found, result) == columns(layout, (64, 32)), result


def test_reshape_takes_the_wish_when_nothing_moves() -> None:
    layout = made("#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>")
    wish = made(BLOCKED)
    assert inference.reshaped(layout, (2048,), (64, 32), wish=wish) is wish
    assert inference.reshaped(layout, (64,), (8, 8), wish=wish) is not wish
    with pytest.raises(LayoutError, match="different numbers of elements"):
        inference.reshaped(layout, (64,), (8, 16))


def test_a_dimension_of_one_comes_and_goes_as_a_slice() -> None:
    """For blocked layouts, but the default one; as Triton 3.9 has it, and its elder versions have not."""
    layout = made(
        "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
    )
    assert isinstance(layout, Blocked)
    column = inference.reshaped(layout, (128, 1), (128,))
    assert column is inference.reduced(layout, 1)
    assert inference.reshaped(column, (128,), (128, 1)) is layout
    assert inference.reshaped(column, (128,), (1, 128)).text.startswith("#ttg.linear")
    mma = made(MMA)
    assert isinstance(mma, NvidiaMma)
    assert inference.reshaped(mma, (128, 1), (128,)).text.startswith("#ttg.linear")


def test_dimension_groups() -> None:
    assert dimension_groups((4, 8, 6), (32, 2, 3)) == [([0, 1], [0]), ([2], [1, 2])]
    assert dimension_groups((4, 1), (4,)) == [([0, 1], [0])]


def test_joined_and_split() -> None:
    for text in (BLOCKED, MMA):
        layout = made(text)
        both = inference.joined(layout, (64, 64))
        parts = inference.split(both, (64, 64, 2))
        assert columns(parts, (64, 64)) == columns(layout, (64, 64))
    with pytest.raises(LayoutError, match="each thread must have two neighbours"):
        inference.split(made(BLOCKED.replace("[1, 4]", "[1, 1]")), (64, 2))
    with pytest.raises(LayoutError, match="must be 2, not 64"):
        inference.split(made(MMA), (64, 64))


def test_unpacked_and_packed() -> None:
    for text in (BLOCKED, MMA, f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>"):
        for axis in (0, 1):
            layout, wide = made(text), (64 << (axis == 0), 64 << (axis == 1))
            found = inference.unpacked_fp4(layout, (64, 64), axis)
            assert to_linear_layout(found, wide).in_size("register") == 2 * to_linear_layout(layout, (64, 64)).in_size(
                "register"
            )
            assert columns(inference.packed_fp4(found, wide, axis), (64, 64)) == columns(layout, (64, 64))
    with pytest.raises(LayoutError, match="each thread must have two neighbours"):
        inference.packed_fp4(made(BLOCKED.replace("[1, 4]", "[1, 1]")), (64, 64), 1)


def tensor(shape: Shape, layout: Distributed, element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}, {layout.text}>"


def ops(random: Random, layout: Any, shape: Shape) -> Iterator[str]:
    """Ops on `%a` with the layouts that we infer."""
    rank, of = len(shape), tensor(shape, layout)
    axes = tuple(random.sample(range(rank), rank))
    turned = inference.transposed(layout, shape, axes)
    assert isinstance(turned, Distributed)
    order = f"{{order = array<i32: {', '.join(map(str, axes))}>}}"
    yield f"%0 = tt.trans %a {order} : {of} -> {tensor(inference.permuted(shape, axes), turned)}"
    yield f"%0 = tt.join %a, %a : {of} -> {tensor((*shape, 2), inference.joined(layout, shape))}"
    result = split(random, prod(shape), random.choice([1, 2, 3]))
    if prod(shape) >= num_ctas(layout):  # of fewer elements Triton takes default layouts for views that are none
        yield f"%0 = tt.reshape %a : {of} -> {tensor(result, inference.reshaped(layout, shape, result))}"
    parts = inference.split_or_none(layout, shape) if shape[-1] == 2 and rank > 1 else None
    if parts is not None:
        yield f"%0, %1 = tt.split %a : {of} -> {tensor(shape[:-1], parts)}"


@pytest.mark.needs_triton_python
@pytest.mark.slow
def test_triton_infers_the_same_layouts() -> None:
    random = Random("inference")
    modules = []
    for _ in range(300):
        layout, shape = random_layout(random, random.choice(KINDS))
        assert isinstance(layout, Distributed)
        head = f'"ttg.num-warps" = {num_warps(layout)} : i32, "ttg.num-ctas" = {num_ctas(layout)} : i32'
        for op in ops(random, layout, shape):
            argument = tensor(shape, layout)
            modules.append(f"module attributes {{{head}}} {{ tt.func @f(%a: {argument}) {{\n{op}\ntt.return }} }}")
    for module, accepted in zip(modules, asked("module", modules), strict=True):
        assert accepted, module
