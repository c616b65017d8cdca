"""Shapes, strides, `out=`, `where=`, overlap, other libraries' arrays."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from expressions import function
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from long_runs import LONG
from tilewright.vectorizing.iteration import Plan

pytestmark = pytest.mark.quick


def plain(a: Any, b: Any) -> Any:
    return a * 2 + b


f = tw.vectorize(plain)
EXTENTS = st.sampled_from((0, 1, 2, 3, 5, 17, 40))
DTYPES = ("f4", "f8", "i2", "i8", "u1", "?")


@st.composite
def views(draw: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An array of this shape that lies in memory in any way."""
    dtype = draw(st.sampled_from(DTYPES))
    steps = [draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2))) for _ in shape]
    base = np.arange(int(np.prod([abs(s) * n for s, n in zip(steps, shape, strict=True)])) + 1) % 50
    whole = base[:-1].astype(dtype).reshape([abs(s) * n for s, n in zip(steps, shape, strict=True)])
    view = whole[tuple(slice(None, None, step) for step in steps)]
    return draw(st.sampled_from((lambda a: a, np.asfortranarray, np.ascontiguousarray)))(view)


@st.composite
def pairs(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    shape = tuple(draw(st.lists(EXTENTS, max_size=3)))
    made = []
    for _ in range(2):
        thin = tuple(1 if draw(st.integers(0, 3)) == 0 else extent for extent in shape)
        made.append(draw(views(thin[draw(st.integers(0, len(thin))) :] if draw(st.booleans()) else thin)))
    return made[0], made[1]


def check(a: np.ndarray, b: np.ndarray) -> None:
    expected = plain(a, b)
    found = f(a, b)
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if not np.ndim(expected):
        return
    mask = np.arange(expected.size).reshape(expected.shape) % 3 == 0
    before = np.full_like(expected, 1)
    after = before.copy(order="K")
    np.copyto(before, expected, where=mask)
    assert f(a, b, out=after, where=mask) is after
    np.testing.assert_array_equal(after, before)


@pytest.mark.spared
@settings(max_examples=20, deadline=None)
@given(pairs())
def test_any_layout(pair: tuple[np.ndarray, np.ndarray]) -> None:
    check(*pair)


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, pytest.param(1500, marks=LONG)])
def test_any_layout_often(count: int) -> None:
    settings(max_examples=count, deadline=None)(given(pairs())(lambda pair: check(*pair)))()


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_overlap(size: int) -> None:
    for shifts in ((0, 0, 0), (3, 5, 4), (0, 0, 1), (1, 1, 0)):
        first, second, third = shifts
        ours, theirs = np.arange(size + 9.0), np.arange(size + 9.0)
        f(ours[first : first + size], ours[second : second + size], out=ours[third : third + size])
        theirs[third : third + size] = plain(theirs[first : first + size], theirs[second : second + size])
        np.testing.assert_array_equal(ours, theirs)


def test_overlap_with_its_own_transpose() -> None:
    ours = np.arange(10000.0).reshape(100, 100)
    expected = plain(ours.T, ours.T)
    f(ours.T, ours.T, out=ours)
    np.testing.assert_array_equal(ours, expected)


def test_result_lies_in_memory_as_the_inputs_do() -> None:
    x = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    for _ in range(2):
        assert f(x, x).flags.f_contiguous
        assert f(x.T, x.T).flags.c_contiguous
    turned = np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0)
    assert f(turned, 1.0).strides == plain(turned, 1.0).strides


def test_native_and_python_calls_agree() -> None:
    x = np.linspace(0, 1, 1001, dtype=np.float32)
    expected = plain(x, 3.0)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, 3.0), expected)
    np.testing.assert_array_equal(f(a=x, b=3.0), expected)
    np.testing.assert_array_equal(f(x[::2], 3.0), expected[::2])
    np.testing.assert_array_equal(f(x.reshape(7, 143), 3.0), expected.reshape(7, 143))
    assert f(x[:0], 3.0).shape == (0,)
    assert f(np.float32(2), 3.0).dtype == np.float32
    assert isinstance(f(1, 2), int)


def test_out_of_another_dtype() -> None:
    x = np.arange(5, dtype=np.float32)
    target = np.zeros(5, np.float64)
    assert f(x, x, out=target) is target
    np.testing.assert_array_equal(target, plain(x, x))
    with pytest.raises(TypeError, match="same_kind"):
        f(x, x, out=np.zeros(5, np.int32))


def test_big_endian() -> None:
    x = np.arange(5, dtype=">f4")
    np.testing.assert_array_equal(f(x, x), plain(x, x))


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [((1,), (), (4,)), ((1, 3), (1,), (2, 3)), ((), (), (2, 2)), ((3,), (3,), (2, 3)), ((2, 1), (1, 1), (5, 2, 3))],
)
def test_an_output_may_be_larger_than_what_inputs_make(a: Any, b: Any, out: Any) -> None:
    left, right = np.arange(1.0, 1 + np.prod(a)).reshape(a), np.full(b, 3.0)
    found, expected = np.zeros(out), np.zeros(out)
    f(left, right, out=found)
    np.add(left * 2, right, out=expected)
    np.testing.assert_array_equal(found, expected)
    for wrong in ((7, *out[1:]), out[1:]) if a else ():
        with pytest.raises(ValueError, match=r"the output has the shape|broadcast"):
            f(np.broadcast_to(left, out).copy(), right, out=np.zeros(wrong))


def test_wrong_shapes() -> None:
    x = np.arange(4.0)
    with pytest.raises(ValueError, match="could not be broadcast"):
        f(x, np.arange(3.0))
    with pytest.raises(ValueError, match="the output has the shape"):
        f(x, x, out=np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        f(x, x, out=np.broadcast_to(0.0, (4,)))
    with pytest.raises(TypeError, match="where= takes bools"):
        f(x, x, where=np.arange(4))
    with pytest.raises(TypeError, match="argument"):
        f(x)
    with pytest.raises(TypeError, match="argument"):
        f(x, x, x)


def test_where_decides_what_counts() -> None:
    divide = tw.vectorize(function("a // b"))
    a, b = np.arange(40), np.arange(40) % 4
    expected = np.full(40, -1)
    np.floor_divide(a, b, out=expected, where=b != 0)
    out = np.full(40, -1)
    with np.errstate(all="raise"):
        divide(a, b, out=out, where=b != 0)  # no warning
    np.testing.assert_array_equal(out, expected)


@pytest.mark.needs_torch
def test_tensors() -> None:
    import torch

    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    found = f(x, x.T.contiguous().T)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, x * 3)
    out = torch.empty(3, 4)
    assert f(x, 1.0, out=out) is out
    assert torch.equal(out, x * 2 + 1)
    with pytest.raises(TypeError, match="bfloat16"):
        f(x.to(torch.bfloat16), 1.0)


def test_dlpack() -> None:
    class Foreign:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    np.testing.assert_array_equal(f(Foreign(np.arange(5.0)), 1), plain(np.arange(5.0), 1))


def test_many_elements_on_many_threads() -> None:
    x = np.arange(300_001, dtype=np.float32)
    expected = plain(x, 1)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, 1), expected)
    wide = x[:300_000].reshape(500, 600)
    np.testing.assert_array_equal(f(wide.T, wide[0][:, None]), plain(wide.T, wide[0][:, None]))


def test_calls_from_threads() -> None:
    x = np.arange(50_000.0)
    expected = plain(x, 2.0)
    wrong: list[int] = []

    def work() -> None:
        for number in range(40):
            if not np.array_equal(f(x, 2.0), expected) or f(number, 1) != plain(number, 1):
                wrong.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.slow
@pytest.mark.long
def test_more_than_two_gigabytes() -> None:
    x = np.zeros(2**31 + 100, np.int8)
    x[-1] = 5
    found = tw.vectorize(function("a + 1", "a"))(x)
    assert (int(found[-1]), int(found[0]), found.size) == (6, 1, x.size)


@pytest.mark.spared
def test_large_results_use_memory_again() -> None:
    add = tw.vectorize(function("a + b"))
    for count in (40_000, 2**21 + 3, 3_000_001):
        x = np.arange(count, dtype=np.float64)
        add(x, 1.0)
        found = add(x, 1.0)
        np.testing.assert_array_equal(found, x + 1.0)
        addresses = {add(x, 1.0).__array_interface__["data"][0] for _ in range(50)}
        assert len(addresses) < 5
        again = add(x, 2.0)
        assert again.__array_interface__["data"][0] % 64 == 0
        np.testing.assert_array_equal(again, x + 2.0)
        again.resize(count + 5, refcheck=False)
        np.testing.assert_array_equal(again[:count], x + 2.0)
        assert again[count:].tolist() == [0.0] * 5


def test_every_second_call_goes_backwards() -> None:
    add = tw.vectorize(function("a + b"))
    for count in (4096, 4097, 12_288, 20_001):
        x = np.arange(count, dtype=np.float32)
        for _ in range(4):
            np.testing.assert_array_equal(add(x, x), x + x)


def test_outputs_of_known_calls() -> None:
    x, y = np.arange(1003.0), np.arange(1003.0)[::-1].copy()
    f(x, y)
    for _ in range(2):
        out = np.zeros(1003)
        assert f(x, y, out=out) is out
        np.testing.assert_array_equal(out, plain(x, y))
        again = x.copy()
        f(again, y, out=again)
        np.testing.assert_array_equal(again, plain(x, y))
        shifted = np.arange(1010.0)
        f(shifted[:1003], y, out=shifted[3:1006])
        np.testing.assert_array_equal(shifted[3:1006], plain(x, y))
    with pytest.raises(ValueError, match="read-only"):
        f(x, y, out=np.broadcast_to(np.zeros(1), (1003,)))
    assert f(x, y, out=None).shape == (1003,)


@pytest.mark.parametrize("unfit", ["step", "order", "dtype", "offset"])
def test_outputs_that_a_known_call_cannot_take_as_they_are(unfit: str) -> None:
    x, y = np.arange(60.0).reshape(6, 10), np.ones((6, 10))
    whole = np.full((6, 21), -1.0)
    outs = {
        "step": whole[:, :20:2],
        "order": np.full((10, 6), -1.0).T,
        "dtype": np.full((6, 10), -1, np.complex64),
        "offset": np.full(61 * 8, 255, np.uint8)[3:483].view(np.float64).reshape(6, 10),
    }
    for _ in range(3):
        out = outs[unfit]
        out[...] = -1
        f(x, y, out=np.zeros((6, 10)))
        assert f(x, y, out=out) is out
        np.testing.assert_array_equal(out, plain(x, y))
    assert (whole[:, 1::2] == -1).all()


def test_an_output_is_written_once_also_where_something_is_told() -> None:
    divide = tw.vectorize(function("a // b"))
    divisors = np.arange(5) % 3 + 1
    for _ in range(3):
        a = np.array([100, 90, 80, 70, 60])
        divide(a, divisors, out=a)
        assert a.tolist() == [100, 45, 26, 70, 30]
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            divide(a, np.array([2, 0, 2, 2, 2]), out=a)
        assert a.tolist() == [50, 0, 13, 35, 15]


def test_a_prepared_call_looks_at_overlap_again() -> None:
    values = np.arange(40.0)
    for first, third in ((0, 20), (0, 20), (0, 1), (1, 0), (0, 0)):
        ours, theirs = values.copy(), values.copy()
        f(ours[first : first + 20 : 2], 1.0, out=ours[third : third + 20 : 2])
        theirs[third : third + 20 : 2] = plain(theirs[first : first + 20 : 2], 1.0)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("strides", "letters"),
    [
        (((8,), (0,), (16,), (4,), (8,)), "vussv"),
        (((16, 8), (8, 0), (0, -8), (0, 16), (0, 16)), "vusss"),
        (((0,), (0,), (0,), (0,), (0,)), "uuuuv"),
        (((8,), (0,), (16,)), "vus"),
        (((0,), (8,), (0,)), "uvv"),
    ],
)
def test_letters_of_the_innermost_axis(strides: tuple[tuple[int, ...], ...], letters: str) -> None:
    """A result of one element is written like neighbours."""
    plan = Plan((1,) * len(strides[0]), strides)
    assert plan.pattern((8,) * len(strides)) == letters
