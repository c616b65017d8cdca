"""Pipelined loops whose branches multiply or read what was copied, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nvidia.simulated import compiled, launch

import tilewright
import tilewright.language as tl

Array = np.ndarray[Any, Any]
SIZE = 64
STEPS = 5


def factors() -> tuple[list[Array], Array]:
    """Two factors of products of five steps, and the products of the steps."""
    random = np.random.default_rng(7)
    a, b = (random.integers(-3, 4, (SIZE, STEPS * SIZE)).astype(np.float16) for _ in range(2))
    left, right = (x.astype(np.float32).reshape(SIZE, STEPS, SIZE) for x in (a, b))
    return [a, b], np.einsum("isk,jsk->sij", left, right)


def launched(kernel: Any, given: list[Array], capability: int, stages: int) -> Array:
    """The two tiles that `kernel` stores."""
    arguments = [*given, np.zeros((2, SIZE, SIZE), np.float32), STEPS * SIZE]
    made = compiled(kernel, arguments, capability=capability, num_stages=stages, SIZE=SIZE)
    return launch(made, (1,), arguments)[2]


@tilewright.jit
def sums_of_sums(a, b, c, K, SIZE: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    sums, total = tl.zeros((SIZE, SIZE), tl.float32), tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, K, SIZE):
        x, y = tl.load(a + rows * K + k + columns), tl.load(b + columns * K + k + rows)
        total = tl.dot(x, y, total)
        if k // SIZE % 2 == 0:
            sums += total
        elif k // SIZE % 4 == 1:
            sums -= total
    tl.store(c + rows * SIZE + columns, sums)
    tl.store(c + SIZE * SIZE + rows * SIZE + columns, total)


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("stages", [2, 3])
def test_branches_that_use_the_sum_of_a_product_that_runs_on(stages: int, capability: int) -> None:
    given, products = factors()
    found = launched(sums_of_sums, given, capability, stages)
    sums = products.cumsum(0)
    np.testing.assert_array_equal(found[0], sums[0] - sums[1] + sums[2] + sums[4])
    np.testing.assert_array_equal(found[1], sums[-1])


def test_a_branch_waits_only_where_it_uses_the_sum() -> None:
    arguments = [*factors()[0], np.zeros((2, SIZE, SIZE), np.float32), STEPS * SIZE]
    text = compiled(sums_of_sums, arguments, capability=90, SIZE=SIZE).asm["ttgir"]
    loop = text[text.index("scf.for") :]
    in_front, behind = loop[: loop.index("scf.if")], loop[loop.index("scf.if") :]
    assert "warp_group_dot_wait" in in_front
    assert "pendings = 0" not in in_front
    assert behind.count("pendings = 0") == 3  # one in each branch, and behind the loop


@tilewright.jit
def odd_steps_again(a, b, c, K, SIZE: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    odd, total = tl.zeros((SIZE, SIZE), tl.float32), tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, K, SIZE):
        x, y = tl.load(a + rows * K + k + columns), tl.load(b + columns * K + k + rows)
        if k // SIZE % 2 == 1:
            odd = tl.dot(x, y, odd)
        total = tl.dot(x, y, total)
    tl.store(c + rows * SIZE + columns, odd)
    tl.store(c + SIZE * SIZE + rows * SIZE + columns, total)


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_buffer_stays_until_the_last_product_has_read_it(stages: int, capability: int) -> None:
    """On sm_100 the branch comes behind the copy of a later step: the ring has a place more."""
    given, products = factors()
    found = launched(odd_steps_again, given, capability, stages)
    np.testing.assert_array_equal(found, [products[1::2].sum(0), products.sum(0)])


@tilewright.jit
def factor_that_is_stored(a, b, c, K, SIZE: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [SIZE, K], [K, 1], [SIZE, SIZE])
    right = tl.make_tensor_descriptor(b, [SIZE, K], [K, 1], [SIZE, SIZE])
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, K, SIZE):
        x = left.load([0, k])
        if k // SIZE % 2 == 1:
            tl.store(c + rows * SIZE + columns, x.to(tl.float32))
        total = tl.dot(x, right.load([0, k]).T, total)
    tl.store(c + SIZE * SIZE + rows * SIZE + columns, total)


@pytest.mark.parametrize("capability", [90, 100])
def test_a_factor_that_a_branch_has_in_registers(capability: int) -> None:
    given, products = factors()
    found = launched(factor_that_is_stored, given, capability, 3)
    last = given[0].reshape(SIZE, STEPS, SIZE)[:, 3]
    np.testing.assert_array_equal(found, [last, products.sum(0)])


@tilewright.jit
def rows_of_tables(even, odd, rows, c, noted, n, WAY: tl.constexpr, SIZE: tl.constexpr):
    """Rows whose numbers are in one table for even steps and in another one for odd steps, which are noted."""
    at = tl.arange(0, SIZE)
    total = tl.zeros((SIZE,), tl.float32)
    for step in tl.range(n, num_stages=3):
        if step % 2 == 0:
            row = tl.load(even + step)
        else:
            row = tl.load(odd + step)
            if WAY == "store":
                tl.store(noted + step, row)
            elif WAY == "add":
                tl.atomic_add(noted + step, row)
            elif WAY == "exchange":
                tl.atomic_cas(noted + step, 0, row)
            elif WAY == "inside":
                if row > 2:
                    tl.store(noted + step, row)
                else:
                    tl.store(noted + step, -row)
        total += tl.load(rows + row * SIZE + at)
    tl.store(c + at, total)


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("way", ["load", "store", "add", "exchange", "inside"])
def test_steps_that_there_are_not_run_neither_arm(way: str, steps: int) -> None:
    """Branches whose results are addresses run two steps ahead; their second arms ran behind the last step, too."""
    random = np.random.default_rng(8)
    even, odd = (random.permutation(np.arange(1, 6, dtype=np.int32))[:steps].copy() for _ in range(2))
    rows = random.standard_normal((6, 128)).astype(np.float32)
    arguments = [even, odd, rows, np.zeros(128, np.float32), np.zeros(steps, np.int32), steps]
    made = compiled(rows_of_tables, arguments, capability=80, WAY=way, SIZE=128)
    found = launch(made, (1,), arguments)
    numbers = np.where(np.arange(steps) % 2 == 0, even, odd)
    np.testing.assert_allclose(found[3], rows[numbers].sum(0), rtol=1e-6, atol=1e-6)
    notes = {"load": 0 * odd, "inside": np.where(odd > 2, odd, -odd)}.get(way, odd)
    np.testing.assert_array_equal(found[4], np.where(np.arange(steps) % 2 == 1, notes, 0))
    before = made.asm["ttgir"].partition("scf.for")[0]
    assert ("async_copy" in before) == (way != "exchange")  # which has no mask
