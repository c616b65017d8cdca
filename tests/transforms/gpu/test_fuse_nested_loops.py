"""Fused loop nests do what the nests did, step by step: every part notes that it ran, with what it saw."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import tilewright.dialects
from long_runs import first_of
from tilewright.dialects.scf import For
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.cse import cse
from tilewright.transforms.gpu.fuse_nested_loops import fuse_nested_loops

assert tilewright.dialects.__all__

SIZE = 4096


def note(name: str, *values: str) -> str:
    """Append `values` to the notes in memory."""
    lines = []
    for k, value in enumerate(values):
        v = f"%{name}_{k}"
        lines.append(f"""
            {v}_n = tt.load %m : !tt.ptr<i32>
            {v}_p = tt.addptr %m, {v}_n : !tt.ptr<i32>, i32
            tt.store {v}_p, {value} : !tt.ptr<i32>
            {v}_t = arith.addi {v}_n, %c1 : i32
            tt.store %m, {v}_t : !tt.ptr<i32>
            """)
    return "".join(lines)


def module_of(body: str) -> Op:
    constants = "\n".join(f"%c{n} = arith.constant {n} : i32" for n in range(8))
    text = f"module {{ tt.func public @f(%a: i32, %b: i32, %m: !tt.ptr<i32>) {{\n{constants}\n{body}\ntt.return\n}}\n}}"
    module = parse_module(text)
    verify(module)
    return module


def notes(module: Op, a: int, b: int) -> list[int]:
    memory = np.zeros(SIZE, np.int32)
    memory[0] = 1
    run_ir(module, {"a": a, "b": b, "m": memory})
    return memory[: memory[0]].tolist()


def loops(module: Op) -> int:
    return sum(op.name == "scf.for" for op in module.walk())


def check(body: str, inputs: list[tuple[int, int]], left: int | None = None) -> Op:
    module = module_of(body)
    expected = [notes(module, *pair) for pair in inputs]
    assert fuse_nested_loops(module)
    verify(module)
    assert left is None or loops(module) == left
    assert [notes(module, *pair) for pair in inputs] == expected
    canonicalize(module)
    cse(module)
    assert [notes(module, *pair) for pair in inputs] == expected
    return module


def nest(start: str, mark: str = "tt.flatten") -> str:
    return f"""
        %r = scf.for %i = %c1 to %a step %c2 iter_args(%s = %b) -> (i32) : i32 {{
          %p = arith.muli %i, %c3 : i32
          {note("p", "%p", "%s")}
          %q = scf.for %j = %c0 to %b step %c1 iter_args(%x = {start}) -> (i32) : i32 {{
            %y = arith.addi %x, %j : i32
            {note("y", "%i", "%j", "%y", "%p", "%s")}
            scf.yield %y : i32
          }}
          %t = arith.addi %q, %p : i32
          {note("t", "%t", "%i")}
          scf.yield %t : i32
        }} {{{mark}}}
        {note("r", "%r")}
        """


INPUTS = [(6, 3), (6, 1), (2, 4), (1, 3), (7, 0), (0, 0), (7, -2)]


@pytest.mark.parametrize("start", ["%s", "%c5", "%p"])
def test_flattened(start: str) -> None:
    check(nest(start), INPUTS, 2)


def test_an_op_of_whose_results_only_the_second_is_used_in_front() -> None:
    body = nest("%both#1").replace(
        "%q = scf.for",
        """%tile = tt.splat %p : i32 -> tensor<4xi32>
          %both:2 = "tt.reduce"(%tile, %tile) <{axis = 0 : i32}> ({
          ^bb0(%u: i32, %v: i32, %w: i32, %z: i32):
            %o = arith.maxsi %u, %w : i32
            %n = arith.addi %v, %z : i32
            tt.reduce.return %o, %n : i32, i32
          }) : (tensor<4xi32>, tensor<4xi32>) -> (i32, i32)
          %q = scf.for""",
    )
    check(body, INPUTS, 2)


def test_a_quotient_that_is_a_bound_is_known_in_front_of_the_nest() -> None:
    """It stays in the loop where nothing else asks for it: there might be no turn, and the divisor might be 0."""
    body = nest("%s").replace("%q = scf.for", "%end = arith.divsi %b, %a : i32\n%q = scf.for")
    check(body.replace("%c0 to %b step", "%c0 to %end step"), [(2, 5), (3, 9), (7, 2), (1, -4), (0, 3)], 2)


SAID = "%runs = arith.cmpi sgt, %b, %c0 : i32\nllvm.intr.assume %runs : i1\n"


def test_a_loop_that_is_said_to_run_needs_no_copy() -> None:
    check(SAID + nest("%s"), [pair for pair in INPUTS if pair[1] > 0], 1)


def carried(body: str) -> int:
    """The values that the fused loop of a nest carries, when the inner loop is said to run."""
    module = check(SAID + body, [(6, 3), (2, 1)], 1)
    (loop,) = (op for op in module.walk() if isinstance(op, For))
    return len(loop.carried)


def test_what_need_not_be_carried_is_not() -> None:
    """Numbers of all turns stand in front of the loops, what only the end of a turn needs stands there."""
    used = note("y", "%i", "%y")
    body = nest("%c0").replace(note("y", "%i", "%j", "%y", "%p", "%s"), used).replace(note("p", "%p", "%s"), "")
    least = carried(body.replace("%p = arith.muli %i, %c3 : i32", "").replace("%q, %p", "%q, %c3"))
    assert carried(body) == least
    invariant = body.replace("arith.muli %i", "arith.muli %a").replace(used, note("y", "%p", "%y"))
    assert carried(invariant) == least


def test_a_load_in_front_stays_there() -> None:
    """The inner loop writes to the place that it reads."""
    body = nest("%s").replace("%q = scf.for", "%before = tt.load %m : !tt.ptr<i32>\n%q = scf.for")
    check(SAID + body.replace("%q, %p", "%q, %before"), [(6, 3), (2, 1)], 1)


def test_text(golden: Callable[[str, str], None]) -> None:
    body = """
        scf.for %i = %c0 to %a step %c1 : i32 {
          %first = tt.addptr %m, %i : !tt.ptr<i32>, i32
          %sum = scf.for %j = %c0 to %b step %c1 iter_args(%x = %c0) -> (i32) : i32 {
            %y = arith.addi %x, %j : i32
            tt.store %first, %y : !tt.ptr<i32>
            scf.yield %y : i32
          }
          tt.store %m, %sum : !tt.ptr<i32>
        } {tt.flatten, tt.num_stages = 3 : i32}
        """
    module = module_of(SAID + body)
    fuse_nested_loops(module)
    canonicalize(module)
    golden(print_op(module), "transforms/fuse_nested_loops/runs.ttir")


@pytest.mark.spared
def test_attributes_stay() -> None:
    mark = "tt.flatten, tt.num_stages = 3 : i32, tt.warp_specialize, tt.disallow_acc_multi_buffer"
    module = check(nest("%s", mark), INPUTS, 2)
    fused = [op for op in module.walk() if op.name == "scf.for" and "tt.flatten" not in op.attributes]
    assert [sorted(op.attributes) for op in fused] == [
        ["tt.disallow_acc_multi_buffer", "tt.num_stages", "tt.warp_specialize"]
    ]
    copies = [op for op in module.walk() if op.name == "scf.for" and "tt.flatten" in op.attributes]
    assert not any("tt.warp_specialize" in op.attributes for op in copies)


def test_unmarked_nests_stay() -> None:
    module = module_of(nest("%s", ""))
    text = print_op(module)
    assert not fuse_nested_loops(module)
    assert print_op(module) == text


@pytest.mark.parametrize("end", ["%i", "%s"])
def test_bounds_that_change_otherwise_keep_the_nest(end: str) -> None:
    """A loop of as many turns as the outer one has had may have none; of a number that is carried nothing is known."""
    module = module_of(nest("%s").replace("%c0 to %b step", f"%c1 to {end} step"))
    expected = notes(module, 6, 2)
    fuse_nested_loops(module)
    assert loops(module) == 2
    assert "scf.if" not in print_op(module)
    assert notes(module, 6, 2) == expected


def test_several_loops_follow_one_another() -> None:
    body = f"""
        %r = scf.for %i = %c0 to %a step %c1 iter_args(%s = %b) -> (i32) : i32 {{
          {note("p", "%i")}
          %q = scf.for %j = %i to %b step %c1 iter_args(%x = %s) -> (i32) : i32 {{
            {note("y", "%i", "%j", "%s")}
            %y = arith.addi %x, %j : i32
            scf.yield %y : i32
          }}
          {note("n", "%s")}
          scf.for %j = %c1 to %b step %c2 : i32 {{
            {note("z", "%j", "%q")}
          }}
          %h = arith.addi %i, %c2 : i32
          scf.for %k = %i to %h step %c1 : i32 {{
            {note("k", "%k", "%h")}
          }}
          {note("e", "%q")}
          scf.yield %q : i32
        }} {{"ttg.always-fuse"}}
        {note("r", "%r")}
        """
    check(body, [(3, 5), (2, 7), (1, 2), (0, 3)], 2)


def random_nest(random: Random, depth: int, name: str, outer: list[str]) -> str:
    """A loop with parts that take notes, and loops inside, without results: they may be empty."""
    counter = f"%{name}i"
    low = random.choice(["%c0", "%c1", *outer])
    step = random.choice(["%c1", "%c2", "%c3"])
    known = [*outer, counter]
    parts = []
    for k in range(random.randint(1, 2) if depth else 0):
        parts.append(note(f"{name}{k}p", *random.sample(known, min(2, len(known)))))
        parts.append(random_nest(random, depth - 1, f"{name}{k}", known))
    parts.append(note(f"{name}e", *random.sample(known, min(2, len(known))), "%b"))
    mark = ' {"ttg.always-fuse"}' if not outer else ""
    high = random.choice(["%a", "%b", "%c4"])
    return f"scf.for {counter} = {low} to {high} step {step} : i32 {{\n{''.join(parts)}\n}}{mark}\n"


def check_random(seed: int) -> None:
    check(random_nest(Random(seed), 2, "l", []), [(3, 4), (5, 2), (2, 0)])


@pytest.mark.parametrize("seed", [0, 1, 202])
def test_random_nests(seed: int) -> None:
    check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [397, *first_of(60, 22)[2:]])
def test_more_random_nests(seed: int) -> None:
    check_random(seed)
