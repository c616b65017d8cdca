"""Divided loops whose copies and numbers may be what an earlier iteration has stored: the partitions take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl
from tilewright import SimulationError
from tilewright.transforms.gpu.pipelining.schedule import Writer
from tilewright.transforms.gpu.warp_specialization import insert_channels

STEPS, ROWS, TERMS = 3, 128, 128
BLOCKS = {"BM": ROWS, "BN": TERMS, "BK": 64}


@tw.jit
def products_through_a_table(
    a, out, b, table, steps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr
):
    """The product of each step is the left operand of the next one, unless they are apart."""
    for step in tl.range(0, steps + 1):
        tl.store(table + step, (a + step * BM * BN).to(tl.int64))
        tl.store(table + steps + 1 + step, ((out if HOW == "apart" else a) + step * BM * BN).to(tl.int64))
    tl.debug_barrier()
    pointer: tl.constexpr = tl.pointer_type(tl.float16)
    right = tl.make_tensor_descriptor(b, [BN, BN], [BN, 1], [BN, BK])
    for step in tl.range(0, steps, warp_specialize=True):
        source, target = tl.load(table + step).to(pointer), tl.load(table + steps + 2 + step).to(pointer)
        left = tl.make_tensor_descriptor(source, [BM, BN], [BN, 1], [BM, BK])
        product = tl.make_tensor_descriptor(target, [BM, BN], [BN, 1], [BM, BN])
        for tile in tl.range(tl.program_id(0), 1, tl.num_programs(0)):
            total = tl.zeros((BM, BN), tl.float32)
            for k in range(0, BN, BK):
                total = tl.dot(left.load([tile * BM, k]), right.load([0, k]).T, total)
            if HOW == "by threads":
                at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
                tl.store(target + tile * BM * BN + at, total.to(tl.float16))
            else:
                product.store([tile * BM, 0], total.to(tl.float16))


@tw.jit
def rows_of_products(a, b, table, steps, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    """The product of each step begins with what the next one needs: the number of its rows, and how many terms."""
    left = tl.make_tensor_descriptor(a, [(2 * steps + 1) * BM, BN], [BN, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [BN, BN], [BN, 1], [BN, BK])
    numbers = tl.make_tensor_descriptor(table, [(steps + 1) * BM, BN], [BN, 1], [BM, BN])
    for step in tl.range(0, steps, warp_specialize=True):
        row, terms = tl.load(table + step * BM * BN), tl.load(table + step * BM * BN + 1)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, terms, BK):
            total = tl.dot(left.load([row * BM, k]), right.load([0, k]).T, total)
        numbers.store([(step + 1) * BM, 0], total.to(tl.int32))


def matrices() -> list[Any]:
    """Matrices of which the first is 1; each product with the last one is twice its left operand."""
    a, out = np.zeros((2, STEPS + 1, ROWS, TERMS), np.float16)
    a[0] = np.eye(TERMS)
    return [a, out, (2 * np.eye(TERMS)).astype(np.float16), np.zeros(2 * STEPS + 2, np.int64), STEPS]


def chosen_rows() -> list[Any]:
    """Blocks of rows that begin with the number of their next but one, and the number of terms."""
    a = np.zeros((2 * STEPS + 1, ROWS, TERMS), np.float16)
    a[:, 0, 0], a[:, 0, 1] = np.arange(2 * STEPS + 1) + 2, TERMS
    table = np.zeros((STEPS + 1, ROWS, TERMS), np.int32)
    table[0, 0, 1] = TERMS
    return [a, np.eye(TERMS, dtype=np.float16), table, STEPS]


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("how", ["in place", "apart", "by threads"])
def test_copies_of_what_the_step_before_has_stored(capability: int, how: str) -> None:
    arguments = matrices()
    kernel = compiled(products_through_a_table, arguments, capability=capability, **BLOCKS, HOW=how)
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]
    found = launch(kernel, (1,), arguments)[1 if how == "apart" else 0]
    expected = [0, 2, 0, 0] if how == "apart" else 2 ** np.arange(STEPS + 1)
    np.testing.assert_array_equal(found[:, 0, 0], expected)
    assert ("fence.proxy.async.global" in kernel.asm["ptx"]) is (how == "by threads")


@pytest.mark.parametrize(("terms", "rows"), [(TERMS, [0, 2, 4, 6]), (0, [0, 2, 4, 0])])
@pytest.mark.parametrize("capability", [90, 100])
def test_numbers_that_the_step_before_has_stored(capability: int, terms: int, rows: list[int]) -> None:
    arguments = chosen_rows()
    arguments[0][2, 0, 1] = terms  # for the last step, which without terms has no copies and no products
    kernel = compiled(rows_of_products, arguments, capability=capability, **BLOCKS, HOW="in place")
    assert "ttg.warp_specialize(" in kernel.asm["ttgir"]
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2][:, 0, 0], rows)


def without_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insert_channels, "orders_of", lambda *_: [])


def without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = insert_channels._Marker.marked

    def marked(self: Writer, name: str, *operands: Any, **attributes: Any) -> None:
        if name != "ttng.async_tma_store_wait":
            mark(self, name, *operands, **attributes)

    monkeypatch.setattr(insert_channels._Marker, "marked", marked)


def finds(kernel: Any, arguments: list[Any], place: int, expected: list[int]) -> bool:
    """Whether the simulator reports nothing, and the blocks of the argument at `place` begin with these numbers."""
    try:
        return launch(kernel, (1,), arguments)[place][:, 0, 0].tolist() == expected
    except SimulationError:
        return False


@pytest.mark.spared
@pytest.mark.parametrize("mutant", [without_order, without_end])
@pytest.mark.parametrize("capability", [90, 100])
def test_without_the_order_copies_are_too_early(capability: int, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    kernel = compiled(products_through_a_table, matrices(), capability=capability, **BLOCKS, HOW=mutant.__name__)
    assert not finds(kernel, matrices(), 0, [1, 2, 4, 8])


@pytest.mark.spared
@pytest.mark.parametrize("capability", [90, 100])
def test_without_the_order_numbers_are_too_early(capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    without_order(monkeypatch)
    kernel = compiled(rows_of_products, chosen_rows(), capability=capability, **BLOCKS, HOW="without_order")
    assert not finds(kernel, chosen_rows(), 2, [0, 2, 4, 6])
