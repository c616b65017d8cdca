"""Assertions in compiled kernels: what fails, what is said, and what does not happen afterwards."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright import DeviceAssertError, TilewrightError

THREADS = [1, 2]


def below(x_ptr, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.device_assert(x < limit, "below the limit", mask=offsets != 5)
    tl.store(x_ptr + offsets, x + 100)


compiled, interpreted = tw.jit(below, debug=True), tw.jit(below, interpret=True)


def failure(launch: Callable[[], object]) -> DeviceAssertError:
    with pytest.raises(DeviceAssertError) as caught:
        launch()
    return caught.value


@pytest.mark.parametrize("threads", THREADS)
def test_a_failing_program_says_where_and_does_nothing_more(threads: int) -> None:
    x = np.arange(32, dtype=np.float32)
    error = failure(lambda: compiled[(8,)](x, 30, BLOCK=4, num_threads=threads))
    assert isinstance(error, RuntimeError)
    assert isinstance(error, TilewrightError)
    assert (error.message, error.program, error.index) == ("below the limit", (7, 0, 0), (2,))
    assert x[28:].tolist() == [28, 29, 30, 31]
    compiled[(8,)](x, 300, BLOCK=4, num_threads=threads)  # the next launch works
    assert x[28] == 128


def test_masked_elements_are_not_checked() -> None:
    x = np.zeros(8, np.int32)
    x[5] = 99
    compiled[(2,)](x, 10, BLOCK=4)
    x[4] = 999
    assert failure(lambda: compiled[(2,)](x, 200, BLOCK=4, num_threads=1)).index == (0,)


def test_the_text(golden: Callable[[str, str], None]) -> None:
    error = failure(lambda: compiled[(1,)](np.arange(4.0), 2, BLOCK=4))
    golden(without_lines(str(error)), "errors/device_assert.txt")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def without_lines(text: str) -> str:
    folder = __file__.rpartition("/")[0]
    text = text.replace(folder, "tests/cpu")
    return re.sub(r"^\d+( \|)", r"22\1", re.sub(r":\d+:(\d+)$", r":22:\1", text, flags=re.M), flags=re.M) + "\n"


def test_both_ways_to_run_say_the_same() -> None:
    errors = []
    for kernel in (compiled, interpreted):
        errors.append(failure(lambda kernel=kernel: kernel[(2,)](np.arange(8.0), 6, BLOCK=4)))
    (first, second) = errors
    assert (first.message, first.program, first.index) == (second.message, second.program, second.index)
    assert str(first).split("\n")[:3] == str(second).split("\n")[:3]


def test_two_dimensions() -> None:
    @tw.jit(debug=True)
    def kernel(x_ptr):
        rows, columns = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
        tl.device_assert(tl.load(x_ptr + rows * 16 + columns) == 0, "all zero")

    x = np.zeros((8, 16), np.int64)
    kernel[(1,)](x)
    x[5, 3] = x[5, 9] = x[7, 0] = 1
    assert failure(lambda: kernel[(1,)](x)).index == (5, 3)


def test_many_programs_fail_at_once() -> None:
    @tw.jit(debug=True)
    def kernel(x_ptr):
        x = tl.load(x_ptr + tl.program_id(0) + tl.program_id(1) * 64)
        assert x < 0, f"never {1}"

    x = np.zeros(64 * 64)
    for _ in range(20):
        error = failure(lambda: kernel[(64, 64)](x))
        assert error.message == "never 1"
        assert error.index == ()


@tw.jit
def halved(n):
    tl.device_assert(n % 2 == 0, "even")
    return n // 2


def test_assertions_of_callees_in_loops_and_branches_guard_accesses() -> None:
    @tw.jit(debug=True)
    def kernel(x_ptr, place_ptr, count):
        total = 0
        for i in range(count):
            place = tl.load(place_ptr + i)
            if place != 7:
                assert place < 8, "in bounds"
                total += tl.load(x_ptr + halved(place))
        tl.store(x_ptr + 4, total)

    x, places = np.arange(5, dtype=np.int32), np.array([2, 4, 7, 6], np.int64)
    kernel[(1,)](x, places, 4)
    assert x[4] == 1 + 2 + 3
    places[2] = 1 << 50  # would be far away
    error = failure(lambda: kernel[(1,)](x, places, 4))
    assert error.message == "in bounds"
    places[2] = 3
    error = failure(lambda: kernel[(1,)](x, places, 4))
    assert error.message == "even"
    assert str(error).count("-->") == 2
    assert "called from here" in str(error)
    assert x[4] == 6


@code_on("x86-64-v3")
def test_programs_that_wait_for_a_failed_one_stop() -> None:
    @tw.jit(debug=True)
    def kernel(flag_ptr, fail):
        program = tl.program_id(0)
        if program == 0:
            assert fail == 0, "first"
            tl.atomic_xchg(flag_ptr, 1)
        else:
            while tl.atomic_add(flag_ptr, 0) == 0:
                pass

    kernel[(4,)](np.zeros(1, np.int32), 0, num_threads=2)
    assert failure(lambda: kernel[(4,)](np.zeros(1, np.int32), 1, num_threads=2)).message == "first"


@pytest.mark.parametrize("way", ["launch", "decorator", "none"])
def test_when_it_checks(way: str) -> None:
    @tw.jit(debug=True if way == "decorator" else None)
    def kernel(n):
        tl.device_assert(n == 0)

    options = {"debug": True} if way == "launch" else {}
    if way == "none":
        kernel[(1,)](5)
    else:
        assert failure(lambda: kernel[(1,)](5, **options)).message == ""


def test_constants() -> None:
    @tw.jit(debug=True)
    def kernel(COND: tl.constexpr, MASK: tl.constexpr):
        tl.device_assert(COND, "test", mask=MASK)

    for condition in (True, False):
        for mask in (True, False, None):
            if condition or mask is False:
                kernel[(1,)](condition, mask)
            else:
                failure(lambda c=condition, m=mask: kernel[(1,)](c, m))


def test_it_costs_nothing_without_debug() -> None:
    def plain(x_ptr, limit, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets)
        tl.store(x_ptr + offsets, x + 100)

    plain.__name__ = "below"
    arguments: dict[str, Any] = {"grid": (1,), "BLOCK": 16}
    texts = [tw.jit(f).warmup(np.zeros(16), 3, **arguments).asm["asm"] for f in (plain, below)]
    assert texts[0] == texts[1]


def test_combine_functions_may_assert() -> None:
    @tw.jit
    def small_sum(a, b):
        total = a + b
        tl.device_assert(total < 1000, "small")
        return total

    @tw.jit(debug=True)
    def kernel(x_ptr, out_ptr, axis: tl.constexpr, N: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :])
        tl.store(out_ptr + tl.arange(0, N), tl.reduce(x, axis, small_sum))

    @tw.jit(debug=True)
    def scanned(x_ptr, out_ptr):
        offsets = tl.arange(0, 512)
        tl.store(out_ptr + offsets, tl.associative_scan(tl.load(x_ptr + offsets), 0, small_sum))

    x = np.arange(512, dtype=np.int32).reshape(16, 32) % 7
    for axis, count in ((0, 32), (1, 16)):
        out = np.zeros(count, np.int32)
        kernel[(1,)](x, out, axis, count)
        np.testing.assert_array_equal(out, x.sum(axis))
        large = x.copy()
        large[3, 4] = 5000
        assert failure(lambda a=(large, out, axis, count): kernel[(1,)](*a)).message == "small"
    out = np.zeros(512, np.int32)
    assert failure(lambda: scanned[(1,)](x, out)).message == "small"
    scanned[(1,)](x % 2, out)
    np.testing.assert_array_equal(out, np.cumsum(x % 2))


def test_threads_of_python_hear_only_of_their_own_launches() -> None:
    wrong: list[tuple[int, int]] = []
    compiled[(1,)](np.zeros(64, np.float32), 9.0, BLOCK=64)

    def launches(thread: int) -> None:
        x = np.arange(6400, dtype=np.float32)
        for turn in range(50):
            may_fail = (thread + turn) % 2 == 0
            try:
                compiled[(100,)](x.copy(), 6000.0 if may_fail else 1e9, BLOCK=64, num_threads=1 + turn % 2)
                failed = False
            except DeviceAssertError as error:
                failed = error.program[0] >= 93
            if failed is not may_fail:
                wrong.append((thread, turn))

    threads = [threading.Thread(target=launches, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_checks_and_a_sanitizer_work_together() -> None:
    kernel = tw.jit(below, debug=True)
    with pytest.raises(DeviceAssertError):
        kernel[(1,)](np.arange(4.0), 2, BLOCK=4, sanitize="bounds")
    with pytest.raises(tw.SanitizerError):
        kernel[(2,)](np.arange(4.0), 9, BLOCK=4, sanitize="bounds")


@tw.jit(debug=True)
def inside(places_ptr, n, LEADING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS)[None, :, None], tl.arange(0, COLUMNS)[None, None, :]
    leading = tl.arange(0, LEADING)[:, None, None]
    on = column < n
    place = tl.load(places_ptr + (leading * ROWS + row) * COLUMNS + column, mask=on)
    tl.device_assert(((place >= 0) & (place < 100)) | ~on, "inside")
    tl.store(places_ptr + (leading * ROWS + row) * COLUMNS + column, place + 1, mask=on)


SHAPES = [(1, 1, 1), (1, 8, 1), (1, 1, 64), (1, 4, 32), (4, 8, 2), (2, 4, 16), (2, 1, 128)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_first_of_all_elements_is_named(shape: tuple[int, int, int]) -> None:
    """In row-major order, whatever order they are compared in; elements behind the mask do not count."""
    drawn = np.random.default_rng(sum(shape))
    for n in {1, shape[2] // 2 or 1, shape[2]}:
        for count in (0, 1, 3):
            places = drawn.integers(0, 100, shape)
            bad = drawn.choice(places.size, min(count, places.size), replace=False)
            places.flat[bad] = drawn.choice([-1, 100, 1 << 40], bad.size)
            seen = sorted(np.argwhere((places < 0) | (places >= 100)).tolist())
            seen = [index for index in seen if index[2] < n]
            before = places.copy()
            launch = partial(inside[(1,)], places, n, *shape)
            if not seen:
                launch()
                np.testing.assert_array_equal(places, before + (np.arange(shape[2]) < n))
            else:
                assert failure(launch).index == tuple(seen[0])
                np.testing.assert_array_equal(places, before)


def test_rows_are_compared_without_divisions() -> None:
    places = np.zeros((2, 4, 32), np.int64)
    text = str(inside[(1,)](places, 32, 2, 4, 32).asm["loops"])
    before = text[: text.index('message = "inside"')]
    assert "scf.for" in before
    assert "arith.shrui" not in before
    assert "arith.divui" not in before
