"""Buffers in shared memory, from TTGIR to what the simulator makes of the PTX: stores, loads, views, copies."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tile_programs import loaded, memdesc, pointers, program, ptx_of, run, stored, tensor

from long_runs import LONG
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Encoding, NvmmaShared, PaddedShared, SwizzledShared
from tilewright.layouts.errors import LayoutError
from tilewright.support.diagnostics import Unsupported

sys.path.insert(0, str(Path(__file__).parents[1] / "layouts"))

import random_layouts

ROWS = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = "#ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>"
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [1, 0]}>"
TURNED = "#ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [0, 1]}>"
PADDED = "#ttg.padded_shared<[128:+8] {order = [1, 0], shape = [64, 32]}>"
MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
LEFT = f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>"
SHAPE = (64, 32)
TYPES = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i64": np.int64}

Arrays = np.ndarray[Any, Any]


def moved(lines: list[str], view: str, type: str, *, layout: str, shape: tuple[int, ...] = SHAPE) -> str:
    """A program that loads a tile of `SHAPE` as `%x`, does `lines`, and stores what is in the buffer `view`."""
    body = [
        *loaded("%x", "%p0", ROWS, SHAPE, "f16"),
        *lines,
        f"%y = ttg.local_load {view} : {type} -> {tensor(shape, 'f16', layout)}",
        *stored("%y", "%p1", layout, shape, "f16"),
    ]
    return program(body, elements=["f16", "f16"], numbers=["%n"])


def result(
    text: str, shape: tuple[int, ...] = SHAPE, *, number: int = 0, capability: int = 80
) -> tuple[Arrays, Arrays]:
    x = np.arange(64 * 32).reshape(SHAPE).astype(np.float16)
    _, y = run(text, [x, np.zeros(shape, np.float16)], number, capability=capability)
    return x, y


TILE = tensor(SHAPE, "f16", ROWS)
WHOLE = memdesc(SHAPE, "f16", SWIZZLED)
ALLOC = f"%a = ttg.local_alloc %x : ({TILE}) -> {WHOLE}"


def staged(layout: str, stages: int = 3) -> tuple[list[str], str]:
    """Lines after which `%s` is stage `%n` of several and holds the tile; and its type."""
    all, one = memdesc((stages, *SHAPE), "f16", layout, mutable=True), memdesc(SHAPE, "f16", layout, mutable=True)
    return [
        f"%m = ttg.local_alloc : () -> {all}",
        f"%s = ttg.memdesc_index %m[%n] : {all} -> {one}",
        f"ttg.local_store %x, %s : {TILE} -> {one}",
    ], one


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("layout", [SWIZZLED, PADDED])
def test_stages(layout: str, number: int) -> None:
    lines, one = staged(layout)
    x, y = result(moved(lines, "%s", one, layout=COLUMNS), number=number)
    assert (x == y).all()


def test_a_transposed_view_is_read_by_transposing_loads() -> None:
    turned = memdesc((32, 64), "f16", TURNED)
    lines = [ALLOC, f"%t = ttg.memdesc_trans %a {{order = array<i32: 1, 0>}} : {WHOLE} -> {turned}"]
    text = moved(lines, "%t", turned, layout=LEFT, shape=(32, 64))
    x, y = result(text, (32, 64))
    assert (y == x.T).all()
    assert ptx_of(text, capability=80)[0].count("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") == 4


def test_bytes_are_transposed_by_instructions_for_matrices() -> None:
    turned = "#ttg.swizzled_shared<{vec = 16, perPhase = 2, maxPhase = 4, order = [0, 1]}>"
    operand, shape = LEFT.replace("kWidth = 2", "kWidth = 4"), (64, 64)
    tile, buffer = tensor(shape, "i8", operand), memdesc(shape, "i8", turned)
    lines = [
        *loaded("%x", "%p0", operand, shape, "i8"),
        f"%a = ttg.local_alloc %x : ({tile}) -> {buffer}",
        f"%y = ttg.local_load %a : {buffer} -> {tile}",
        *stored("%y", "%p1", operand, shape, "i8"),
    ]
    text = program(lines, elements=["i8", "i8"])
    ptx, _ = ptx_of(text, capability=100)
    names = ("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8", "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8")
    assert [ptx.count(name) for name in names] == [4, 4]
    x = np.random.default_rng(0).integers(-128, 127, shape).astype(np.int8)
    _, y = run(text, [x, np.zeros_like(x)], capability=100)
    assert (x == y).all()


def test_a_reshaped_view() -> None:
    layout = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    flat = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"
    line = "#ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
    before, after = memdesc(SHAPE, "f16", layout), memdesc((2048,), "f16", flat)
    lines = [f"%a = ttg.local_alloc %x : ({TILE}) -> {before}", f"%t = ttg.memdesc_reshape %a : {before} -> {after}"]
    x, y = result(moved(lines, "%t", after, layout=line, shape=(2048,)), (2048,))
    assert (x.ravel() == y).all()


PART = memdesc((64, 16), "f16", SWIZZLED, mutable=True, whole=SHAPE)


@pytest.mark.parametrize("layout", [LEFT, COLUMNS])
@pytest.mark.parametrize("number", [3, 4])
def test_parts_that_a_loop_carries(layout: str, number: int) -> None:
    lines, one = staged(SWIZZLED, 8)
    lines += ["%c0 = arith.constant 0 : i32", "%c1 = arith.constant 1 : i32"]
    lines += [f"%t{at} = ttg.memdesc_subslice %s [0, {at}] : {one} -> {PART}" for at in (0, 16)]
    lines += [
        f"%r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %t0, %q = %t16) -> ({PART}, {PART}) : i32 {{",
        f"scf.yield %q, %p : {PART}, {PART}",
        "}",
    ]
    x, y = result(moved(lines, "%r#0", PART, layout=layout, shape=(64, 16)), (64, 16), number=number)
    assert (y == (x[:, 16:] if number % 2 else x[:, :16])).all()


def copied(bits: int, *, mask: bool) -> str:
    """The tile comes by asynchronous copies; with a mask only its first rows."""
    one = memdesc(SHAPE, "f16", SWIZZLED, mutable=True)
    limit = tensor(SHAPE, "i32", ROWS)
    masked = "mask %m " if mask else ""
    lines = [
        *pointers("%p0", ROWS, SHAPE, "f16", "from"),
        f"%s = ttg.local_alloc : () -> {one}",
        f"%c = arith.constant dense<16> : {limit}",
        f"%m = arith.cmpi slt, %from_0, %c : {limit}",
        f"%t = ttg.async_copy_global_to_local %from, %s {masked}{{contiguity = {bits // 16} : i32}} : "
        f"{tensor(SHAPE, '!tt.ptr<f16>', ROWS)} -> {one.removeprefix('!ttg.memdesc')}",
        "%g = ttg.async_commit_group tokens %t",
        "%w = ttg.async_wait %g {num = 0 : i32}",
    ]
    return moved(lines, "%s", one, layout=COLUMNS)


@pytest.mark.parametrize("mask", [False, True])
def test_asynchronous_copies(mask: bool) -> None:
    text = copied(128, mask=mask)
    x, y = result(text)
    assert (y == np.where(np.arange(64)[:, None] < 16, x, 0) if mask else y == x).all()
    assert ptx_of(text, capability=80)[0].count("cp.async.cg.shared.global") == 2


def test_more_than_16_bytes_are_copied_in_parts() -> None:
    """A thread has 32 bytes in a row on both sides, and says so."""
    text = copied(256, mask=False)
    for narrow, wide in (
        ("[1, 8]", "[1, 16]"),
        ("[8, 4]", "[16, 2]"),
        ("vec = 8, perPhase = 2", "vec = 16, perPhase = 2"),
    ):
        text = text.replace(narrow, wide)
    x, y = result(text)
    assert (y == x).all()
    assert ptx_of(text, capability=80)[0].count("cp.async.cg.shared.global") == 2


def test_copies_of_less_than_four_bytes_are_refused() -> None:
    lines = [line.replace("divisibility = 16", "divisibility = 2") for line in copied(16, mask=False).splitlines()]
    with pytest.raises(Unsupported, match="one copy moves 4 bytes or more, and here 2"):
        ptx_of("\n".join(lines), capability=80)


@pytest.mark.parametrize("memory", [SWIZZLED, PADDED])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_by_their_indices(axis: int, memory: str) -> None:
    one, numbers = memdesc(SHAPE, "f16", memory, mutable=True), tensor(SHAPE, "i32", COLUMNS)
    tile = tensor(SHAPE, "f16", COLUMNS)
    lines = [
        *loaded("%x", "%p0", COLUMNS, SHAPE, "f16"),
        *loaded("%i", "%p2", COLUMNS, SHAPE, "i32"),
        f"%a = ttg.local_alloc : () -> {one}",
        f"ttg.local_scatter %a[%i], %x {{axis = {axis} : i32}} : {one}, {numbers}, {tile}",
        f"%b = ttg.local_alloc %x : ({tile}) -> {one}",
        f"%g = ttg.local_gather %b[%i] {{axis = {axis} : i32}} : {one}, {numbers} -> {tile}",
        f"%s = ttg.local_load %a : {one} -> {tile}",
        f"%y = arith.subf %g, %s : {tile}",
        *stored("%y", "%p1", COLUMNS, SHAPE, "f16"),
    ]
    random = np.random.default_rng(axis)
    x = random.integers(0, 100, SHAPE).astype(np.float16)
    indices = np.argsort(random.random(SHAPE), axis=axis).astype(np.int32)
    scattered = np.zeros_like(x)
    np.put_along_axis(scattered, indices, x, axis)
    text = program(lines, elements=["f16", "f16", "i32"])
    _, y, _ = run(text, [x, np.zeros_like(x), indices], capability=80)
    assert (y == np.take_along_axis(x, indices, axis) - scattered).all()


def random_memory(random: Random, shape: tuple[int, ...], bits: int) -> Encoding:
    match random.choice("ssnp"):
        case "n" if bits <= 32:
            return NvmmaShared(random.choice([0, 32, 64, 128]), random.random() < 0.5, bits)
        case "p":
            return PaddedShared(((random.choice([16, 64, 128]), random.choice([4, 8, 16])),), (), (), (1, 0))
    found = random_layouts.swizzled(random, 2, shape)
    return SwizzledShared(found.vec, found.per_phase, found.max_phase, found.order)


def there_and_back(random: Random) -> None:
    """A random tile goes into a random buffer and comes out in another layout."""
    makers = (random_layouts.blocked, random_layouts.nvidia_mma, random_layouts.nvidia_operand, random_layouts.linear)
    element = random.choice(list(TYPES))
    while True:
        shape = random_layouts.shape(random, 2, 8, 64)
        before, after = (random.choice(makers)(random, 2, shape) for _ in range(2))
        memory = random_memory(random, shape, np.dtype(TYPES[element]).itemsize * 8)
        try:
            tiles = [to_linear_layout(layout, shape) for layout in (before, after)]
            to_linear_layout(memory, shape)
        except LayoutError:
            continue
        fits = all(tile.in_size("block") == 1 and tile.in_size("register") <= 64 for tile in tiles)
        if fits and tiles[0].in_size("warp") == tiles[1].in_size("warp"):
            break
    buffer = memdesc(shape, element, memory.text)
    lines = [
        *loaded("%x", "%p0", before.text, shape, element),
        f"%a = ttg.local_alloc %x : ({tensor(shape, element, before.text)}) -> {buffer}",
        f"%y = ttg.local_load %a : {buffer} -> {tensor(shape, element, after.text)}",
        *stored("%y", "%p1", after.text, shape, element),
    ]
    warps, capability = tiles[0].in_size("warp"), random.choice([75, 80, 90, 100])
    text = program(lines, elements=[element, element], warps=warps)
    x = np.random.default_rng(0).integers(0, 127, shape).astype(TYPES[element])
    _, y = run(text, [x, np.zeros_like(x)], capability=capability, warps=warps)
    assert (x == y).all(), text


def test_random_buffers() -> None:
    random = Random(1)
    for _ in range(3):
        there_and_back(random)


@pytest.mark.slow
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=LONG)])
def test_many_random_buffers(count: int) -> None:
    random = Random(2)
    for _ in range(count):
        there_and_back(random)


@pytest.mark.parametrize(("element", "kind"), [("f16", "f16x2"), ("bf16", "bf16x2")])
def test_sums_become_halves_two_at_a_time(element: str, kind: str) -> None:
    shape, tile = (32, 32), tensor((32, 32), "f32", ROWS)
    lines = [
        *loaded("%x", "%p0", ROWS, shape, "f32"),
        f"%y = arith.truncf %x : {tile} to {tensor(shape, element, ROWS)}",
        *stored("%y", "%p1", ROWS, shape, element),
    ]
    ptx, _ = ptx_of(program(lines, elements=["f32", element]), capability=80)
    assert ptx.count(f"cvt.rn.{kind}.f32") == 4
