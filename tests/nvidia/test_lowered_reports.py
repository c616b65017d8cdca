"""Prints, assertions and inline assembly on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, run

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.ptxsim import SimulationError


@tw.jit
def shown(x, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    tl.device_print("x", value)
    tl.device_print("all of it: 100%")
    tl.device_print("two", tl.program_id(0), value.to(tl.float16))
    tl.device_print("bits", value, hex=True)
    tl.device_print("truth", value < 0)


def test_prints() -> None:
    lines: list[str] = []
    run(shown, (2,), np.arange(2, dtype=np.int64) - 1, output=lines.append, B=2)
    here = sorted(line for line in lines if line.startswith("pid (1, 0, 0)"))
    assert "".join(here).splitlines() == [
        "pid (1, 0, 0) all of it: 100%",
        "pid (1, 0, 0) idx () two: (operand 0) 1",
        "pid (1, 0, 0) idx (0) bits: 0xffffffffffffffff",
        "pid (1, 0, 0) idx (0) truth: 1",
        "pid (1, 0, 0) idx (0) two: (operand 1) -1.000000",
        "pid (1, 0, 0) idx (0) x: -1",
        "pid (1, 0, 0) idx (1) bits: 0x0000000000000000",
        "pid (1, 0, 0) idx (1) truth: 0",
        "pid (1, 0, 0) idx (1) two: (operand 1) 0.000000",
        "pid (1, 0, 0) idx (1) x: 0",
    ]
    assert len(lines) == 2 * len(here)


@tw.jit
def checked(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i)
    tl.device_assert(value < n, "too large")
    tl.store(out + i, value)


@pytest.mark.slow
def test_assertions() -> None:
    x = np.arange(128, dtype=np.int32)
    _, found = run(checked, (1,), x, x * 0, 128, debug=True, B=128)
    assert (found == x).all()
    with pytest.raises(SimulationError, match="assertion: too large"):
        run(checked, (1,), x, x * 0, 100, debug=True, B=128)


@tw.jit
def assembled(x, y, out, down, up, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    add: tl.constexpr = "add.rn.f16x2 $0, $1, $2;"
    tl.store(out + i, tl.inline_asm_elementwise(add, "=r,r,r", [a, b], dtype=tl.float16, is_pure=True, pack=2))
    shifts: tl.constexpr = "{\n\tshr.b32 $0, $2, 3;\n\tshl.b32 $1, $2, 3;\n}"
    kinds: tl.constexpr = (tl.int32, tl.int32)
    less, more = tl.inline_asm_elementwise(shifts, "=r,=r,r", [i], dtype=kinds, is_pure=True, pack=1)
    tl.store(down + i, less)
    tl.store(up + i, more)


def test_inline_assembly() -> None:
    x, y = np.random.default_rng(3).random((2, 512)).astype(np.float16)
    i = np.arange(512, dtype=np.int32)
    _, _, total, down, up = run(assembled, (1,), x, y, x, i, i, B=512)
    assert (total == x + y).all()
    assert (down == i >> 3).all()
    assert (up == i << 3).all()


@tw.jit
def asked(out):
    start = tl.extra.cuda.globaltimer()
    tl.store(out, tl.extra.cuda.smid().to(tl.int64))
    tl.store(out + 1, tl.extra.cuda.globaltimer() - start)


@pytest.mark.slow
def test_clock_and_multiprocessor() -> None:
    ptx = compiled(asked, [np.zeros(2, np.int64)]).asm["ptx"]
    assert (ptx.count("%globaltimer"), ptx.count("%smid")) == (2, 1)
