"""Descriptors that a divided loop makes: products of groups whose addresses, extents and steps are loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl
from tilewright import SimulationError
from tilewright.transforms.gpu.warp_specialization import descriptor_rings

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(5)
SIZE = 64
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}


@tw.jit
def products(
    a, b, c, rows, terms, first, place, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr
):
    left = tl.make_tensor_descriptor(a + first, [rows, terms], [terms, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b + first, [BN, terms], [terms, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c + place, [rows, BN], [BN, 1], [BM, BN])
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, BM), tl.num_programs(0)):
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, terms, BK):
            total = tl.dot(left.load([tile * BM, k]), right.load([0, k]).T, total)
        if HOW == "two blocks" and tile % 2 == 0:
            out.store([tile * BM, 0], (total + 0.0 * right.load([0, 0])).to(tl.float16))
        else:
            out.store([tile * BM, 0], total.to(tl.float16))


@tw.jit
def grouped(a, b, c, groups, count, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    for g in tl.range(count, warp_specialize=True):
        rows, terms = tl.load(groups + g * 4), tl.load(groups + g * 4 + 1)
        first, place = tl.load(groups + g * 4 + 2), tl.load(groups + g * 4 + 3)
        if HOW == "skips":
            if rows > 0:
                products(a, b, c, rows, terms, first, place, BM, BN, BK, HOW)
        else:
            products(a, b, c, rows, terms, first, place, BM, BN, BK, HOW)
        if HOW == "writes":
            tl.store(groups + count * 4 + g, rows)
        elif HOW == "counts":
            tl.atomic_add(groups + count * 4 + g, rows, sem="relaxed")


def arguments_for(sizes: list[tuple[int, int]]) -> tuple[list[Any], Array]:
    """The arguments for groups of these rows and terms, and the results one after the other."""
    groups, products, first, place = [], [], 0, 0
    total = sum(max(rows, SIZE) * max(terms, 8) for rows, terms in sizes)
    a, b = (RANDOM.integers(-3, 4, total).astype(np.float16) for _ in range(2))
    for rows, terms in sizes:
        groups += [rows, terms, first, place]
        left = a[first : first + rows * terms].reshape(rows, terms).astype(np.float32)
        right = b[first : first + SIZE * terms].reshape(SIZE, terms).astype(np.float32)
        products.append((left @ right.T).astype(np.float16).ravel())
        first += max(rows, SIZE) * max(terms, 8)
        place += rows * SIZE
    table = np.array(groups + [0] * len(sizes), np.int32)
    return [a, b, np.zeros(max(place, 8), np.float16), table, len(sizes)], np.concatenate(products)


SOME_EMPTY = [(64, 64), (0, 64), (128, 192), (0, 64), (0, 64), (0, 64), (0, 64), (64, 64), (192, 128), (64, 64)]
MANY = [(64, 64)] * 9


WAYS = [(1, "always"), (2, "always"), (1, "skips"), (1, "two blocks")]


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize(
    ("programs", "how", "sizes"),
    [
        pytest.param(*way, sizes, id=f"{way[0]}-{way[1]}-{name}")
        for way in WAYS
        for name, sizes in (("empty", SOME_EMPTY), ("many", MANY))
    ],
)
def test_groups(capability: int, sizes: list[tuple[int, int]], programs: int, how: str) -> None:
    arguments, expected = arguments_for(sizes)
    kernel = compiled(grouped, arguments, capability=capability, **BLOCKS, HOW=how)
    assert kernel.asm["ttgir"].count("ttng.tensormap_create") == 3 + (how == "two blocks")
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]
    np.testing.assert_array_equal(launch(kernel, (programs, 1), arguments)[2], expected)


@pytest.mark.parametrize("capability", [90, 100])
def test_loops_that_write_their_table_of_numbers(capability: int) -> None:
    arguments, expected = arguments_for(MANY)
    kernel = compiled(grouped, arguments, capability=capability, **BLOCKS, HOW="writes")
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]
    _, _, found, table = launch(kernel, (1, 1), arguments)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(table[4 * len(MANY) :], [rows for rows, _ in MANY])


def test_loops_with_atomic_ops_stay_whole() -> None:
    arguments, _ = arguments_for(MANY)
    kernel = compiled(grouped, arguments, capability=100, **BLOCKS, HOW="counts")
    assert "ttg.warp_specialize(" not in kernel.asm["ttgir"]


@pytest.mark.spared
@pytest.mark.parametrize("capability", [90, 100])
def test_with_less_places_a_copy_under_way_would_lose_its_descriptor(
    capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, _ = arguments_for(MANY)
    monkeypatch.setattr(descriptor_rings, "_places_filled", lambda _: 1)
    kernel = compiled(grouped, arguments, capability=capability, **BLOCKS, HOW="less places")
    with pytest.raises(SimulationError, match="reads the tensor map there"):
        launch(kernel, (1, 1), arguments)


@tw.jit
def flat(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STORES: tl.constexpr):
    for tile in tl.range(tl.program_id(0), M // BM * (N // BN), tl.num_programs(0), flatten=True, warp_specialize=True):
        i, j = tile % (M // BM) * BM, tile // (M // BM) * BN
        left = tl.make_tensor_descriptor(a + i * K, [BM, K], [K, 1], [BM, BK])
        right = tl.make_tensor_descriptor(b + j * K, [BN, K], [K, 1], [BN, BK])
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(left.load([0, k]), right.load([0, k]).T, total)
        if STORES:
            out = tl.make_tensor_descriptor(c + i * N, [BM, N], [N, 1], [BM, BN])
            out.store([0, j], total.to(tl.float16))
        else:
            rows, columns = i + tl.arange(0, BM), j + tl.arange(0, BN)
            tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def flat_arguments(k: int) -> tuple[list[Any], Array]:
    a, b = (RANDOM.integers(-3, 4, (size, k)).astype(np.float16) for size in (128, 320))
    product = a.astype(np.float32) @ b.T.astype(np.float32)
    return [a, b, np.zeros((128, 320), np.float16), 128, 320, k], product.astype(np.float16)


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize(("k", "programs"), [(64, 1), (64, 3), pytest.param(192, 1, marks=pytest.mark.slow)])
def test_flat_loops_hand_on_the_descriptors_of_a_tile(capability: int, stores: bool, k: int, programs: int) -> None:
    arguments, expected = flat_arguments(k)
    kernel = compiled(flat, arguments, capability=capability, **BLOCKS, STORES=stores)
    text = kernel.asm["ttgir"]
    assert "ttg.warp_specialize(" in text
    assert text.count("nbytes = 512") >= 2, "three steps of copies, and a place more"
    np.testing.assert_array_equal(launch(kernel, (programs,), arguments)[2], expected)


@tw.jit
def changing(a, b, c, K, period, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK])
    total = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(0, K // BK, warp_specialize=True):
        turn = step % period
        if HOW == "now" and turn == 0:
            left = tl.make_tensor_descriptor(a + step * BK, [BM, K], [K, 1], [BM, BK])
        current = left
        if (HOW == "ahead" or HOW == "both") and turn == period - 1:
            left = tl.make_tensor_descriptor(a + (step + 1) * BK, [BM, K], [K, 1], [BM, BK])
        if HOW != "sometimes" or step != 1:
            total = tl.dot(current.load([0, turn * BK]), right.load([0, step * BK]).T, total)
        if HOW == "both":
            total = tl.dot(left.load([0, (step + 1) % period * BK]), right.load([0, step * BK]).T, total)
        if HOW == "always" or ((HOW == "later" or HOW == "sometimes" or HOW == "two") and turn == period - 1):
            left = tl.make_tensor_descriptor(a + (step + 1) * BK, [BM, K], [K, 1], [BM, BK])
        elif HOW == "two":
            left = right
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(c + rows[:, None] * BN + columns[None, :], total)


def changing_arguments(period: int, how: str = "") -> tuple[list[Any], Array]:
    a, b = (RANDOM.integers(-3, 4, (64, 640)).astype(np.float16) for _ in range(2))
    product = a.astype(np.float32) @ b.T.astype(np.float32)
    a = np.append(a, np.zeros(64, np.float16))
    if how == "both":
        product += a[64:].reshape(64, 640).astype(np.float32) @ b.T.astype(np.float32)
    return [a, b, np.zeros((64, 64), np.float32), 640, period], product


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("how", ["now", "later", "ahead", "both"])
@pytest.mark.parametrize("period", [1, 2, pytest.param(5, marks=pytest.mark.slow)])
def test_descriptors_that_a_step_changes(capability: int, how: str, period: int) -> None:
    arguments, expected = changing_arguments(period, how)
    kernel = compiled(changing, arguments, capability=capability, **BLOCKS, HOW=how)
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)


@pytest.mark.parametrize("how", ["now", "later", "ahead", "both"])
def test_a_place_less_is_reported(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, _ = changing_arguments(1)
    places = descriptor_rings._places_filled
    monkeypatch.setattr(descriptor_rings, "_places_filled", lambda copy: places(copy) - 1)
    kernel = compiled(changing, arguments, capability=100, num_stages=4, **BLOCKS, HOW=how)  # nobody else's on disk
    with pytest.raises(SimulationError, match="reads the tensor map there"):
        launch(kernel, (1,), arguments)


@pytest.mark.parametrize("how", ["sometimes", "two", "always"])
def test_loops_stay_whole_where_it_is_not_known_which_copies_are_done(how: str) -> None:
    arguments, _ = changing_arguments(1)
    assert "ttg.warp_specialize(" not in compiled(changing, arguments, capability=100, **BLOCKS, HOW=how).asm["ttgir"]
