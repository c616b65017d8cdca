"""Arguments that kernels take or refuse: numbers that fit, constants by value, arrays with the memory that they show.

Each check is made three times in a row: the first launch compiles, and later ones may be native.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import knobs

TIMES = 3


@tw.jit
def store_first(out, L: tl.constexpr):
    tl.store(out, L[0])


@tw.jit
def store_nested(out, L: tl.constexpr):
    tl.store(out, L[1][0])


@tw.jit
def store_n(out, C: tl.constexpr):
    tl.store(out, C.n)


@tw.jit
def store_int8(out, n: tl.int8):
    tl.store(out, n)


@tw.jit
def store_uint8(out, n: tl.uint8):
    tl.store(out, n)


@tw.jit
def store_int16(out, n: tl.int16):
    tl.store(out, n)


@tw.jit
def store_uint16(out, n: tl.uint16):
    tl.store(out, n)


@tw.jit
def store_int32(out, n: tl.int32):
    tl.store(out, n)


@tw.jit
def store_uint32(out, n: tl.uint32):
    tl.store(out, n)


@tw.jit
def store_int64(out, n: tl.int64):
    tl.store(out, n)


@tw.jit
def store_uint64(out, n: tl.uint64):
    tl.store(out, n)


@tw.jit
def store(out, n):
    tl.store(out, n)


@tw.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)


def stored(kernel: Any, *arguments: Any, dtype: Any = np.int64) -> Any:
    """The data that a kernel stores, the same each time."""
    found = []
    for _ in range(TIMES):
        out = np.full(1, 77, dtype)
        kernel[(1,)](out, *arguments)
        found.append(out[0])
    assert len(set(found)) == 1
    return found[0]


# Constants


class Config:
    def __init__(self, n: int) -> None:
        self.n = n


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


class Shown(Config):
    def __repr__(self) -> str:
        return "Shown()"


class Alike(Config):
    """Equal to all others of its class."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)

    def __hash__(self) -> int:
        return 1


@dataclasses.dataclass
class Record:
    n: int


@dataclasses.dataclass(unsafe_hash=True)
class HashedRecord:
    n: int


class Constants:
    n = 1


class Derived(Constants):
    pass


def test_a_list_as_constant_counts_by_value() -> None:
    numbers = [1, 2]
    assert stored(store_first, numbers) == 1
    numbers[0] = 5
    assert stored(store_first, numbers) == 5
    numbers[0] = 1
    assert stored(store_first, numbers) == 1
    assert stored(store_first, [5, 2]) == 5


def test_a_list_in_a_tuple_and_one_in_a_constexpr() -> None:
    nested = (1, [2, 3])
    assert stored(store_nested, nested) == 2
    nested[1][0] = 7
    assert stored(store_nested, nested) == 7
    marked = tl.constexpr([1, 2])
    assert stored(store_first, marked) == 1
    marked.value[0] = 9
    assert stored(store_first, marked) == 9
    marked.value = (4,)
    assert stored(store_first, marked) == 4


@pytest.mark.parametrize("kind", [Config, Slotted, Shown, Alike, Record, HashedRecord])
def test_an_object_as_constant_counts_by_its_attributes(kind: Any) -> None:
    config = kind(1)
    assert stored(store_n, config) == 1
    config.n = 5
    assert stored(store_n, config) == 5
    config.n = 1
    assert stored(store_n, config) == 1
    assert stored(store_n, kind(6)) == 6


@pytest.mark.parametrize("kind", [Constants, Derived])
def test_a_class_as_constant_counts_by_its_constants(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stored(store_n, kind) == 1
    monkeypatch.setattr(Constants, "n", 5)
    assert stored(store_n, kind) == 5


def test_an_object_that_holds_itself() -> None:
    config = Config(3)
    config.me, config.more = config, {"again": [config]}
    assert stored(store_n, config) == 3
    config.n = 4
    assert stored(store_n, config) == 4


def test_fixed_objects_are_launched_natively() -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        n: int

    class Pair(NamedTuple):
        n: int
        other: str

    calls = []
    for constant in (Frozen(3), Pair(4, "x")):
        assert stored(store_n, constant) == constant.n
        launch = store_n._launcher._slow_path
        store_n._launcher._slow_path = lambda *call: calls.append(call)
        try:
            store_n[(1,)](np.zeros(1, np.int64), constant)
        finally:
            store_n._launcher._slow_path = launch
    assert calls == []


def test_what_cannot_be_compared_by_value_is_refused() -> None:
    with pytest.raises(TypeError, match="argument 'L': the value of a constexpr must be hashable, and a dict is not"):
        stored(store_first, {0: 1})
    with pytest.raises(TypeError, match="hashable, and what a Config holds is not"):
        stored(store_n, Config(np.zeros(3)))


# Numbers

FITTING = {
    store_int8: (-128, -1, 0, 1, 127, True),
    store_uint8: (0, 255),
    store_int16: (-(2**15), 2**15 - 1),
    store_uint16: (0, 2**16 - 1),
    store_int32: (-(2**31), 2**31 - 1),
    store_uint32: (0, 7, 2**32 - 1),
    store_int64: (-(2**63), 2**63 - 1),
    store_uint64: (0, 2**63, 2**64 - 1),
}
TOO_LARGE = {
    store_int8: (-(2**63), -129, 128, 255, 300, 2**40, 2**63, 2**64),
    store_uint8: (-1, 256, 2**64 - 1),
    store_int16: (-(2**15) - 1, 2**15),
    store_uint16: (-1, 2**16),
    store_int32: (-(2**31) - 1, 2**31, 2**63),
    store_uint32: (-1, 2**32, 2**40 + 7, 2**63, -(2**63)),
    store_int64: (2**63, 2**64 - 1, -(2**63) - 1),
    store_uint64: (-1, -(2**63), 2**64),
}


@pytest.mark.parametrize("kernel", FITTING, ids=lambda kernel: kernel.fn.__name__)
def test_numbers_that_an_annotation_holds(kernel: Any) -> None:
    dtype = np.uint64 if kernel is store_uint64 else np.int64
    for number in FITTING[kernel]:
        assert stored(kernel, number, dtype=dtype) == number


@pytest.mark.quick
@pytest.mark.parametrize("kernel", TOO_LARGE, ids=lambda kernel: kernel.fn.__name__)
def test_numbers_that_an_annotation_does_not_hold_are_refused(kernel: Any) -> None:
    assert stored(kernel, 5) == 5  # from now on numbers are launched natively
    for number in TOO_LARGE[kernel]:
        out = np.full(1, 77, np.int64)
        with pytest.raises(tw.ArgumentError, match=r"argument 'n': .* fit") as caught:
            kernel[(1,)](out, number)
        assert isinstance(caught.value, OverflowError)
        assert out[0] == 77


def test_refusals_say_what_the_parameter_holds() -> None:
    message = r"argument 'n': 300 does not fit: the parameter is a tl.int8, which holds -128 to 127"
    with pytest.raises(tw.ArgumentError, match=message):
        stored(store_int8, 300)
    with pytest.raises(tw.ArgumentError, match=r"'n': the parameter is a tl.int8, and a float is no whole number"):
        stored(store_int8, 0.5)
    with pytest.raises(tw.ArgumentError, match=r"'n': the parameter is annotated i8, a number, and .* an array"):
        stored(store_int8, np.zeros(1, np.int8))


def test_a_compiled_kernel_refuses_them_too() -> None:
    compiled = store_int8[(1,)](np.zeros(1, np.int64), 5)
    out = np.zeros(1, np.int64)
    compiled[(1,)](out, -3)
    assert out[0] == -3
    with pytest.raises(tw.ArgumentError, match="argument 'n': 300 does not fit"):
        compiled[(1,)](out, 300)
    plain = store[(1,)](out, 5)
    with pytest.raises(tw.ArgumentError, match=r"'n': 1099511627776 does not fit: the parameter is a tl.int32"):
        plain[(1,)](out, 2**40)


def test_an_interpreted_kernel_refuses_them_too() -> None:
    with pytest.raises(tw.ArgumentError, match="300 does not fit"):
        tw.jit(store_int8.fn, interpret=True)[(1,)](np.zeros(1, np.int64), 300)


C_NUMBERS = [
    *((kind(-5), -5) for kind in (ctypes.c_byte, ctypes.c_short, ctypes.c_int, ctypes.c_long, ctypes.c_longlong)),
    *((kind(5), 5) for kind in (ctypes.c_ubyte, ctypes.c_ushort, ctypes.c_uint, ctypes.c_ulong, ctypes.c_size_t)),
    *((kind(0.5), 0.5) for kind in (ctypes.c_float, ctypes.c_double)),
    (ctypes.c_bool(True), 1),
    (ctypes.c_int64(2**40), 2**40),
]


@pytest.mark.quick
@pytest.mark.parametrize(("given", "number"), C_NUMBERS, ids=lambda value: repr(value))
def test_numbers_of_ctypes(given: Any, number: Any) -> None:
    assert stored(store, given, dtype=np.float64) == number
    assert stored(store_first, (1,)) == 1


def test_numbers_of_ctypes_as_constants_and_in_annotated_parameters() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    for _ in range(TIMES):
        add_one[(1,)](x, out, ctypes.c_int(16), BLOCK=ctypes.c_int(16))
    assert np.array_equal(out, x + 1)
    with pytest.raises(tw.ArgumentError, match="300 does not fit"):
        stored(store_int8, ctypes.c_int(300))
    with pytest.raises(tw.ArgumentError, match="a c_char cannot be passed to a kernel"):
        stored(store, ctypes.c_char(b"x"))


# Arrays


class Interface:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


class Packed:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.fixture
def slow_launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The launches that go through `JITFunction._launch`."""
    seen: list[Any] = []
    launch = tw.JITFunction._launch

    def noted(self: Any, *call: Any) -> Any:
        seen.append(call)
        return launch(self, *call)

    monkeypatch.setattr(tw.JITFunction, "_launch", noted)
    return seen


@pytest.mark.parametrize("kind", [Interface, Packed])
def test_foreign_arrays_become_native(kind: Any, slow_launches: list[Any]) -> None:
    kernel = tw.jit(add_one.fn)
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    for turn in range(6):
        x += 1
        kernel[(1,)](kind(x), kind(out), np.int64(16), BLOCK=16)
        assert np.array_equal(out, x + 1), turn
    assert len(slow_launches) <= 2
    x.flags.writeable = False
    kernel[(1,)](Interface(x), kind(out), 16, BLOCK=16)
    with pytest.raises(tw.ReadOnlyError):
        kernel[(1,)](out, Interface(x), 16, BLOCK=16)


def python_calls(launch: Callable[[], Any]) -> list[str]:
    """The names of the Python functions that the third of equal launches calls."""
    launch()
    launch()
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    launch()
    sys.setprofile(None)
    return called[1:]


class Stated:
    def __init__(self, array: np.ndarray) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__


def test_foreign_arguments_are_converted_without_python() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    for n in (np.int64(16), np.uint8(16), ctypes.c_int(16)):
        assert python_calls(lambda n=n: add_one[(1,)](x, out, n, BLOCK=16)) == []
    assert python_calls(lambda: add_one[(1,)](Stated(x), out, 16, BLOCK=16)) == ["__init__"]
    assert "_launch" not in python_calls(lambda: add_one[(1,)](Packed(x), Stated(out), 16, BLOCK=16))
    assert np.array_equal(out, x + 1)


class Lease:
    """Memory that is overwritten when nobody has this any more."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.__array_interface__ = array, array.__array_interface__

    def __del__(self) -> None:
        self.array.fill(-7)


def test_converted_arrays_live_until_the_launch_is_over() -> None:
    class Lent(Packed):
        def __dlpack__(self, **options: Any) -> Any:
            return np.asarray(Lease(self.array)).__dlpack__(**options)

    out = np.zeros(16, np.float32)
    for turn in range(TIMES):
        x = np.arange(turn, turn + 16, dtype=np.float32)
        add_one[(1,)](Lent(x), out, 16, BLOCK=16)
        assert np.array_equal(out, np.arange(turn, turn + 16) + 1)
        assert (x == -7).all()


def test_conversions_may_run_any_code() -> None:
    out, kernel, seen = np.zeros(16, np.float32), tw.jit(add_one.fn), list[Any]()

    class Curious(Packed):
        act: Callable[[], Any] = staticmethod(lambda: None)

        def __dlpack__(self, **options: Any) -> Any:
            Curious.act()
            return super().__dlpack__(**options)

    def interrupt() -> None:
        raise KeyboardInterrupt

    x = Curious(np.arange(16, dtype=np.float32))
    for _ in range(TIMES):
        kernel[(1,)](x, out, 16, BLOCK=16)
    Curious.act = staticmethod(interrupt)
    with pytest.raises(KeyboardInterrupt):
        kernel[(1,)](x, out, 16, BLOCK=16)
    Curious.act = staticmethod(lambda: kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(args[0])))
    kernel[(1,)](x, out, 16, BLOCK=16)
    assert x in seen


def test_a_grid_function_and_hooks_see_foreign_arrays_as_they_are() -> None:
    x, out, seen = Interface(np.arange(16, dtype=np.float32)), np.zeros(16, np.float32), []

    def grid(meta: dict[str, Any]) -> tuple[int]:
        seen.append((meta["x"], meta["n"], meta["BLOCK"]))
        return (1,)

    for _ in range(5):
        add_one[grid](x, out, 16, BLOCK=16)
    assert seen == [(x, 16, 16)] * 5
    hooked: list[Any] = []
    kernel = tw.jit(add_one.fn)
    for _ in range(3):
        kernel[(1,)](x, out, 16, BLOCK=16)
    kernel.add_pre_run_hook(lambda *args, **kwargs: hooked.append(args[0]))
    kernel[(1,)](x, out, 16, BLOCK=16)
    assert hooked == [x]


def test_foreign_arrays_that_cannot_be_read() -> None:
    class Null:
        @property
        def __array_interface__(self) -> dict[str, Any]:
            return {"data": (0, False), "shape": (4,), "typestr": "<f4", "version": 3}

    class Broken(Packed):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("on the moon")

    for value, message in ((Null(), "NumPy cannot view the Null"), (Broken(np.zeros(4)), "on the moon")):
        for _ in range(TIMES):
            with pytest.raises(tw.ArgumentError, match=message):
                add_one[(1,)](value, np.zeros(16, np.float32), 4, BLOCK=16)


def launches_of(x: Any) -> Callable[[], Any]:
    """Launch with `x` after native launches with the same types."""
    good, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    for _ in range(TIMES):
        add_one[(1,)](good, out, 16, BLOCK=16)
    return lambda: add_one[(1,)](x, out, 16, BLOCK=16)


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.array(np.arange(16, dtype=np.float32), mask=[True] + [False] * 15)
    for given in (masked, tw.reinterpret(masked, tl.int32)):
        with pytest.raises(tw.ArgumentError, match=r"argument 'x': .* MaskedArray .*: pass array.filled\(value\)"):
            launches_of(given)()
    launches_of(masked.filled(0))()


@pytest.mark.parametrize("step", [-1, 2, -3, 0])
def test_pointers_go_on_by_element_whatever_the_strides(step: int) -> None:
    memory = np.arange(100, dtype=np.float32)
    view = memory[50::step] if step else np.broadcast_to(memory[50:51], (8,))
    out = np.zeros(8, np.float32)
    for _ in range(TIMES):
        add_one[(1,)](view, out, 8, BLOCK=8)
    assert np.array_equal(out, memory[50:58] + 1)


def test_a_mock_tensor_is_for_warmup_only() -> None:
    add_one.warmup(tw.MockTensor(np.float32), tw.MockTensor(np.float32), 16, BLOCK=16, grid=(1,))
    with pytest.raises(tw.ArgumentError, match="argument 'x': the MockTensor has elements but no memory"):
        add_one[(1,)](tw.MockTensor(np.float32), np.zeros(16, np.float32), 16, BLOCK=16)
    with pytest.raises(tw.ArgumentError, match="no memory"):
        tw.jit(add_one.fn, interpret=True)[(1,)](tw.MockTensor(np.float32), np.zeros(16, np.float32), 16, BLOCK=16)


# Grids


@pytest.mark.parametrize("is_native", [False, True])
def test_a_grid_function_resizes_an_argument(is_native: bool) -> None:
    kernel, out = tw.jit(add_one.fn), np.zeros(16, np.float32)
    if is_native:
        for _ in range(TIMES):
            kernel[(1,)](np.zeros(16, np.float32), out, 16, BLOCK=16)
    seen: list[int] = []

    def grid(meta: dict[str, Any]) -> tuple[int]:
        before = meta["x"].ctypes.data
        meta["x"].resize(200_000, refcheck=False)
        seen.append(meta["x"].ctypes.data - before)
        meta["x"][:] = 7
        return (1,)

    for _ in range(TIMES):
        kernel[grid](np.arange(16, dtype=np.float32), out, 16, BLOCK=16)
        assert (out == 8).all()
        out[:] = 0
    assert any(seen), "the memory moved"


def test_a_grid_function_and_a_hook_change_what_a_kernel_is_compiled_for() -> None:
    """A list that grows, a tensor descriptor that moves: the launch is the one of what is there at the end."""
    memory = np.zeros(64, np.float32)
    begin = (-memory.ctypes.data // 4) % 16
    aligned, unaligned = memory[begin : begin + 16], memory[begin + 1 : begin + 17]
    aligned[:] = np.arange(16)

    class Moving:
        array = aligned

        @property
        def __array_interface__(self) -> dict[str, Any]:
            return self.array.__array_interface__

    moving, out = Moving(), np.zeros(16, np.float32)

    def move(_: Any) -> tuple[int]:
        moving.array = unaligned
        return (1,)

    for _ in range(TIMES):
        moving.array = aligned
        add_one[move](moving, out, 16, BLOCK=16)
        assert np.array_equal(out, unaligned + 1)
    knobs.runtime.launch_enter_hook.add(move)
    try:
        moving.array = aligned
        add_one[(1,)](moving, out, 16, BLOCK=16)
        assert np.array_equal(out, unaligned + 1)
    finally:
        knobs.runtime.launch_enter_hook.remove(move)


def test_an_extent_that_is_converted_by_the_program_resizes_an_argument() -> None:
    x, out = np.zeros(16, np.float32), np.zeros(16, np.float32)

    class Extent:
        def __index__(self) -> int:
            x.resize(200_000, refcheck=False)
            x[:] = 7
            return 1

    for _ in range(TIMES):
        add_one[(1,)](np.zeros(16, np.float32), out, 16, BLOCK=16)
    add_one[(Extent(),)](x, out, 16, BLOCK=16)
    assert (out == 8).all()


def test_a_grid_function_is_called_once_and_may_fail() -> None:
    x, out, calls = np.zeros(16, np.float32), np.zeros(16, np.float32), []

    def grid(meta: dict[str, Any]) -> tuple[int]:
        calls.append(meta["n"])
        if meta["n"] == 3:
            raise LookupError("no grid")
        return (1,)

    for n in (16, 16, 5, 16):
        add_one[grid](x, out, n, BLOCK=16)
    for _ in range(TIMES):
        with pytest.raises(LookupError, match="no grid"):
            add_one[grid](x, out, 3, BLOCK=16)
    assert calls == [16, 16, 5, 16, 3, 3, 3]
