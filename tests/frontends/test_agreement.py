"""Random programs mean the same to Python, to the three front ends and to the interpreter."""

from __future__ import annotations

import linecache
from contextlib import nullcontext
from random import Random
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from evaluating import parameter, run_time
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import VARIABLES, Program

import tilewright as tw
import tilewright.language as tl
from long_runs import first_of
from tilewright.frontends import EvaluateOptions
from tilewright.frontends.choice import make_ttir
from tilewright.frontends.evaluate import branches
from tilewright.frontends.evaluate.continuations import MAX_COPIES
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

I32, P32 = run_time("i32"), run_time("*i32")
STORES = "".join(f"    tl.store(out + {i}, {name})\n" for i, name in enumerate(VARIABLES))
CONSTANTS = {"K": 7, "L": 30}


def functions(text: str) -> dict[str, Any]:
    """The functions of a program, with a kernel that stores what `body` returns."""
    head, _, _ = text.rpartition("    return")
    kernel = head[head.index("def body") :].replace("def body(x, y, K, L):", "def kernel(out, x, y, K, L):")
    whole = f"{text}\n{kernel}{STORES}"
    file = f"<program {hash(whole)}>"
    linecache.cache[file] = (len(whole), None, whole.splitlines(keepends=True), file)
    names: dict[str, Any] = {"tl": tl}
    exec(compile(whole, file, "exec"), names)
    return names


def through(kernel: FunctionType, frontend: str) -> Any:
    """The module that a front end makes."""
    values = {"out": P32, "x": I32, "y": I32, **CONSTANTS}
    parameters = [parameter(name, value) for name, value in values.items()]
    module = make_ttir(kernel, parameters, name="kernel", options=EvaluateOptions(), frontend=frontend)
    verify(module)
    return module


def interpreted(kernel: FunctionType, x: int, y: int) -> list[int]:
    """The values that the kernel stores when Python runs it."""
    out = np.zeros(len(VARIABLES), np.int32)
    tw.jit(interpret=True)(kernel)[(1,)](out, x, y, **CONSTANTS)
    return [int(value) for value in out]


def executed(module: Any, x: int, y: int) -> list[int]:
    """The values that the module stores."""
    out = np.zeros(len(VARIABLES), np.int32)
    run_ir(module, [out, x, y])
    return [int(value) for value in out]


def check(text: str, x: int, y: int, *, is_static: bool) -> None:
    """Compare all ways to run a program."""
    names = functions(text)
    expected = list(names["body"](x, y, **CONSTANTS))
    plain = names["helper"]
    names["helper"] = tw.jit(plain)
    kernel = names["kernel"]
    from_source, from_bytecode = through(kernel, "ast"), through(kernel, "bytecode")
    assert executed(from_source, x, y) == expected, text
    if print_op(from_source) != print_op(from_bytecode):
        assert executed(from_bytecode, x, y) == expected, text
    if is_static:
        assert executed(through(kernel, "trace"), x, y) == expected, text
    names["helper"] = tw.jit(interpret=True)(plain)
    assert interpreted(kernel, x, y) == expected, text


@given(st.randoms(use_true_random=False), st.integers(0, 99), st.integers(0, 99), st.booleans())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_programs_of_hypothesis(random: Random, x: int, y: int, is_static: bool) -> None:
    check(Program(random, is_static=is_static).text(), x, y, is_static=is_static)


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, MAX_COPIES])
@pytest.mark.parametrize("part", first_of(40, 1))
def test_many_programs(part: int, copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MAX_COPIES", copies)
    for number in range(125):
        random = Random(1000 * part + number)
        is_static = bool(number % 2)
        text = Program(random, is_static=is_static).text()
        check(text, random.randint(0, 99), random.randint(0, 99), is_static=is_static)


@pytest.mark.parametrize(("number", "copies"), [(4, 4), (18, 4), (88, 4), (1850, 4), (3005, 1), (3015, 1)])
@pytest.mark.parametrize("target", ["cpu", "cuda:90"])
def test_programs_that_leave_loops_on_machines(
    number: int, copies: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "MAX_COPIES", copies)
    random = Random(number)
    text = Program(random, is_static=False).text()
    assert "break" in text or "continue" in text
    x, y = random.randint(0, 99), random.randint(0, 99)
    names = functions(text)
    expected = list(names["body"](x, y, **CONSTANTS))
    names["helper"] = tw.jit(names["helper"])
    out = np.zeros(len(VARIABLES), np.int32)
    with nullcontext() if target == "cpu" else tw.simulate(target):
        tw.jit(names["kernel"])[(1,)](out, x, y, **CONSTANTS)
    assert out.tolist() == expected
