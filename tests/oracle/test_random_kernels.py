"""Random kernels: expression graphs over tiles with broadcasts, reductions, masks, loops and branches.

Hypothesis draws a program, as text; it runs as machine code and in all interpreters, and every pass must keep what it
computes. Numbers are int32, so that results must be equal to the last bit.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from agreement import agree, passes_agree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from long_runs import LONG

HEAD = """import tilewright as tw
import tilewright.language as tl


@tw.jit
def kernel(x, y, out, n, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    columns = tl.arange(0, N)
    whole = rows[:, None] * N + columns[None, :]
    pid = tl.program_id(0)
    s0 = n
    s1 = pid + 1
    r0 = tl.load(x + rows)
    r1 = rows
    c0 = tl.load(y + columns, mask=columns < n, other=3)
    c1 = columns
    t0 = tl.load(x + whole)
    t1 = tl.load(y + whole, mask=whole < n * 5, other=-1)
"""
TAIL = """    base = out + pid * (3 * M * N + 64)
    tl.store(base + whole, t0)
    tl.store(base + M * N + whole, t1, mask=(whole % 3 != 0) & (rows < n)[:, None])
    tl.store(base + 2 * M * N + rows, r0 + r1)
    tl.store(base + 2 * M * N + M + columns, c0 - c1, mask=columns >= s1)
    tl.store(base + 2 * M * N + M + N, s0 ^ s1)
"""
KINDS = ("s", "r", "c", "t")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "{} & {}", "{} | {}", "{} ^ {}", "tl.maximum({}, {})", "tl.minimum({}, {})")
COMPARISONS = ("<", "<=", "==", "!=", ">")


class Writer:
    """Writes one program; `draw` makes the choices."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.loops = 0

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def block(self, depth: int, size: int) -> None:
        """One statement or more."""
        for _ in range(self.draw(st.integers(1, size))):
            forms = [self.assign] * 4 + [self.swap, self.store]
            if depth < 3:
                forms += [self.loop, self.branch, self.repeat]
            self.pick(forms)(depth)

    def say(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def variable(self, kind: str) -> str:
        return f"{kind}{self.pick('01')}"

    def atom(self, kind: str) -> str:
        """A value that broadcasts to `kind`."""
        form = self.pick(("own", "own", "own", "scalar", "number", "other"))
        if form == "number":
            return str(self.draw(st.integers(-5, 9)))
        if form == "scalar" or kind == "s":
            return self.variable("s")
        if form == "other":
            return self.reduced(kind) if kind != "t" else self.spread()
        return self.variable(kind)

    def spread(self) -> str:
        """A row or column value, broadcast to a tile."""
        return self.pick((f"{self.variable('r')}[:, None]", f"{self.variable('c')}[None, :]"))

    def reduced(self, kind: str) -> str:
        """A tile reduced to a row or column value."""
        axis = 1 if kind == "r" else 0
        form = self.pick(("tl.sum({}, {})", "tl.max({}, {})", "tl.min({}, {})", "tl.argmax({}, {})"))
        return str(form.format(self.variable("t"), axis))

    def expression(self, kind: str) -> str:
        form = self.pick(("binary", "binary", "select", "divide", "shift", "move", "reduce"))
        a, b = self.atom(kind), self.atom(kind)
        if form == "select":
            return f"tl.where({a} {self.pick(COMPARISONS)} {b}, {self.variable(kind)}, {self.atom(kind)})"
        if form == "divide":
            return f"{self.variable(kind)} {self.pick(('//', '%'))} ((({a}) & 7) + 1)"
        if form == "shift":
            return f"{self.variable(kind)} {self.pick(('<<', '>>'))} (({a}) & 3)"
        if form == "move" and kind == "t":
            scan = f"tl.cumsum({self.variable('t')}, {self.pick('01')})"
            turned = f"tl.reshape(tl.trans({self.variable('t')}), (M, N))"
            return str(self.pick((scan, turned)))
        if form == "reduce" and kind == "s":
            return f"tl.sum({self.variable(self.pick('rc'))}, 0)"
        return str(self.pick(BINARY)).format(a, b)

    def scalar(self) -> str:
        return f"({self.expression('s')}) & 1023"

    def condition(self) -> str:
        return f"{self.variable('s')} {self.pick(COMPARISONS)} {self.draw(st.integers(-1, 5))}"

    def assign(self, depth: int) -> None:
        kind = self.pick(KINDS)
        text = self.scalar() if kind == "s" else self.expression(kind)
        variable = self.variable(kind)
        self.say(depth, f"{variable} = {text}" if kind == "s" else f"{variable} = {variable} * 0 + ({text})")

    def swap(self, depth: int) -> None:
        kind = self.pick(KINDS)
        self.say(depth, f"{kind}0, {kind}1 = {kind}1, {kind}0")

    def store(self, depth: int) -> None:
        """Memory that is written and read again."""
        place = "out + pid * (3 * M * N + 64) + whole"
        self.say(depth, f"tl.store({place}, {self.variable('t')}, mask=whole < {self.variable('s')})")
        self.say(depth, f"{self.variable('t')} = tl.load({place})")

    def loop(self, depth: int) -> None:
        self.loops += 1
        bounds = self.pick(("s0 & 3", "1, 4", "s1 & 1, n & 3", "3, 0, -1"))
        self.say(depth, f"for i{self.loops} in range({bounds}):")
        self.say(depth + 1, f"{self.variable('s')} += i{self.loops}")
        self.block(depth + 1, 3)

    def repeat(self, depth: int) -> None:
        self.loops += 1
        left = f"left{self.loops}"
        self.say(depth, f"{left} = s0 & 3")
        self.say(depth, f"while ({left} > 0) & ({self.condition()}):")
        self.say(depth + 1, f"{left} -= 1")
        self.block(depth + 1, 2)

    def branch(self, depth: int) -> None:
        self.say(depth, f"if {self.condition()}:")
        self.block(depth + 1, 2)
        if self.draw(st.booleans()):
            self.say(depth, "else:")
            self.block(depth + 1, 2)


@st.composite
def programs(draw: Any) -> str:
    """The text of a module with one kernel."""
    writer = Writer(draw)
    writer.block(1, 12)
    return HEAD + "\n".join(writer.lines) + "\n" + TAIL


def kernel_of(text: str, folder: Path) -> Any:
    """The kernel in the module `text`."""
    path = folder / f"random_{crc32(text.encode()):08x}.py"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    sys.modules.pop(path.stem, None)
    return module.kernel


def check(text: str, shape: tuple[int, int], n: int, folder: Path) -> None:
    """All ways to run the kernel agree."""
    kernel = kernel_of(text, folder)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-100, 100, shape[0] * shape[1] + 64).astype(np.int32) for _ in range(2))
    out = np.zeros(2 * (3 * shape[0] * shape[1] + 64), np.int32)
    passes_agree(kernel, x, y, out, n, M=shape[0], N=shape[1], grid=(2,))
    agree(kernel, x, y, out, n, M=shape[0], N=shape[1], grid=(2,))


SHAPES = ((4, 16), (16, 4), (8, 8), (2, 32), (1, 16), (32, 1))
QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@pytest.mark.slow  # tests/fuzz has a fast one
@pytest.mark.parametrize("count", [30, pytest.param(400, marks=LONG)])
def test_random_kernels(count: int, tmp_path: Path) -> None:
    @settings(max_examples=count, deadline=None, suppress_health_check=QUIET)
    @given(text=programs(), shape=st.sampled_from(SHAPES), n=st.integers(0, 7))
    def draw(text: str, shape: tuple[int, int], n: int) -> None:
        check(text, shape, n, tmp_path)

    draw()
