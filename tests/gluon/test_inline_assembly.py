"""`gl.inline_asm` on a simulated GPU: registers of tiles in order, scalars, several results, addresses of buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import gluon
from tilewright.gluon import language as gl


@gluon.constexpr_function
def sums_and_differences(outputs: Any, inputs: Any) -> str:
    total, difference = outputs
    left, right = inputs
    adds = [f"add.f32 {out}, {a}, {b};" for out, a, b in zip(total, left, right, strict=True)]
    subtracts = [f"sub.f32 {out}, {a}, {b};" for out, a, b in zip(difference, left, right, strict=True)]
    return " ".join(adds + subtracts)


@gluon.jit
def two_results(x, y, total, difference):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    offsets = gl.arange(0, 512, layout=layout)
    a, b = gl.load(x + offsets), gl.load(y + offsets)
    one, other = gl.inline_asm(sums_and_differences, ("=&f", "=&f", "f", "f"), [a, b], (a.type, a.type), is_pure=True)
    gl.store(total + offsets, one)
    gl.store(difference + offsets, other)


@gluon.jit
def neighbours(x, out, scale):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    offsets = gl.arange(0, 256, layout=layout)
    a = gl.load(x + offsets)
    y = gl.inline_asm("fma.rn.f32 $0, $3, $4, $2; fma.rn.f32 $1, $2, $4, $3;", ("=&f", "f", "f"), [a, scale], a.type)
    gl.store(out + offsets, y)


@gluon.jit
def through_memory(x, out):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, 128, layout=layout)
    buffer = gl.allocate_shared_memory(gl.float32, [2, 128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    buffer.index(0).store(gl.load(x + offsets))
    buffer.index(1).store(gl.load(x + offsets) * 10)
    gl.barrier()
    place = (127 - offsets) * 4
    y = gl.inline_asm(
        "{ .reg .b32 a; add.u32 a, $1, $2; ld.shared.f32 $0, [a]; }",
        ("=f", "r", "r"),
        [buffer.index(1), place],
        gl.distributed_type(gl.float32, [128], layout),
    )
    buffer._keep_alive()
    gl.store(out + offsets, y)


@gluon.jit
def wrong(x, out, ASM: gl.constexpr, KINDS: gl.constexpr, OPEN: gl.constexpr):
    offsets = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    a = gl.load(x + (gl.arange(0, 128) if OPEN else offsets))
    gl.store(out + offsets, gl.inline_asm(ASM, KINDS, [a], a.type))


def test_registers_of_several_results() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 512)).astype(np.float32)
    total, difference = np.zeros((2, 512), np.float32)
    with tw.simulate("cuda:90"):
        two_results[(1,)](x, y, total, difference)
    assert np.array_equal(total, x + y)
    assert np.array_equal(difference, x - y)


def test_registers_of_one_thread_and_a_scalar() -> None:
    x, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    with tw.simulate("cuda:90"):
        kernel = neighbours[(1,)](x, out, 0.5)
    pairs = x.reshape(-1, 2)
    assert np.array_equal(out.reshape(-1, 2), pairs + pairs[:, ::-1] * 0.5)
    text = kernel.asm["ttgir"]
    assert 'ttg.inline_asm "fma.rn' in text
    assert 'constraints = "=&f,=&f,f,f,f"' in text


def test_address_of_a_buffer() -> None:
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    with tw.simulate("cuda:90"):
        through_memory[(1,)](x, out)
    assert np.array_equal(out, 10 * x[::-1])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "kinds", "is_open", "problem"),
    [
        ("mov.f32 $0, $1;", ("=f",), False, "one constraint per output and input group"),
        (3, ("=f", "f"), False, "expects a string or constexpr function"),
        ("mov.f32 $0, $1;", ("=f", "f"), True, "requires explicit distributed tensor layouts"),
    ],
)
def test_what_does_not_fit_is_refused(text: Any, kinds: Any, is_open: bool, problem: str) -> None:
    x = np.zeros(128, np.float32)
    with tw.simulate("cuda:90"), pytest.raises(tw.CompilationError, match=problem):
        wrong[(1,)](x, x, ASM=text, KINDS=kinds, OPEN=is_open)
