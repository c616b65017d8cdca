"""`kernel[grid](…)` through native code: what hits, what misses, and what it leaves behind."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from driver_kernels import ADD, COPY_SLOTS, COUNT, Jit, adder, arrays, entry, slow_calls

from tilewright.runtime.drivers.cpu import launcher
from tilewright.runtime.drivers.cpu.launcher import NativeKernel, Specialization, is_native
from tilewright.runtime.drivers.cpu.native.structs import IS_FREE_THREADED, TABLE
from tilewright.runtime.drivers.cpu.records import Parameter, Slot

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")


def test_the_second_call_is_native_and_right() -> None:
    kernel, (x, y, out) = adder(), arrays()

    kernel.native[(1,)](x, y, out, 1000, BLOCK=1024)
    out[:] = 0
    result = kernel.native[(1,)](x, y, out, 900, BLOCK=1024)

    assert result is kernel.result
    assert len(kernel.slow_calls) == 1
    assert np.array_equal(out[:900], (x + y)[:900])


def test_equal_keys_share_and_different_keys_do_not() -> None:
    kernel, (x, y, out) = adder(), arrays()
    calls = [
        ((x, y, out, 999), 1),
        ((x, y, out, 997), 0),
        ((x, y, out, 992), 1),  # multiple of 16
        ((x, y, out, 1), 1),
        ((x[1:], y, out, 999), 1),  # address no multiple of 16
        ((x[2:], y, out, 997), 0),
        ((x.astype(np.float64), y, out, 99), 1),  # another dtype
        ((x, y, out, -(2**40) + 1), 1),  # i64
        ((x, y, out, -(2**31)), 0),  # i32 and a multiple of 16: as 992
        ((x, y, None, -5), 1),  # stores nothing: n < 0
    ]
    for arguments, expected in calls:
        before = len(kernel.slow_calls)
        kernel.native[(1,)](*arguments, BLOCK=1024)
        assert len(kernel.slow_calls) - before == expected, arguments[3]


def test_constants_are_compared_by_value() -> None:
    kernel, (x, y, out) = adder(), arrays()

    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=int("1024")) == 0  # another object
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=2048) == 1
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1.5) == 1
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=float("1.5")) == 0
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK="text") == 1
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=None) == 1
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=True) == 1
    big = 2**70
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=big) == 1  # by identity
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=big + 1) == 1


def test_ways_to_call() -> None:
    kernel, (x, y, out) = adder(BLOCK=1024), arrays()

    assert slow_calls(kernel, (1,), x, y, out, 999) == 1  # default
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1  # another layout
    assert slow_calls(kernel, (1,), x, y, out, 999, 1024) == 1  # positional
    assert slow_calls(kernel, (1,), n=999, o=out, y=y, x=x) == 1
    assert slow_calls(kernel, (1,), x, y, out, 999, num_warps=4) == 1  # an option
    assert slow_calls(kernel, (1,), x, y, out, 999, num_stages=4) == 1  # another one
    keywords = {"num_warps": 4}
    assert slow_calls(kernel, (1,), x, y, out, 999, **keywords) == 0  # a new tuple of the same names
    assert slow_calls(kernel, (1,), x, y, out, 999, num_warps=8) == 1


def test_calls_that_do_not_fit_are_left_to_python() -> None:
    def slow(grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any], miss: Any) -> object:
        return args, kwargs, miss

    kernel = NativeKernel([Parameter("x"), Parameter("n", default=3)], slow)

    assert kernel[(1,)]() == ((), {}, None)
    assert kernel[(1,)](1, 2, 3) == ((1, 2, 3), {}, None)
    assert kernel[(1,)](1, x=2) == ((1,), {"x": 2}, None)
    assert kernel[(1,)](1, n=2)[:2] == ((1,), {"n": 2})


@pytest.mark.quick
@pytest.mark.parametrize(
    "value",
    [[1], object(), 2**64, -(2**63) - 1, "text", b"", np.ma.zeros(3)],
    ids=lambda value: type(value).__name__,
)
def test_arguments_of_other_kinds_always_go_to_python(value: Any) -> None:
    misses = []
    kernel = NativeKernel([Parameter("x")], lambda grid, args, kwargs, miss: misses.append(miss))

    kernel[(1,)](value)
    kernel[(1,)](value)

    assert misses == [None, None]


def test_subclasses_are_not_taken_for_their_bases() -> None:
    class Array(np.ndarray):
        pass

    class Number(int):
        pass

    misses = []
    kernel = NativeKernel([Parameter("x")], lambda grid, args, kwargs, miss: misses.append(miss))
    kernel[(1,)](np.zeros(3).view(Array))
    kernel[(1,)](Number(3))

    assert misses == [None, None]


def test_read_only_arrays_have_a_key_of_their_own() -> None:
    kernel, (x, y, out) = adder(), arrays()
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1
    x.flags.writeable = False
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1


def test_parameters_that_are_not_specialised() -> None:
    seen = []
    parameters = [Parameter("x", by_alignment=False), Parameter("n", by_value=False, by_alignment=False)]
    kernel = NativeKernel(parameters, lambda grid, args, kwargs, miss: seen.append(miss.key))
    (x,) = arrays(1)
    kernel[(1,)](x, 5)
    kernel[(1,)](x[1:], 16)
    kernel[(1,)](x, 1)

    assert len(set(seen)) == 1


GRIDS: list[tuple[Any, int]] = [
    ((3,), 3),
    ([3], 3),
    ((3, 2), 6),
    ((3, 2, 2), 12),
    ((np.int64(3),), 3),
    ((True,), 1),
    (lambda meta: (meta["n"], 2), 10),
    (lambda meta: [meta["n"]], 5),
    ((0,), 0),
    ((3, 0), 0),
]


@pytest.mark.quick
@pytest.mark.parametrize(("grid", "programs"), GRIDS)
def test_grids(grid: Any, programs: int) -> None:
    kernel = Jit(COUNT, "counts work n", {"counts": "*i64", "work": "i64", "n": "i32"}, scratch=64)
    counts = np.zeros(16, np.int64)
    kernel.native[(1,)](counts, 1, 5)
    counts[:] = 0
    calls = len(kernel.slow_calls)

    kernel.native[grid](counts, 1, 5)

    assert len(kernel.slow_calls) == calls
    assert counts.tolist() == [1] * programs + [0] * (16 - programs)


@pytest.mark.quick
@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (-1,), (2**31,), (1.5,), ("3",), "x", None, 3, (2**31 - 1,) * 3])
def test_grids_that_are_not_understood_come_to_python_as_they_are(grid: Any) -> None:
    grids: list[Any] = []

    def slow(grid: Any, args: Any, kwargs: Any, miss: Any) -> object:
        grids.append(grid)
        kernel.install(miss, Specialization(entry(ADD), None, ()))
        return None

    kernel = NativeKernel([Parameter("n")], slow)
    kernel[(0,)](3)
    kernel[grid](3)
    kernel[lambda meta: grid](3)

    assert grids == [(0,), grid, grid]


def test_exceptions_come_through() -> None:
    kernel, (x, y, out) = adder(), arrays()
    kernel.native[(1,)](x, y, out, 999, BLOCK=1024)

    with pytest.raises(ZeroDivisionError):
        kernel.native[lambda meta: (1 // 0,)](x, y, out, 999, BLOCK=1024)

    def slow(*_: Any) -> object:
        raise KeyError("slow")

    with pytest.raises(KeyError, match="slow"):
        NativeKernel([], slow)[(1,)]()


def test_slots_are_filled_as_the_machine_code_expects() -> None:
    types = {"o": "*i64", "a": "fp32", "b": "fp64", "c": "fp32", "d": "u1"}
    kernel = Jit(COPY_SLOTS, "o a b c d", types)
    out = np.zeros(6, np.int64)
    for _ in range(2):
        out[:] = -1
        kernel.native[(1, 1, 1)](out, 1.5, 2.25, 7, True)

    assert len(kernel.slow_calls) == 1
    assert out.view(np.int32)[:3].tolist() == [1, 1, 1]
    assert out.view(np.float32)[4] == 1.5
    assert out.view(np.float64)[3] == 2.25
    assert out.view(np.float32)[8] == 7
    assert out[5] == 1


@pytest.mark.quick
@pytest.mark.parametrize(("value", "kind"), [(-5, "i32"), (2**40 + 1, "i64"), (2**63 + 3, "u64"), (-(2**63), "i64")])
def test_integers_of_every_width(value: int, kind: str) -> None:
    kernel = Jit(COPY_SLOTS, "o a b c d", {"o": "*i64", "a": kind, "b": "i32", "c": "i32", "d": "i32"})
    out = np.zeros(6, np.int64)
    for _ in range(2):
        out[:] = 0
        kernel.native[(1,)](out, value, 2, 3, 4)

    assert len(kernel.slow_calls) == 1
    assert int(out[2]) & 2**64 - 1 == value & 2**64 - 1
    assert out[3:].tolist() == [2, 3, 4]


@pytest.mark.usefixtures("small_heap")
def test_references_are_neither_lost_nor_kept() -> None:
    kernel, (x, y, out) = adder(), arrays()
    number, grid, block = int("99999"), (int("1"),), int("123456")
    n = int("777")

    def meta_grid(meta: dict[str, Any]) -> tuple[int, ...]:
        return grid

    def calls(count: int) -> None:
        for _ in range(count):
            kernel.native[grid](x, y, out, n, BLOCK=block, number=number)
            kernel.native[meta_grid](x, y, out, n, BLOCK=block, number=number)

    objects = [x, y, out, n, grid, block, number, meta_grid, kernel.result, kernel.native, None, x.dtype, "BLOCK"]
    calls(2)
    gc.collect()
    before = [sys.getrefcount(value) for value in objects]
    blocks = sys.getallocatedblocks()
    calls(50_000)

    assert len(kernel.slow_calls) == 1
    assert [sys.getrefcount(value) for value in objects] == pytest.approx(before, abs=10)
    assert abs(sys.getallocatedblocks() - blocks) < 1000


def test_references_on_the_slow_path() -> None:
    kernel = NativeKernel([Parameter("x"), Parameter("n")], lambda grid, args, kwargs, miss: None)
    value, grid = object(), (1, 2, 3, 4)
    kernel[grid](value, n=value)
    before = sys.getrefcount(value), sys.getrefcount(grid)
    for _ in range(10_000):
        kernel[grid](value, n=value)

    assert (sys.getrefcount(value), sys.getrefcount(grid)) == before


@pytest.mark.usefixtures("small_heap")
def test_kernels_are_collected() -> None:
    kernel, (x, y, out) = adder(), arrays()
    kernel.native[(1,)](x, y, out, 999, BLOCK=1024)
    watched, watched_array = weakref.ref(kernel), weakref.ref(x)
    del kernel
    gc.collect()

    assert watched() is None
    assert watched_array() is not None
    del x
    gc.collect()
    assert watched_array() is None


@pytest.fixture
def new_launches(small_heap: None) -> Any:
    """Launches are bound anew: somebody has the one that is kept, which collections may not look at any more."""
    return NativeKernel([], lambda grid, args, kwargs, miss: None)[(1,)]


class Holder:
    """An object that may be in a cycle with a bound launch."""

    launch: Any = None


@pytest.mark.usefixtures("new_launches")
@pytest.mark.parametrize("bound_before", [0, 3])
def test_cycles_through_bound_launches_are_collected(bound_before: int) -> None:
    """A kernel calls what holds its launch. Bound launches are tracked from the first, and when one is used again."""
    holder = Holder()
    kernel = NativeKernel([], lambda grid, args, kwargs, miss, keeps=holder: keeps)
    for _ in range(bound_before):
        assert kernel[(1,)]() is holder
    holder.launch = kernel[(1,)]
    in_the_grid = Holder()
    in_the_grid.launch = kernel[[1, in_the_grid]]
    watched = [weakref.ref(thing) for thing in (holder, kernel, in_the_grid)]
    del holder, kernel, in_the_grid
    gc.collect()

    assert [reference() for reference in watched] == [None] * 3


@pytest.mark.spared
@pytest.mark.usefixtures("small_heap")
def test_a_bound_launch_whose_launch_is_under_way_is_not_collected() -> None:
    def slow_path(grid: Any, args: Any, kwargs: Any, miss: Any) -> int:
        gc.collect()
        return len(grid) + len(args)

    kernel = NativeKernel([Parameter("x")], slow_path)
    launch, grid = kernel[(3, 4)], [5]
    for _ in range(20):
        assert kernel[grid](7) == 2
        assert launch(7) == 3


@pytest.mark.usefixtures("new_launches")
@pytest.mark.skipif(IS_FREE_THREADED, reason="no bound launch is kept where threads are free")
def test_the_bound_launch_that_is_kept_may_be_found() -> None:
    kernel, (x, y, out) = adder(), arrays()
    for _ in range(3):
        kernel.native[(1,)](x, y, out, 999, BLOCK=1024)
        kind = type(kernel.native[(1,)])
        found = [thing for thing in gc.get_objects() if type(thing) is kind]
        assert found, "the collector has it in its lists"
        for launch in found:
            with pytest.raises(SystemError):
                launch(x, y, out, 999, BLOCK=1024)
        out[:] = 0
        launches = [kernel.native[(1,)] for _ in range(3)]
        assert not {*map(id, launches)} & {*map(id, found)}, "those that somebody has are not used again"
        assert [launch(x, y, out, 999, BLOCK=1024) for launch in launches] == [kernel.result] * 3
        assert np.array_equal(out[:999], (x + y)[:999])
        assert gc.get_referents(launches[0]) == [kind, kernel.native, (1,)]
        del found, launch, launches


@pytest.mark.usefixtures("small_heap")
def test_launches_while_the_collector_runs_all_the_time() -> None:
    kernel, (x, y, out) = adder(), arrays()
    before = gc.get_threshold()

    def grid(meta: dict[str, Any]) -> tuple[int, ...]:
        kernel.native[[1]](x, y, out, 999, BLOCK=1024)
        return tuple(map(int, "1"))

    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(50):
            out[:] = 0
            assert kernel.native[grid](x, y, out, 999, BLOCK=1024) is kernel.result
            assert np.array_equal(out[:999], (x + y)[:999])
    finally:
        gc.set_threshold(*before)
    assert len(kernel.slow_calls) == 2, "the first launch, and the first of its grid"


def test_bound_launches_can_be_kept_and_called_again() -> None:
    kernel, (x, y, out) = adder(), arrays()
    launches = [kernel.native[(1,)] for _ in range(10)]
    for launch in launches:
        out[:] = 0
        assert launch(x, y, out, 999, BLOCK=1024) is kernel.result
        assert np.array_equal(out[:999], (x + y)[:999])

    assert len(kernel.slow_calls) == 1


def test_many_specialisations() -> None:
    kernel, (x, y, out) = adder(), arrays()
    for _ in range(3):
        for block in range(300):
            kernel.native[(1,)](x, y, out, 999, BLOCK=block)

    assert len(kernel.slow_calls) == 300


def test_keywords_of_equal_names_are_installed_once() -> None:
    kernel, (x, y, out) = adder(), arrays()
    for _ in range(3):
        keywords = {"".join(["BLO", "CK"]): 1024}  # not the interned name: native code does not recognise it
        kernel.native[(1,)](x, y, out, 999, **keywords)

    assert len(kernel.slow_calls) == 3
    assert len(kernel.native._records) == 1
    assert len(kernel.native._keeps) == 4


def test_a_list_that_changes_while_it_is_read_goes_to_python() -> None:
    class Extent:
        def __index__(self) -> int:
            grid.clear()
            return 1

    grids: list[Any] = []
    kernel = NativeKernel([Parameter("n")], lambda grid, args, kwargs, miss: grids.append(grid))
    grid = [Extent(), Extent()]
    kernel[grid](3)

    assert grids == [grid]
    assert len(grid) == 2


def test_clear_forgets() -> None:
    kernel, (x, y, out) = adder(), arrays()
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1
    kernel.native.clear()
    assert slow_calls(kernel, (1,), x, y, out, 999, BLOCK=1024) == 1


@pytest.mark.usefixtures("small_heap")
def test_a_grid_function_may_launch_and_clear() -> None:
    kernel, (x, y, out) = adder(), arrays()

    def grid(meta: dict[str, Any]) -> tuple[int]:
        kernel.native[(1,)](x, y, out, 999, BLOCK=1024)
        kernel.native.clear()
        gc.collect()
        return (1,)

    kernel.native[(1,)](x, y, out, 999, BLOCK=1024)
    out[:] = 0
    kernel.native[grid](x, y, out, 999, BLOCK=1024)

    assert np.array_equal(out[:999], (x + y)[:999])


def test_a_miss_of_another_kernel_is_not_installed() -> None:
    first, second, (x, y, out) = adder(), adder(), arrays()
    first.native[(1,)](x, y, out, 999, BLOCK=1024)
    second.native.install(first.slow_calls[0], Specialization(second.entry, None, ()))

    assert slow_calls(second, (1,), x, y, out, 999, BLOCK=1024) == 1


class Owner:
    """Like JITFunction: a Python class that keeps its kernel in a slot."""

    __slots__ = ("__dict__", "native")

    def __init__(self, kernel: Any = None) -> None:
        if kernel is not None:
            self.native = kernel

    def __getitem__(self, grid: Any) -> Any:
        return ("python", grid)


class Derived(Owner):
    pass


@pytest.fixture
def accelerated() -> Iterator[None]:
    original = Owner.__getitem__
    runtime = launcher._ready()
    assert runtime is not None
    before = {field: TABLE.read(runtime.table, field) for field in ("owner_slot", "owner_fallback")}
    launcher._accelerate(runtime, Owner, "native")
    yield
    Owner.__getitem__ = original
    for field, value in before.items():  # those of JITFunction, if it was accelerated
        runtime.set(field, value)


@pytest.mark.usefixtures("accelerated")
def test_the_subscript_of_another_class_becomes_native() -> None:
    kernel, (x, y, out) = adder(), arrays()
    for owner in (Owner(kernel.native), Derived(kernel.native)):
        owner[(1,)](x, y, out, 999, BLOCK=1024)
        assert type(owner[(1,)]).__name__ == "BoundKernel"
    assert len(kernel.slow_calls) == 1
    assert Owner()[5] == ("python", 5)  # no kernel yet
    assert Owner("text")[5] == ("python", 5)


def test_slots_that_cannot_be_filled_natively_are_not_installed() -> None:
    misses: list[Any] = []

    def slow(grid: Any, args: Any, kwargs: Any, miss: Any) -> None:
        misses.append(miss)
        kernel.install(miss, Specialization(entry(ADD), None, (Slot(0, "i32"),)))

    kernel = NativeKernel([Parameter("x")], slow)
    kernel[(0,)](1.5)
    kernel[(0,)](1.5)

    assert len(misses) == 2
