"""Kernels that tend to blow up stay small: bars in lines of LLVM IR, which is what compiling takes time for.

The time itself is a matter of `bench/run.py --only compile`; a line takes some 50 µs, front end and passes included.
"""

import sys
from pathlib import Path
from time import thread_time

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu import pipeline
from tilewright.backends.llvm.machine import compile_object, host_target

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from hard_kernels import CASES, loads_kernel, loops_kernel, sort_kernel

MAX_LINES = 9000
"""The bar is a second on any machine, not what they take today."""

LONGER = {"256 masked loads and stores": 16_000}
"""Max lines of kernels that are short per line: nests of a few ops."""


class Text(Exception):
    """The LLVM IR of a kernel, raised where machine code would be made of it."""


def no_machine_code(text, target):
    raise Text(text)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_size(case, monkeypatch, tmp_path):
    """No machine code is made: its lines are none of those that are counted.

    The IR is verified at the ends of stages: after every pass, that takes a third of the time of such kernels.
    """
    monkeypatch.setenv("TILEWRIGHT_VERIFY_PASSES", "0")
    monkeypatch.setattr(pipeline, "compile_object", no_machine_code)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    with pytest.raises(Text) as caught:
        case.compile()
    (text,) = caught.value.args
    assert 10 < text.count("\n") <= LONGER.get(case.name, MAX_LINES)


def test_a_masked_load_and_store_is_a_few_lines():
    """Code in front of the loops, such as the end of the mask, stands there once for all of them."""
    x = np.zeros(64, np.float32)
    short, long = (loads_kernel.warmup(x, x, 100, 1024, count, grid=(1,)) for count in (41, 49))
    # NEON and SSE have no masks: lane by lane. AMD's processors with AVX2 also ask whether all lanes are on, and Zen 5
    # asks ahead for what it loads under masks.
    target = host_target()
    most = {128: 95, 256: 62}.get(target.vector_bits, 56 if target.costs.prefetched_under_mask else 54)
    assert long.asm["llir"].count("\n") - short.asm["llir"].count("\n") <= 8 * most


@pytest.mark.spared
def test_a_loop_in_a_row_of_loops_takes_as_long_as_one_of_a_few():
    """CodeGenPrepare does not start over for each of them: 128 took 2.1 times as long per line as 8."""
    x = np.zeros(64, np.float32)
    texts = [loops_kernel.warmup(x, x, 1024, count, grid=(1,)).asm["llir"] for count in (8, 128)]
    few, many = (min(seconds(text) for _ in range(3)) / text.count("\n") for text in texts)
    assert many <= 1.4 * few


def seconds(text):
    start = thread_time()
    compile_object(text, host_target())
    return thread_time() - start


@pytest.mark.parametrize("n", [0, 9, 13])
@pytest.mark.parametrize("shift", [-5, 0, 16, 100])
def test_many_stores_in_order(n, shift):
    """Wherever the output lies: each load sees what was stored before."""
    x, size, count = np.arange(1000, dtype=np.int32) % 7, 16, 45
    given, expected = x.copy(), x.copy()
    for i in range(count):
        line = 100 + np.arange(i * size, i * size + n)
        expected[line + shift] = expected[line] ** 2 + i
    loads_kernel[(1,)](given[100:], given[100 + shift :], n, size, count)
    np.testing.assert_array_equal(given, expected)


@pytest.mark.spared
def test_a_step_of_a_sort_is_a_few_lines():
    """A partner is found by a load and a shuffle, whatever the element type: nothing goes lane by lane."""
    short, long = (sort_kernel.warmup(x, x, 2, n, 0, grid=(1,)) for x in [np.zeros(64, np.int8)] for n in (512, 1024))
    steps = 55 - 45
    added = long.asm["llir"].count("\n") - short.asm["llir"].count("\n")
    assert added <= 50 * steps
    assert "extractelement" not in long.asm["llir"]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "int64"])
@pytest.mark.parametrize("shape", [(1, 2), (1, 8), (4, 64)])
def test_sorts(dtype, shape):
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    out = np.zeros_like(x)
    sort_kernel[(1,)](x, out, *shape, 0)
    np.testing.assert_array_equal(out, np.sort(x, axis=1))


@tw.jit
def partner_kernel(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr, DISTANCE: tl.constexpr):
    i, j = tl.arange(0, A)[:, None], tl.arange(0, B)[None, :]
    offsets = i * B + j
    place = (i if AXIS == 0 else j) + tl.zeros([A, B], tl.int32)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.gather(x + 1, place ^ DISTANCE, AXIS) * 2 + x)


@pytest.mark.parametrize(("axis", "distance"), [(0, 1), (0, 7), (0, 12), (1, 1), (1, 5), (1, 31), (1, 32), (1, 48)])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_partners_at_any_distance(dtype, axis, distance):
    x = np.random.default_rng(1).integers(-9, 9, (16, 64)).astype(dtype)
    out = np.zeros_like(x)
    partner_kernel[(1,)](x, out, 16, 64, axis, distance)
    partner = np.take(x, np.arange(x.shape[axis]) ^ distance, axis)
    np.testing.assert_array_equal(out, (partner + 1) * 2 + x)


@tw.jit
def nearest_kernel(x_ptr, out_ptr, N: tl.constexpr, M: tl.constexpr):
    places = tl.arange(0, M) ^ 3
    tl.store(out_ptr + tl.arange(0, M), tl.gather(tl.load(x_ptr + tl.arange(0, N)), places, 0))


def test_partners_in_a_longer_tile():
    """More elements than are asked for."""
    x = np.arange(64, dtype=np.int32)
    out = np.zeros(16, np.int32)
    nearest_kernel[(1,)](x, out, 64, 16)
    np.testing.assert_array_equal(out, np.arange(16) ^ 3)


@tw.jit
def chain_kernel(x_ptr, out_ptr, N: tl.constexpr, LENGTH: tl.constexpr):
    offsets = tl.arange(0, N)
    y = x = tl.load(x_ptr + offsets)
    for i in tl.static_range(LENGTH):
        y = tl.where(y > i, y - x, y + x * 2)
    tl.store(out_ptr + offsets, y)


@pytest.mark.spared
def test_a_long_chain():
    """Longer than Python's stack is deep; few values are kept on the way."""
    x = np.arange(-32, 32, dtype=np.int32)
    out = np.zeros_like(x)
    chain_kernel[(1,)](x, out, 64, 250)
    y = x
    for i in range(250):
        y = np.where(y > i, y - x, y + x * 2)
    np.testing.assert_array_equal(out, y)
    kernel = chain_kernel.warmup(x, out, 64, 250, grid=(1,))
    assert kernel.asm["ttcir"].count("cpu.write") <= 2 * 250 * 4 // 100


@tw.jit
def moving_kernel(x_ptr, out_ptr, step, N: tl.constexpr, COUNT: tl.constexpr):
    places, pointers = tl.arange(0, N), x_ptr + tl.arange(0, N)
    total = tl.zeros([N], tl.int32)
    for i in tl.static_range(COUNT):
        total += tl.load(pointers) * (i + 1) + places
        pointers += step
        places += 3
    tl.store(out_ptr + tl.arange(0, N), total)


@pytest.mark.spared
@pytest.mark.parametrize("step", [2, -1])
def test_pointers_that_move_many_times(step):
    """Each tile is the first one and a number: no chain gets longer."""
    x, count = np.arange(400, dtype=np.int32), 64
    start, out = x[180:], np.zeros(16, np.int32)
    moving_kernel[(1,)](start, out, step, 16, count)
    i = np.arange(count)[:, None]
    expected = x[180 + i * step + np.arange(16)] * (i + 1) + np.arange(16) + 3 * i
    np.testing.assert_array_equal(out, expected.sum(0))
    kernel = moving_kernel.warmup(start, out, step, 16, 2 * count, grid=(1,))
    assert kernel.asm["ttcir"].count("cpu.write") <= 2, "pointers are not kept"
    assert kernel.asm["llir"].count("\n") <= 20 * 2 * count


@pytest.mark.spared
def test_many_nests():
    """Masks, overlapping arguments and all, where code is written as short as possible."""
    count, n = 40, 23
    memory = np.arange(count * 32 + 7, dtype=np.float32)
    x, out = memory[: count * 32], memory[7:]
    expected = memory.copy()
    for i in range(count):
        part = expected[i * 32 : i * 32 + n].copy()
        expected[7 + i * 32 : 7 + i * 32 + n] = part * part + i
    loads_kernel[(1,)](x, out, n, 32, count)
    np.testing.assert_array_equal(memory, expected)
