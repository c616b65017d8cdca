"""The panels of a computed B are kept only while all that it is computed from is what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changed_costs import change_costs

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.keep_panels import keep_panels
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Matmul, Nest, Write
from tilewright.dialects.scf import If
from tilewright.dialects.tt_memory import Store
from tilewright.interpreter.machine import EXECUTORS
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.transforms.functions import functions_of

TARGET = host_target()
RNG = np.random.default_rng(11)
M, N, K, DEPTH, PROGRAMS = 64, 64, 96, 32, 3


@tw.jit
def product(
    a, b, scales, table, c, K, HOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr
):
    """Rows of numbers times rows of scaled bytes, the same ones for all programs.

    `HOW`: what differs between programs, or what B is computed from besides bytes and scales.
    """
    program = tl.program_id(0)
    m, n, k = program * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, DEPTH)
    total = tl.zeros((M, N), tl.float32)
    grown = tl.full((N, DEPTH), 1, tl.float32)
    if HOW == "bytes":
        places = b + n[:, None] * K + k[None, :]
        tl.store(places, tl.load(places) + 1)
    if HOW == "scales":
        tl.store(scales + n, tl.load(scales + n) + 1)
    for first in range(0, K, DEPTH):
        left = tl.load(a + m[:, None] * K + first + k[None, :]).to(tl.float32) + 1
        row = n
        if HOW == "table":
            row = tl.load(table + n)
        bytes = tl.load(b + row[:, None] * K + first + k[None, :]).to(tl.int32)
        if HOW == "number":
            bytes = bytes * (program + 1)
        if HOW == "numbers":
            bytes = bytes * (program + 1) + (program + 2) // 2 - program % 2 + (program ^ 1) - program * program
        right = bytes.to(tl.float32) * tl.load(scales + n)[:, None]
        if HOW == "float":
            right = right * (program + 1).to(tl.float32)
        if HOW == "carried":
            right = right * grown
            grown = grown + tl.sum(right)
        if HOW == "volatile":
            right = right + tl.load(table, volatile=True)
        if HOW == "between":
            tl.store(b + first + k, tl.zeros((DEPTH,), tl.int8) + 5)
        total = tl.dot(left, tl.trans(right), total, "ieee")
    tl.store(c + m[:, None] * N + n[None, :], total)


def arrays() -> dict[str, np.ndarray]:
    return {
        "a": RNG.integers(-3, 4, (PROGRAMS * M, K)).astype(np.int8),
        "b": RNG.integers(-3, 4, (N, K)).astype(np.int8),
        "scales": RNG.integers(1, 3, N).astype(np.float32),
        "table": RNG.permutation(N).astype(np.int32),
        "c": np.zeros((PROGRAMS * M, N), np.float32),
    }


def expected(how: str, given: dict[str, np.ndarray]) -> np.ndarray:
    found = []
    for program, rows in enumerate(np.split(given["a"].astype(np.float32) + 1, PROGRAMS)):
        b, scales = given["b"].astype(np.float32), given["scales"]
        if how == "table":
            b = b[given["table"]]
        if how == "between" and program > 0:
            b[0] = 5
        b[:, :DEPTH] += (program + 1) * (how == "bytes")
        scales = scales + (program + 1) * (how == "scales")
        if how in ("number", "numbers"):
            b *= program + 1
        if how == "numbers":
            b += (program + 2) // 2 - program % 2 + (program ^ 1) - program * program
        b = b * scales[:, None] * (program + 1 if how == "float" else 1)
        b += given["table"][0] * (how == "volatile")
        found.append(rows @ b.T)
    return np.concatenate(found)


def launch(how: str, given: dict[str, np.ndarray]) -> Any:
    return product[(PROGRAMS,)](*given.values(), K, how, M, N, DEPTH, num_threads=1)


def lowered(kernel: Any) -> Op:
    """The loops of a compiled kernel in front of the pass."""
    module = parse_module(kernel.asm["ttcir"])
    names = [step.name for step in loop_passes(TARGET)]
    run_passes(module, loop_passes(TARGET)[: names.index("keep_panels")])
    return module


@pytest.mark.parametrize("how", ["", "bytes", "scales", "number", "numbers", "float", "table", "volatile", "between"])
def test_results(how: str) -> None:
    given = arrays()
    wanted = expected(how, given)
    launch(how, given)
    np.testing.assert_array_equal(given["c"], wanted)


@pytest.mark.parametrize(("how", "kept"), [("", [False] * 3 + [True] * 6), ("bytes", [False] * 9)])
def test_programs_find_what_has_not_changed(how: str, kept: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program computes a turn that it does not find, and no other."""
    module, given, found = lowered(launch(how, arrays())), arrays(), list[bool]()
    assert keep_panels(module, TARGET)
    execute = EXECUTORS["cpu.matmul"]

    def note(machine: Any, op: Any, *operands: Any) -> Any:
        found.append(bool(operands[12]))
        return execute(machine, op, *operands)

    monkeypatch.setitem(EXECUTORS, "cpu.matmul", note)
    wanted = expected(how, given)
    numbers = given | {"K": K}
    run_ir(module, [numbers[parameter.name or ""] for parameter in functions_of(module)[0].body.args], (PROGRAMS,))
    assert found == kept
    np.testing.assert_array_equal(given["c"], wanted)


def test_the_other_matrix_is_computed_by_a_nest_of_its_own() -> None:
    module = lowered(launch("", arrays()))
    assert keep_panels(module, TARGET)
    (op,) = module.ops_of(Matmul)
    inside = [nest for nest in module.ops_of(Nest) if isinstance(nest.parent, If) and nest.parent.parent is op.parent]
    assert [sum(isinstance(inner, Write) for inner in nest.body) for nest in inside] == [1]
    beside = [nest for nest in module.ops_of(Nest) if nest.parent is op.parent]
    assert [sum(isinstance(inner, Write) for inner in nest.body) for nest in beside] == [1]


@pytest.mark.parametrize("how", ["numbers", "float", "table", "carried", "volatile", "between"])
@code_on("x86-64-v3")
def test_what_nobody_compares_is_computed_anew(how: str) -> None:
    """More than four numbers, one that is no integer, places and tiles from memory, memory that somebody else writes.

    The loop itself may be that, before it multiplies.
    """
    assert not keep_panels(lowered(launch(how, arrays())), TARGET)


def test_few_rows_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    change_costs(monkeypatch, in_place_blocks=4)
    kernel = product[(PROGRAMS,)](*arrays().values(), K, "", 16, N, DEPTH, num_threads=1)
    assert not keep_panels(lowered(kernel), TARGET)


@pytest.mark.parametrize("is_between", [False, True])
def test_a_matrix_that_stands_in_front_of_a_store_stays_there(is_between: bool) -> None:
    """Its nest would move behind the store; fusion puts none there, so one is copied from behind the loop."""
    module = lowered(launch("", arrays()))
    (op,) = module.ops_of(Matmul)
    (store,) = [nest for nest in module.ops_of(Nest) if any(isinstance(inner, Store) for inner in nest.body)]
    assert op.block is not None, "it stands in the loop"
    op.block.insert(store.clone(), op if is_between else next(iter(op.block)))
    assert keep_panels(module, TARGET) is not is_between
