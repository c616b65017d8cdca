"""Tiles that loops and branches in a row carry stay in one buffer, where nobody needs what it held."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.bufferize_carried import bufferize_carried
from tilewright.dialects.cpu import Alloc, Write
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify

N = 64
FLAGS = 16

BRANCH = """
    %{0} = scf.if %c -> (tensor<64xf32>) {{
      %f{0} = arith.addf %{1}, %{1} : tensor<64xf32>
      scf.yield %f{0} : tensor<64xf32>
    }} else {{
      scf.yield %{1} : tensor<64xf32>
    }}"""
LOOP = """
    %{0} = scf.for %k{0} = %n0 to %n step %n1 iter_args(%v{0} = %{1}) -> (tensor<64xf32>) : i32 {{
      %f{0} = arith.addf %v{0}, %v{0} : tensor<64xf32>
      scf.yield %f{0} : tensor<64xf32>
    }}"""


def buffers(body: str, result: str) -> tuple[int, int]:
    """The number of buffers and of writes to them in a function with this body."""
    module = parse_module(f"""
  tt.func public @f(%x: tensor<64xf32>, %c: i1, %n: i32) -> tensor<64xf32> {{
    %n0 = arith.constant 0 : i32
    %n1 = arith.constant 1 : i32{body}
    tt.return %{result} : tensor<64xf32>
  }}""")
    bufferize_carried(module)
    verify(module)
    return len(module.ops_of(Alloc)), len(module.ops_of(Write))


@pytest.mark.parametrize("first", [BRANCH, LOOP])
@pytest.mark.parametrize("second", [BRANCH, LOOP])
def test_one_buffer(first: str, second: str) -> None:
    """Only the first branch or loop is told its tile; both then write what they change."""
    assert buffers(first.format("a", "x") + second.format("b", "a"), "b") == (1, 3)


@pytest.mark.parametrize("second", [BRANCH, LOOP])
@pytest.mark.parametrize(
    "used",
    [
        "%y = arith.addf %b, %a : tensor<64xf32>",
        "%y = arith.addf %b, %before : tensor<64xf32>",
        "%y = scf.if %c -> (tensor<64xf32>) { scf.yield %a : tensor<64xf32> } else { scf.yield %b : tensor<64xf32> }",
    ],
)
def test_what_is_needed_later_stays(second: str, used: str) -> None:
    """Itself, or what was computed of it, and is computed where it is needed."""
    before = "\n%before = arith.mulf %a, %a : tensor<64xf32>\n"
    alone = buffers(LOOP.format("a", "x") + before + second.format("b", "x") + used, "y")
    assert buffers(LOOP.format("a", "x") + before + second.format("b", "a") + used, "y") == alone


def test_a_branch_in_a_loop() -> None:
    """The loop's buffer is that of the branch: the loop writes it anew at its end, and so has no copy there."""
    body = """
    %r = scf.for %k = %n0 to %n step %n1 iter_args(%v = %x) -> (tensor<64xf32>) : i32 {{{0}
      %w = arith.addf %b, %b : tensor<64xf32>
      scf.yield {1} : tensor<64xf32>
    }}"""
    assert buffers(body.format(BRANCH.format("b", "v"), "%w"), "r") == (1, 3)
    assert buffers(body.format(BRANCH.format("b", "v"), "%b"), "r")[0] == 1


def test_a_loop_that_does_not_carry_what_a_branch_changes() -> None:
    """Each iteration needs what the buffer held in front of the loop."""
    inside = BRANCH.format("b", "a") + "\n%w = arith.addf %b, %v : tensor<64xf32>"
    body = f"""{LOOP.format("a", "x")}
    %r = scf.for %k = %n0 to %n step %n1 iter_args(%v = %x) -> (tensor<64xf32>) : i32 {{{inside}
      scf.yield %w : tensor<64xf32>
    }}"""
    assert buffers(body, "r")[0] == 3


def test_a_loop_that_keeps_what_a_branch_changes() -> None:
    """The loop carries %v and does not write it anew: the next iteration needs it as it was."""
    body = f"""
    %r:2 = scf.for %k = %n0 to %n step %n1 iter_args(%v = %x, %sum = %x) -> (tensor<64xf32>, tensor<64xf32>) : i32 {{
      {BRANCH.format("b", "v")}
      %w = arith.addf %b, %sum : tensor<64xf32>
      scf.yield %v, %w : tensor<64xf32>, tensor<64xf32>
    }}"""
    assert buffers(body, "r#1")[0] == 3


@tw.jit
def branches(x_ptr, n, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    x = tl.load(x_ptr + i)
    for bit in tl.static_range(4):
        if n & (1 << bit):
            x = x * 2 + bit
    tl.store(x_ptr + i, x)


def test_branches_copy_nothing() -> None:
    """A nest each, but for the first one, which puts into a buffer what was loaded, on both sides."""
    x = np.arange(N, dtype=np.int32)
    kernel = branches[(1,)](x, 10, N)
    np.testing.assert_array_equal(x, ((np.arange(N) * 2 + 1) * 2) + 3)
    assert kernel.asm["ttcir"].count('"cpu.nest"') <= 7


# --- drawn programs, beside NumPy ---

TILES = "abc"
EXPRESSIONS = (
    "{0} + {1}",
    "{0} * 3 - {1}",
    "{0}",
    "tl.flip({0})",
    "{0} + tl.sum({1})",
    "{0} ^ tl.load(x_ptr + i)",
    "tl.where({0} > {1}, {1}, {0})",
    "tl.cumsum({0}, 0)",
    "tl.load(out_ptr + i + 3 * N)",
)
HEAD = f"""
import tilewright as tw
import tilewright.language as tl


@tw.jit
def kernel(x_ptr, flags, out_ptr):
    N: tl.constexpr = {N}
    i = tl.arange(0, N)
    a = tl.load(x_ptr + i)
    b = a * 5 + i
    c = i
"""
TAIL = """
    tl.store(out_ptr + i, a)
    tl.store(out_ptr + i + N, b)
    tl.store(out_ptr + i + 2 * N, c)
"""


def drawn_block(rng: random.Random, depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(rng.randint(1, 4 if depth < 3 else 2)):
        kind, flag = rng.random(), f"tl.load(flags + {rng.randrange(FLAGS)})"
        tile, expression = rng.choice(TILES), rng.choice(EXPRESSIONS).format(*rng.choices(TILES, k=2))
        if kind < 0.45 and depth < 3:
            lines.append(f"if {flag} > 0:" if kind < 0.25 else f"for j{depth} in range({flag}):")
            lines += drawn_block(rng, depth + 1)
            if kind < 0.12:
                lines += ["else:", *drawn_block(rng, depth + 1)]
        else:
            moves = (f"{tile} = {expression}", f"a, b, c = b, c, {expression}", "a, b = b, a")
            lines.append(rng.choice((*moves, moves[0], f"tl.store(out_ptr + i + 3 * N, {tile})")))
    return [f"    {line}" for line in lines]


class Memory:
    """A pointer in NumPy."""

    def __init__(self, memory: np.ndarray[Any, Any], place: Any = 0) -> None:
        self.memory, self.place = memory, place

    def __add__(self, offset: Any) -> Memory:
        return Memory(self.memory, self.place + offset)


NUMPY = SimpleNamespace(
    arange=lambda low, high: np.arange(low, high, dtype=np.int32),
    constexpr=int,
    cumsum=lambda x, axis: np.cumsum(x, axis, dtype=np.int32),
    flip=lambda x: x[::-1],
    load=lambda at: at.memory[at.place].copy(),
    store=lambda at, x: at.memory.__setitem__(at.place, x),
    sum=lambda x: x.sum(dtype=np.int32),
    where=np.where,
)


def check_drawn(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = HEAD + "\n".join(line for _ in range(3) for line in drawn_block(rng, 0)) + TAIL
    path = tmp_path / f"drawn_{seed}.py"
    path.write_text(text)
    names: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, path, "exec"), names)
    numpy: dict[str, Any] = {"tl": NUMPY}
    exec(text.split("@tw.jit")[1], numpy)
    run: Callable[..., None] = numpy["kernel"]
    drawn = np.random.default_rng(seed)
    for _ in range(3):
        x, flags = drawn.integers(-9, 9, N, np.int32), drawn.integers(0, 3, FLAGS, np.int32)
        found, wanted = np.zeros((2, 4 * N), np.int32)
        with np.errstate(over="ignore"):
            run(Memory(x), Memory(flags), Memory(wanted))
        names["kernel"][(1,)](x, flags, found)
        np.testing.assert_array_equal(found, wanted, err_msg=text)


@pytest.mark.parametrize("seed", range(8))
def test_drawn(seed: int, tmp_path: Path) -> None:
    check_drawn(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_more_drawn(part: int, tmp_path: Path) -> None:
    for seed in range(100 + 40 * part, 140 + 40 * part):
        check_drawn(seed, tmp_path)
