"""Operands of products that are computed from rows in memory are fetched a turn early, where these are known then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changed_costs import change_costs
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.analysis.memory_accesses import root_of
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Matmul
from tilewright.dialects.vector import Prefetch
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.transforms.functions import functions_of

M, N, K, ITERATIONS = 16, 32, 16, 3


@pytest.fixture(autouse=True)
def _asked_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products ask for the place of their result, too."""
    change_costs(monkeypatch, prefetched_results=True, prefetched_rows=1)


@tw.jit
def product(
    a, b, out, table, shift,
    HOW: tl.constexpr, STEP: tl.constexpr, WHERE: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ITERATIONS: tl.constexpr,
):
    """Columns of fp16 times rows of fp16: both are computed from loads, as they are converted."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    fixed = tl.load(a + m[:, None] * K + k[None, :]) + shift
    for turn in range(ITERATIONS):
        at = m
        if HOW == "table":
            at = tl.load(table + turn * M + m)
        if HOW == "wrapped":
            at = (m + shift) % M
        if HOW == "number":
            at = (m + tl.load(table + (M - 1) * ITERATIONS + turn + tl.arange(0, 1))) % M
        x = tl.load(a + at[:, None] * (K * ITERATIONS * STEP) + (turn * K + k)[None, :] * STEP)
        if HOW == "outside":
            x = fixed
        below = turn * K + k
        if HOW == "shared":
            below //= 4
        y = tl.load(b + below[:, None] * N + n[None, :])
        total = tl.dot(x, y, total)
    row = m
    if WHERE == "loaded":
        row = tl.load(table + m)
    if WHERE == "late":
        row = (m + tl.load(table)) % M
    tl.store(out + row[:, None] * N + n[None, :], total)


def launch(how: str, step: int = 1, shift: int = 0, where: str = "") -> tuple[Any, np.ndarray, np.ndarray]:
    """The kernel, its result, and what it has to be."""
    rng = np.random.default_rng(shift)
    _, a = between_guards(M * K * ITERATIONS * step, np.float16)
    _, b = between_guards(K * ITERATIONS * N, np.float16)
    _, table = between_guards(M * ITERATIONS, np.int32)
    for array in (a, b):
        array[:] = rng.integers(-4, 5, array.size)
    table[:] = np.tile(rng.permutation(M), ITERATIONS)
    out = np.zeros((M, N), np.float32)
    extents = {"M": M, "N": N, "K": K, "ITERATIONS": ITERATIONS}
    kernel = product[(1,)](a, b, out, table, shift, HOW=how, STEP=step, WHERE=where, **extents)
    rows = a.reshape(M, K * ITERATIONS, step)[:, :, 0].astype(np.float32)
    if how == "table":
        rows = rows[table[:M]]
    if how == "wrapped":
        rows = np.roll(rows, -shift, 0)
    if how == "number":
        parts = np.split(rows, ITERATIONS, 1)
        rows = np.hstack([np.roll(part, -by, 0) for part, by in zip(parts, table[-ITERATIONS:], strict=True)])
    if how == "outside":
        rows = np.tile(a[: M * K].reshape(M, K).astype(np.float32) + shift, (1, ITERATIONS))
    below = np.arange(K * ITERATIONS) // (4 if how == "shared" else 1)
    expected = rows @ b.reshape(K * ITERATIONS, N)[below].astype(np.float32)
    places = {"loaded": table[:M], "late": (np.arange(M) + table[0]) % M}
    return kernel, out[places.get(where, slice(None))], expected


@pytest.mark.parametrize(
    ("how", "step", "shift", "tiles"),
    [
        ("straight", 1, 0, 3),
        ("wrapped", 1, 5, 3),
        ("shared", 1, 0, 2),
        ("table", 1, 0, 2),
        ("number", 1, 0, 2),
        ("outside", 1, 2, 2),
        ("straight", 3, 0, 2),
    ],
)
def test_rows_that_are_known_early_are_fetched(how: str, step: int, shift: int, tiles: int) -> None:
    """Right at the end of memory, too, and without looking up what comes behind the table.

    Where there are tiles whose places are known, there is one more: the place of the result.
    """
    kernel, out, expected = launch(how, step, shift)
    np.testing.assert_array_equal(out, expected)
    assert parse_module(kernel.asm["loops"]).ops_of(Prefetch)
    assert tiles_asked_for(kernel) == tiles


def tiles_asked_for(kernel: Any) -> int:
    """How many tiles its product asks for ahead."""
    (op,) = loops_until(kernel, "copy_elision").ops_of(Matmul)
    return len(op.soon) // 2


def loops_until(kernel: Any, name: str) -> Op:
    """The kernel behind the pass of that name."""
    module, steps = parse_module(kernel.asm["ttcir"]), loop_passes(host_target())
    last = next(place for place, step in enumerate(steps) if step.name == name)
    for step in steps[: last + 1]:
        step.function(module)
    return module


@pytest.mark.parametrize("where", ["loaded", "late"])
def test_a_result_whose_place_memory_tells_is_not_asked_for(where: str) -> None:
    kernel, out, expected = launch("straight", where=where)
    np.testing.assert_array_equal(out, expected)
    assert tiles_asked_for(kernel) == 2


def test_the_result_is_asked_for_in_the_last_turn() -> None:
    """Its place is the argument that the kernel stores to; the rows in order are those of the tile."""
    kernel, out, expected = launch("straight")
    np.testing.assert_array_equal(out, expected)
    module = loops_until(kernel, "copy_elision")
    (function,), (op,) = functions_of(module), module.ops_of(Matmul)
    assert root_of(op.soon[4]) is function.body.args[2]
    assert op.soon_extents[6:] == (2, M, N * 4)


@tw.jit
def attention_like(q, k, v, out, rows, BLOCK: tl.constexpr, ITERATIONS: tl.constexpr):
    """Two products a turn: a left factor that all turns share, and one that is computed from the first result."""
    i, pid, head = tl.arange(0, BLOCK), tl.program_id(0), tl.program_id(1)
    at = (pid * BLOCK + i)[:, None] * BLOCK + i[None, :]
    left = tl.load(q + at) * 2.0
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for turn in range(ITERATIONS):
        here = (turn * BLOCK + i)[:, None] * BLOCK + i[None, :]
        scores = tl.dot(left, tl.trans(tl.load(k + here)))
        total = tl.dot(tl.maximum(scores, 0.0), tl.load(v + here), total)
    out += head * rows
    pitch = tl.minimum(rows, BLOCK)
    tl.store(out + (pid * BLOCK + i)[:, None] * pitch + i[None, :], total)


def launch_attention() -> tuple[Any, np.ndarray, np.ndarray]:
    """The kernel on four programs, its result, and what it has to be."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-3, 4, (rows, 32)).astype(np.float32) for rows in (64, 96, 96))
    out = np.zeros((128, 32), np.float32)
    kernel = attention_like[(2, 2)](q, k, v, out, 64 * 32, BLOCK=32, ITERATIONS=3)
    return kernel, out, np.tile(np.maximum(2 * q @ k.T, 0) @ v, (2, 1))


def test_loops_of_two_products_ask_for_what_follows_them() -> None:
    """The first product asks for the next keys, and at last for the next program's queries.

    The second one asks for the next values, and at last for the place of the result. That is computed behind the loop,
    and so is the distance of its rows.
    """
    kernel, out, expected = launch_attention()
    np.testing.assert_array_equal(out, expected)
    module = loops_until(kernel, "copy_elision")
    (function,) = functions_of(module)
    q, k, v, result, *_ = function.body.args
    first, second = module.ops_of(Matmul)
    assert (first.asked_operands, second.asked_operands) == ((1, 2), (1, 2))
    assert [root_of(place) for place in first.soon[::2]] == [k, q]
    assert [root_of(place) for place in second.soon[::2]] == [v, result]


@code_on("znver5")
def test_a_product_that_finds_its_panels_asks_for_the_next_ones() -> None:
    """The next keys are transposed already where a program before has come by."""
    kernel, *_ = launch_attention()
    before, after = (loops_until(kernel, name).ops_of(Matmul)[0] for name in ("copy_elision", "keep_panels"))
    keys, panels = before.soon[0], after.soon[0]
    assert isinstance(keys.op, Op)
    assert panels.op is not None
    assert panels.op.name == "arith.select"
    assert root_of(panels.op.operands[2]).name == "k"
