"""Random kernels on floats that are small whole numbers, so that every order of summing gives the same: with dots,
pointers that move, block pointers and half precision, besides what `test_random_kernels` draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import agree, passes_agree
from hypothesis import given, settings
from hypothesis import strategies as st
from test_random_kernels import QUIET, Writer, kernel_of

from long_runs import LONG

HEAD = """import tilewright as tw
import tilewright.language as tl


@tw.jit
def half(value):
    return tl.floor(value * 0.5)


@tw.jit
def kernel(x, y, out, n, N: tl.constexpr):
    lanes = tl.arange(0, N)
    whole = lanes[:, None] * N + lanes[None, :]
    pid = tl.program_id(0)
    px = x + whole
    py = tl.make_block_ptr(y, (n * 4, 2 * N), (2 * N, 1), (0, pid), (N, N), (1, 0))
    s0 = n
    s1 = pid + 1
    r0 = tl.load(x + lanes).to(tl.float32)
    r1 = lanes.to(tl.float32)
    c0 = tl.load(y + lanes, mask=lanes < n, other=3).to(tl.float32)
    c1 = r0 - 1
    t0 = tl.load(px).to(tl.float32)
    t1 = tl.load(py, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
"""
TAIL = """    base = out + pid * (4 * N * N)
    tl.store(base + whole, t0)
    tl.store(base + N * N + whole, t1, mask=lanes[:, None] <= lanes[None, :])
    tl.store(base + 2 * N * N + lanes, r0 + r1)
    tl.store(base + 3 * N * N + lanes, c0 - c1 + s0 * 3 + s1)
"""
BINARY = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "tl.maximum({}, {})",
    "tl.minimum({}, {})",
    "half({} + {})",
    "tl.fma({}, {}, 1.0)",
)


class FloatWriter(Writer):
    """Writes programs on float32 tiles of shape (N, N)."""

    def expression(self, kind: str) -> str:
        if kind == "s":
            total = f"tl.sum({self.variable(self.pick('rc'))}, 0).to(tl.int32)"
            return str(self.pick((total, f"{self.variable('s')} + n", f"{self.variable('s')} ^ {self.variable('s')}")))
        form = self.pick(("binary", "binary", "select", "dot", "move", "load", "narrow"))
        if kind == "t" and form in ("dot", "move", "load"):
            return {"dot": self.product, "move": self.moved, "load": self.loaded}[form]()
        a, b = self.variable(kind), self.operand(kind)
        if form == "select":
            return f"tl.where({a} {self.pick(('<', '==', '>='))} {b}, {self.variable(kind)}, {self.operand(kind)})"
        if form == "narrow":
            return f"({a}.to(tl.{self.pick(('float16', 'bfloat16', 'int8', 'float8e5'))}).to(tl.float32) + {b})"
        return str(self.pick(BINARY)).format(a, b)

    def product(self) -> str:
        left, right = (self.pick(("{}", "tl.trans({})")).format(self.variable("t")) for _ in range(2))
        small = "tl.clamp({}, -2.0, 2.0)" + self.pick(("", ".to(tl.float16)", ".to(tl.bfloat16)"))
        return f"tl.dot({small.format(left)}, {small.format(right)}, {self.variable('t')})"

    def moved(self) -> str:
        scan = f"tl.cumsum({self.variable('t')}, {self.pick('01')})"
        return str(self.pick((scan, f"tl.trans({self.variable('t')})", f"tl.flip({self.variable('t')}, 1)")))

    def loaded(self) -> str:
        return str(self.pick(("tl.load(px).to(tl.float32)", "tl.load(py, boundary_check=(0, 1)).to(tl.float32)")))

    def operand(self, kind: str) -> str:
        form = self.pick(("own", "own", "scalar", "number", "other"))
        if form == "scalar":
            return f"({self.variable('s')} & 7)"
        if form == "number":
            return str(self.draw(st.integers(-3, 5)))
        if form == "other":
            return self.reduced(kind) if kind != "t" else self.spread()
        return self.variable(kind)

    def reduced(self, kind: str) -> str:
        axis = 1 if kind == "r" else 0
        form = self.pick(("tl.sum({}, {})", "tl.max({}, {})", "tl.min({}, {})", "tl.argmin({}, {}).to(tl.float32)"))
        return str(form.format(self.variable("t"), axis))

    def assign(self, depth: int) -> None:
        kind = self.pick(("s", "r", "c", "t", "t"))
        variable, text = self.variable(kind), self.expression(kind)
        if kind == "s":
            self.say(depth, f"{variable} = ({text}) & 1023")
        else:
            self.say(depth, f"{variable} = tl.clamp({variable} * 0 + ({text}), -16.0, 16.0)")

    def store(self, depth: int) -> None:
        form = self.pick(("pointers", "block", "memory"))
        if form == "pointers":
            self.say(depth, f"px += {self.pick(('0', '1', 'N', 's1 & 3'))} * (pid < 4)")
        elif form == "block":
            self.say(depth, f"py = tl.advance(py, ({self.pick(('0', '1', '-3'))}, {self.pick(('0', '2', 'N', '-5'))}))")
        else:
            place = "out + pid * (4 * N * N) + whole"
            self.say(depth, f"tl.store({place}, {self.variable('t')}, mask=whole < {self.variable('s')})")
            self.say(depth, f"{self.variable('t')} = tl.load({place}).to(tl.float32)")


@st.composite
def programs(draw: Any) -> str:
    """The text of a module with one kernel."""
    writer = FloatWriter(draw)
    writer.block(1, 8)
    return HEAD + "\n".join(writer.lines) + "\n" + TAIL


def check(text: str, dtype: Any, n: int, folder: Path, size: int = 16) -> None:
    """All ways to run the kernel agree."""
    kernel = kernel_of(text, folder)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-8, 8, 40000).astype(dtype) for _ in range(2))
    out = np.zeros(2 * 4 * size * size, dtype)
    passes_agree(kernel, x, y, out, n, N=size, grid=(2,))
    agree(kernel, x, y, out, n, N=size, grid=(2,), rtol=0.0)


@pytest.mark.slow  # tests/fuzz has a fast one
@pytest.mark.parametrize("count", [25, pytest.param(300, marks=LONG)])
def test_random_float_kernels(count: int, tmp_path: Path) -> None:
    @settings(max_examples=count, deadline=None, suppress_health_check=QUIET)
    @given(text=programs(), dtype=st.sampled_from((np.float32, np.float16)), n=st.integers(0, 7))
    def draw(text: str, dtype: Any, n: int) -> None:
        check(text, dtype, n, tmp_path)

    draw()
