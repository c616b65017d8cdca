"""Products in loops begin with zeros by themselves only where these are what the sums hold."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.elide_zero_fill import elide_zero_fill
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import CpuDot
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op

ITERATIONS = """
module {
  tt.func public @kernel(%a: !tt.ptr<tensor<16x16xf32>, 5>, %high: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c = "cpu.alloc"() <{offset = 1024 : i64}> : () -> !tt.ptr<tensor<16x16xf32>, 5>
    %d = "cpu.alloc"() <{offset = 2048 : i64}> : () -> !tt.ptr<tensor<16x16xf32>, 5>
    "cpu.nest"() <{mode = rows, outer = array<i64: 16>}> ({
      %zero = arith.constant dense<START> : tensor<16x16xf32>
      "cpu.write"(%zero, %c) : (tensor<16x16xf32>, !tt.ptr<tensor<16x16xf32>, 5>) -> ()
      "cpu.yield"() : () -> ()
    }) : () -> ()
    BEFORE
    scf.for %k = %c0 to %high step %c1  : i32 {
      "cpu.dot"(LEFT, %a, %c) <{zero_init = false}> : (!tt.ptr<tensor<16x16xf32>, 5>,
        !tt.ptr<tensor<16x16xf32>, 5>, !tt.ptr<tensor<16x16xf32>, 5>) -> ()
      INSIDE
    }
    tt.return
  }
}
"""
COPY = """"cpu.nest"() <{mode = rows, outer = array<i64: 16>}> ({
      %tile = "cpu.read"(%FROM) : (!tt.ptr<tensor<16x16xf32>, 5>) -> tensor<16x16xf32>
      "cpu.write"(%tile, %TO) : (tensor<16x16xf32>, !tt.ptr<tensor<16x16xf32>, 5>) -> ()
      "cpu.yield"() : () -> ()
    }) : () -> ()"""
READ, WRITTEN = COPY.replace("FROM", "c").replace("TO", "d"), COPY.replace("FROM", "a").replace("TO", "c")
ASIDE = COPY.replace("FROM", "a").replace("TO", "d")
AS_IT_IS = {"START": "0.0", "BEFORE": "", "LEFT": "%a", "INSIDE": ""}


def changed(**parts: str) -> tuple[bool, str]:
    """Whether the pass changes the loop with these parts, and the text afterwards."""
    text = ITERATIONS
    for name, part in (parts | {name: part for name, part in AS_IT_IS.items() if name not in parts}).items():
        text = text.replace(name, part)
    module = parse_module(text)
    found = elide_zero_fill(module)
    assert found == any(isinstance(op, CpuDot) and op.first_iteration for op in module.walk())
    return found, print_op(module)


@pytest.mark.parametrize("parts", [{}, {"BEFORE": ASIDE, "INSIDE": ASIDE}], ids=["alone", "beside others"])
def test_zeros_are_for_loops_without_turns(parts: dict[str, str]) -> None:
    found, text = changed(**parts)
    assert found
    places = [text.index(part) for part in ("arith.cmpi sle, %high, %c0", "scf.if", "dense<0.0", "scf.for")]
    assert places == sorted(places)


def test_zeros_before_loops_with_turns_are_gone() -> None:
    high = {"%high: i32": "%other: i32", "%c0 = arith": "%high = arith.constant 3 : i32\n %c0 = arith"}
    found, text = changed(**high)
    assert found
    assert "cpu.write" not in text
    assert "cpu.nest" not in text


@pytest.mark.parametrize(
    "parts",
    [
        {"START": "1.0"},
        {"START": "-0.0"},
        {"BEFORE": WRITTEN},
        {"BEFORE": READ},
        {"INSIDE": WRITTEN},
        {"INSIDE": READ},
        {"LEFT": "%c"},
        {"step %c1": "step %high"},
    ],
    ids=["one", "negative zero", "written", "read", "written in turns", "read in turns", "an operand", "a step"],
)
def test_other_sums_are_read(parts: dict[str, str]) -> None:
    assert not changed(**parts)[0]


@tw.jit
def turns(a, b, out, rows, columns, low, high, step, M: tl.constexpr, K: tl.constexpr, ACC: tl.constexpr):
    m, k = tl.arange(0, M)[:, None], tl.arange(0, K)
    n = tl.arange(0, M)[None, :]
    total = tl.zeros((M, M), ACC)
    for turn in range(low, high, step):
        left = tl.load(a + m * 4 * K + turn * K + k[None, :])
        total = tl.dot(left, tl.load(b + (turn * K + k[:, None]) * M + n), total, input_precision="ieee", out_dtype=ACC)
    tl.store(out + m * M + n, total, (m < rows) & (n < columns))


@pytest.mark.parametrize("cpu", [None, "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize(
    ("dtype", "acc"), [("float32", tl.float32), ("float64", tl.float64), ("int8", tl.int32), ("float16", tl.float32)]
)
def test_turns_from_none_on(dtype: str, acc: tl.dtype, cpu: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel for all numbers of turns and all parts that are seen; what lay in the scratch memory does not show."""
    if not host_target(cpu).runs_here():
        pytest.skip(f"this host does not run {cpu} code")
    if cpu is not None:
        monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 5, shape).astype(dtype) for shape in ((64, 64), (64, 64)))
    infinite = a if dtype == "int8" else np.full_like(a, np.inf)
    for low, high, step, rows, columns in (
        (0, 4, 1, 64, 64), (0, 1, 1, 64, 64), (2, 2, 1, 64, 64), (3, 1, 1, 20, 7), (1, 3, 1, 37, 33), (0, 4, -1, 64, 9),
    ):  # fmt: skip
        out = np.full((64, 64), 7, "float64" if dtype == "float64" else "int32" if dtype == "int8" else "float32")
        wanted = out.copy()
        steps = slice(low * 16, max(low, high if step > 0 else low) * 16)
        wide = a.astype(np.float64)[:, steps] @ b.astype(np.float64)[steps]
        wanted[:rows, :columns] = wide[:rows, :columns]
        turns[(1,)](infinite, b, np.empty_like(out), 64, 64, 0, 4, 1, M=64, K=16, ACC=acc)
        turns[(1,)](a, b, out, rows, columns, low, high, step, M=64, K=16, ACC=acc)
        np.testing.assert_array_equal(out, wanted)
