"""Conversions between layouts, from TTGIR to what the simulator makes of the PTX: every element arrives."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tile_programs import loaded, pointers, program, ptx_of, run, stored, tensor

from long_runs import LONG
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Encoding, Slice
from tilewright.layouts.errors import LayoutError
from tilewright.layouts.movement import movement

sys.path.insert(0, str(Path(__file__).parents[1] / "layouts"))

import random_layouts

ROWS = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = "#ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
ONE_WARP = "#ttg.blocked<{{sizePerThread = [{0}], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>"
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i8": np.int8, "i64": np.int64, "f64": np.float64}


def conversion(before: str, after: str, shape: tuple[int, ...], element: str, warps: int, blocks: int = 1) -> str:
    old, new = tensor(shape, element, before), tensor(shape, element, after)
    lines = [
        *loaded("%x", "%p0", before, shape, element),
        f"%y = ttg.convert_layout %x : {old} -> {new}",
        *stored("%y", "%p1", after, shape, element),
    ]
    return program(lines, elements=[element, element], warps=warps, blocks=blocks)


def check(
    before: str,
    after: str,
    shape: tuple[int, ...],
    element: str,
    *,
    capability: int,
    warps: int = 4,
    blocks: int = 1,
) -> None:
    size = int(np.prod(shape))
    x = np.random.default_rng(size).integers(0, 127, size).astype(TYPES[element]).reshape(shape)
    text = conversion(before, after, shape, element, warps, blocks)
    _, y = run(text, [x, np.zeros_like(x)], capability=capability, warps=warps, blocks=blocks)
    assert (x == y).all(), f"{before} to {after} of {shape} {element}, sm_{capability}"


@pytest.mark.parametrize(("capability", "element"), [(75, "f16"), (80, "i8"), (90, "f16"), (100, "f64")])
def test_through_shared_memory(capability: int, element: str) -> None:
    check(ROWS, COLUMNS, (32, 64), element, capability=capability)


@pytest.mark.parametrize("element", ["f32", "f16", "i8", "i64"])
def test_by_shuffles(element: str) -> None:
    check(ONE_WARP.format(1), ONE_WARP.format(2), (64,), element, capability=80, warps=1)


@pytest.mark.parametrize(
    ("element", "choices"), [("i8", {"b32": 4}), ("f16", {"b32": 4}), ("f32", {"b32": 8}), ("i64", {"b64": 8})]
)
def test_lanes_choose_words(element: str, choices: dict[str, int]) -> None:
    """Not each of the elements of a word, and no half of a large element."""
    text = conversion(ONE_WARP.format(2), ONE_WARP.format(4), (128,), element, 1)
    assert Counter(re.findall(r"\bselp\.(\w+)", ptx_of(text, capability=80)[0])) == choices


def test_lanes_that_exchange_a_register_need_no_addresses() -> None:
    """Lanes whose numbers differ in one bit swap with each other: one shuffle, of a register that each chooses."""
    linear = "#ttg.linear<{{register = [[{}]], lane = [[{}], [4], [8], [16], [32]], warp = [], block = []}}>"
    pair = linear.format(1, 2), linear.format(2, 1)
    check(*pair, (64,), "f32", capability=80, warps=1)
    ptx = ptx_of(conversion(*pair, (64,), "f32", 1), capability=80)[0]
    assert re.findall(r"shfl\.sync\.(\w+)", ptx) == ["bfly"]


def random_pair(random: Random, *, blocks: bool = False) -> tuple[Encoding, Encoding, tuple[int, ...]]:
    """Two layouts of one tile over as many warps and blocks, not too large; with `blocks` over several of these."""
    while True:
        rank = random.choice([1, 2, 2, 3])
        shape = random_layouts.shape(random, rank, 1, 64)
        try:
            pair = [_random_layout(random, rank, shape) for _ in range(2)]
            tiles = [to_linear_layout(layout, shape) for layout in pair]
            movement(*pair, shape)
        except (LayoutError, AssertionError):
            continue
        fits = all((tile.in_size("block") > 1) == blocks and tile.in_size("register") <= 64 for tile in tiles)
        if fits and all(tiles[0].in_size(name) == tiles[1].in_size(name) for name in ("warp", "block")):
            return pair[0], pair[1], shape


def _random_layout(random: Random, rank: int, shape: tuple[int, ...]) -> Encoding:
    if random.random() < 0.2:
        return Slice(random.randrange(rank + 1), random_layouts.blocked(random, rank + 1, (*shape, 1)))
    makers: list[Any] = [random_layouts.blocked, random_layouts.linear]
    if rank == 2:
        makers += [random_layouts.nvidia_mma, random_layouts.nvidia_operand]
    return random.choice(makers)(random, rank, shape)


def random_conversions(seed: int, count: int, *, blocks: bool = False) -> None:
    random = Random(seed)
    for _ in range(count):
        before, after, shape = random_pair(random, blocks=blocks)
        tile = to_linear_layout(before, shape)
        element, capability = random.choice(list(TYPES)), 90 if blocks else random.choice([75, 80, 90, 100])
        sizes = {"warps": tile.in_size("warp"), "blocks": tile.in_size("block")}
        check(before.text, after.text, shape, element, capability=capability, **sizes)


@pytest.mark.parametrize("blocks", [False, True])
def test_random_conversions(blocks: bool) -> None:
    random_conversions(1, 3, blocks=blocks)


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=LONG)])
@pytest.mark.parametrize("blocks", [False, True])
def test_many_random_conversions(blocks: bool, count: int) -> None:
    random_conversions(2, count, blocks=blocks)


def test_a_result_of_a_product_becomes_rows_by_matrix_stores() -> None:
    text = conversion(MMA, ROWS, (64, 64), "f16", 4)
    older, newer = (ptx_of(text, capability=capability)[0] for capability in (80, 90))
    assert [older.count(name) for name in ("st.shared.v", "ld.shared.v4.b32", "bar.sync")] == [4, 4, 1]
    # Four parts of the tile go through the same memory, one after the other.
    assert [newer.count(name) for name in ("stmatrix.sync.aligned.m8n8.x4", "ld.shared.v4.b32", "bar.sync")] == [
        4,
        4,
        7,
    ]


def test_truth_values_and_pointers() -> None:
    shape = (32, 32)
    truth, other = (tensor(shape, "i1", layout) for layout in (ROWS, COLUMNS))
    places, moved = (tensor(shape, "!tt.ptr<i32>", layout) for layout in (ROWS, COLUMNS))
    lines = [
        *pointers("%p0", ROWS, shape, "i32", "from"),
        *pointers("%p1", COLUMNS, shape, "i32", "to"),
        f"%x = tt.load %from : {places}",
        f"%m = arith.cmpi slt, %x, %from_1 : {tensor(shape, 'i32', ROWS)}",
        f"%n = ttg.convert_layout %m : {truth} -> {other}",
        f"%q = ttg.convert_layout %from : {places} -> {moved}",
        f"%y = tt.load %q : {moved}",
        f"tt.store %to, %y, %n : {moved}",
    ]
    x = np.random.default_rng(0).integers(0, 32, shape).astype(np.int32)
    _, y = run(program(lines, elements=["i32", "i32"]), [x, np.full_like(x, -1)], capability=80)
    assert (y == np.where(x < np.arange(32), x, -1)).all()
