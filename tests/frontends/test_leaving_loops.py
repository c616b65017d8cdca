"""`break`, `continue`, `return` and `else` of loops do what Python does, wherever a kernel runs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.support.diagnostics import CompilationError

N = 16


def first_match(x, out, n, wanted):
    for i in range(n):
        if tl.load(x + i) == wanted:
            break
        tl.store(out + i, 1)
    else:
        tl.store(out + 15, 9)
    tl.store(out + 14, i)


def skipping(x, out, n, wanted):
    total = 0
    for i in range(0, n, 2):
        if i == wanted:
            continue
        if tl.load(x + i) > 6:
            tl.atomic_add(out + 1, 5)
            continue
        tl.atomic_add(out, i + 1)
        total += i
    tl.store(out + 2, total)


def guarded_loads(x, out, n, wanted):
    for i in range(-3, 1 << 30):
        if i < 0:
            continue
        if i >= n:
            break
        if tl.load(x + i) == wanted:
            continue
        tl.store(out + i, i)


def condition_not_evaluated_again(x, out, n, wanted):
    i = 0
    while tl.load(x + i) != wanted:
        i += 1
        if i >= n:
            i = 1 << 28
            break
        if i == 3:
            continue
        tl.store(out + i, i)
    else:
        tl.store(out + 15, 7)
    tl.store(out + 14, i)


def downwards(x, out, n, wanted):
    for i in range(n - 1, -1, -2):
        if tl.load(x + i) == wanted:
            break
        tl.store(out + i, 3)
    tl.store(out + 15, i)


def at_the_end_of_the_integers(x, out, n, wanted):
    turns = 0
    for i in range(0x7FFFFFF8 + n - n, 0x7FFFFFFF, 3):
        turns += 1
        if turns == wanted:
            break
        tl.store(out + turns, i)
    tl.store(out, turns)


def tiles_carried(x, out, n, wanted):
    lanes = tl.arange(0, 16)
    mask = lanes < n
    tile = tl.load(x + lanes, mask, other=0)
    for i in range(9):
        if tl.sum(tile) > 60 + wanted:
            tile = -tile
            break
        if i == 2:
            continue
        tile += tl.where(mask, i, 0)
    tl.store(out + lanes, tile, mask)


def unrolled(x, out, n, wanted):
    for i in tl.static_range(5):
        for j in tl.static_range(3):
            if i * 3 + j == n:
                break
            if tl.load(x + i * 3 + j) == wanted:
                continue
            tl.store(out + i * 3 + j, 1)
        else:
            continue
        break
    tl.store(out + 15, i * 3 + j)


def known_at_compile_time(x, out, n, wanted, LAST: tl.constexpr = 4):
    for i in tl.static_range(100):
        if i == LAST:
            break
        if i % 2:
            continue
        tl.store(out + i, n)
    for k in range(n):
        if LAST < 0:
            break
        tl.store(out + 8, k)
    tl.store(out + 15, i)


@tw.jit
def position(x, n, wanted):
    for i in range(n):
        for j in range(2):
            if tl.load(x + 2 * i + j) == wanted:
                return i, 2 * i + j
            if i == 1:
                break
    return -1, n


def returned(x, out, n, wanted):
    row, place = position(x, n // 2, wanted)
    tl.store(out, row)
    tl.store(out + 1, place)


@tw.jit
def half(tile, wanted):
    for _i in range(4):
        if tl.max(tile) <= wanted:
            return tile
        tile = tile // 2
    return tile - 1


def returned_tile(x, out, n, wanted):
    lanes = tl.arange(0, 16)
    tl.store(out + lanes, half(tl.load(x + lanes), wanted), lanes < n)


def left_by_return(x, out, n, wanted):
    while True:
        n -= 1
        if n < 0:
            return
        for i in range(n):
            if tl.load(x + i) == wanted:
                tl.store(out + 15, i)
                return
        tl.store(out + n, n)


def counters_used_again(x, out, n, wanted):
    """Variables of inner loops had a value before: a number, or what a loop was left with."""
    i = 5
    for k in range(n):
        for i in range(3):
            tl.atomic_add(out + i, k)
    for i in range(n):
        if tl.load(x + i) == wanted:
            break
    tl.store(out + 15, i)
    while n > 0:
        for i in range(4, 6):
            tl.atomic_add(out + i, n)
        for k in range(n):
            tl.atomic_add(out + 7, k)
        n -= 1
    j = wanted
    for _ in range(wanted):
        for j in range(2):
            tl.atomic_add(out + 8 + j, 1)
        j = _ * 2
    tl.store(out + 14, j)


def counted_down(x, out, n, wanted):
    """An argument of 1 is a constant, with which the condition holds before the first turn."""
    total = 0
    while n > 0:
        total += n
        n -= 1
    while wanted:
        tl.store(out + wanted % 13, total)
        wanted = wanted // 2
    tl.store(out, total)


def never_broken(x, out, n, wanted):
    for i in range(n):
        tl.atomic_add(out, i)
        continue
        if i == wanted:
            break
    else:
        tl.store(out + 1, 5)
    for i in range(n):
        if i == wanted:
            tl.atomic_add(out + 2, i)
            continue
            break
    else:
        tl.store(out + 3, 7)


KERNELS: list[Callable[..., None]] = [
    first_match, skipping, guarded_loads, condition_not_evaluated_again, downwards, at_the_end_of_the_integers,
    tiles_carried, unrolled, known_at_compile_time, returned, returned_tile, left_by_return,
    counters_used_again, counted_down, never_broken,
]  # fmt: skip
INPUTS = np.array([5, 3, 7, 7, 2, 9, 4, 1, 8, 6, 6, 0, 11, 10, 12, 13], np.int32)
CASES = [(1, 3), (5, 2), (8, 7), (12, 9), (16, 99)]


@contextmanager
def python_helpers(kernel: Callable[..., None]) -> Iterator[None]:
    """The helpers of a kernel, run by Python."""
    names = kernel.__globals__
    compiled = {name: names[name] for name in ("position", "half")}
    names.update({name: tw.jit(interpret=True)(helper.fn) for name, helper in compiled.items()})
    yield
    names.update(compiled)


def by_python(kernel: Callable[..., None], n: int, wanted: int) -> list[int]:
    out = np.zeros(N, np.int32)
    with python_helpers(kernel):
        tw.jit(interpret=True)(kernel)[(1,)](INPUTS, out, n, wanted)
    return [int(value) for value in out]


def compiled(kernel: Any, n: int, wanted: int) -> list[int]:
    out = np.zeros(N, np.int32)
    kernel[(1,)](INPUTS, out, n, wanted)
    return [int(value) for value in out]


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_on_the_cpu(kernel: Callable[..., None], frontend: str) -> None:
    made = tw.jit(kernel, frontend=frontend)
    for n, wanted in CASES:
        assert compiled(made, n, wanted) == by_python(kernel, n, wanted), (n, wanted)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_on_a_simulated_gpu(kernel: Callable[..., None]) -> None:
    with tw.simulate("cuda:90"):
        for n, wanted in CASES[1:4]:
            assert compiled(tw.jit(kernel), n, wanted) == by_python(kernel, n, wanted), (n, wanted)


def test_tracing_runs_the_loop_in_python() -> None:
    def kernel(x, out, LAST: tl.constexpr):
        for i in range(100):
            if i == LAST:
                break
            if i % 2:
                continue
            tl.store(out + i, tl.load(x + i))

    out = np.zeros(N, np.int32)
    tw.jit(kernel, frontend="trace")[(1,)](INPUTS, out, 5)
    assert out.tolist() == [5, 0, 7, 0, 2, *[0] * 11]


def test_a_loop_that_never_leaves_at_run_time_stays_a_counted_loop() -> None:
    text = tw.jit(known_at_compile_time).warmup(INPUTS, INPUTS, 3, 4, grid=(1,)).asm["ttir"]
    assert "scf.for" in text
    assert "scf.while" not in text


def error_of(kernel: Callable[..., None], frontend: str = "auto", **signature: str) -> str:
    arguments = {name: np.zeros(N, np.int32) if kind.startswith("*") else 3 for name, kind in signature.items()}
    with pytest.raises(CompilationError) as caught:
        tw.jit(kernel, frontend=frontend).warmup(**arguments, grid=(1,))
    return str(caught.value)


def endless(out, LIMIT: tl.constexpr = 3):
    while True:
        tl.store(out, 1)
        if LIMIT < 0:
            break


@tw.jit
def of_two_types(x, n):
    for i in range(n):
        if i > 3:
            return tl.arange(0, 4)
        if i > 2:
            return 2.5
    return 1.5


def two_types(out, n):
    of_two_types(out, n)


def variable_of_another_type(out, n):
    i = 1.5
    for i in range(n):
        if i > 3:
            break
    tl.store(out, i)


def inside_with(out, n):
    for _i in range(n):
        with tl.async_task([0]):
            break


def test_mistakes_are_named() -> None:
    assert "would never end" in error_of(endless, out="*i32")
    assert "inconsistent return types" in error_of(two_types, out="*i32", n="i32")
    assert "`i`" in error_of(variable_of_another_type, out="*i32", n="i32")
    assert "`break` or `continue` inside `with`" in error_of(inside_with, out="*i32", n="i32")


def test_a_knob_refuses_what_triton_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.zeros(N, np.int32)
    tw.jit(first_match).warmup(INPUTS, out, 3, 3, grid=(1,))
    monkeypatch.setenv("TILEWRIGHT_LEAVE_LOOPS", "0")
    for frontend in ("ast", "bytecode"):
        with pytest.raises(CompilationError, match=r"`break` cannot be used|`else` of a loop cannot be used"):
            tw.jit(first_match, frontend=frontend).warmup(INPUTS, out, 3, 3, grid=(1,))


PROGRAM = """
import numpy, triton, triton.language as tl
@triton.jit
def kernel(out, n):
    for i in range(n):
        if i == 2:
            continue
        tl.store(out + i, 1)
out = numpy.zeros(4, numpy.int32)
kernel[(1,)](out, 4)
print(out.tolist())
"""


@pytest.mark.parametrize("allowed", [pytest.param(False, marks=pytest.mark.spared), True])
def test_tilewright_run_refuses_them_unless_the_environment_allows_them(tmp_path: Path, allowed: bool) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "tilewright", "run", str(program)]
    environment = {**os.environ, **({"TILEWRIGHT_LEAVE_LOOPS": "1"} if allowed else {})}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if allowed:
        assert done.stdout == "[1, 1, 0, 1]\n", done.stderr
    else:
        assert "`continue` cannot be used in a kernel" in done.stderr


def nested_leaves(count: int, kind: str) -> str:
    """A function with `count` branches in a row, one of whose paths leaves a loop, or the function."""
    leave = {"loop": "continue", "function": "return total"}[kind]
    lines = ["def f(x):", "    total = 0", *(["    for i in range(3):"] if kind == "loop" else ["    i = 5"])]
    indent = "        " if kind == "loop" else "    "
    lines.append(f"{indent}y = i * 7 + x")
    returned_in_a_loop = [
        "        for j in range(y & 3):",
        "            if y % 50 == j:",
        "                return total",
    ]
    for number in range(count):
        lines += [
            f"{indent}if y % {number + 3} == 1:",
            f"{indent}    only_here = y * 2",
            f"{indent}    if y % {number + 4} == 2:",
            f"{indent}        total += only_here",
            f"{indent}        {leave}",
            *([] if kind == "loop" else returned_in_a_loop),
            f"{indent}    y += {number}",
            f"{indent}else:",
            f"{indent}    y = (y + 2 * {number}) & 1023",
        ]
    return "\n".join([*lines, f"{indent}total += y", "    return total"])


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
@pytest.mark.parametrize("kind", ["loop", pytest.param("function", marks=pytest.mark.spared)])
def test_what_follows_branches_that_leave_is_not_copied_without_bound(kind: str, frontend: str, tmp_path: Path) -> None:
    sizes = []
    for count in (3, 5, 7):
        file = tmp_path / f"leaves_{kind}_{count}.py"
        file.write_text(
            f"import tilewright as tw, tilewright.language as tl\n\n{nested_leaves(count, kind)}\n\n"
            "g = tw.jit(f)\n\ndef kernel(out, x):\n    p = tl.program_id(0)\n    tl.store(out + p, g(x + p))\n"
        )
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        out = np.zeros(64, np.int32)
        made = tw.jit(module.kernel, frontend=frontend)[(64,)](out, 5)
        assert out.tolist() == [module.f(5 + p) for p in range(64)]
        sizes.append(made.asm["ttir"].count("\n"))
        vectorized = tw.vectorize(module.f, frontend=frontend)
        assert vectorized(np.arange(64)).tolist() == [module.f(p) for p in range(64)]
    assert sizes[2] - sizes[1] < 1.1 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
def test_a_kernel_that_returns_early_on_many_paths(frontend: str, tmp_path: Path) -> None:
    text = nested_leaves(8, "function")
    stored = re.sub(r"( +)return total", r"\1tl.store(out + p, total)\n\1return", text)
    file = tmp_path / "returning_early.py"
    file.write_text(
        f"import tilewright.language as tl\n\n{text}\n\n"
        + stored.replace("def f(x):", "def kernel(out, first):\n    p = tl.program_id(0)\n    x = first + p")
    )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = np.zeros(200, np.int32)
    tw.jit(module.kernel, frontend=frontend)[(200,)](out, 5)
    assert out.tolist() == [module.f(5 + p) for p in range(200)]
    assert len(set(out.tolist())) > 20
