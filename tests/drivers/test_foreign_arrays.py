"""Arrays of other libraries in native launches: what is read, what is left to NumPy, and capsules given back once.

The capsules are made here, field by field, as dlpack.h lays them out.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from threading import Thread
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.runtime.drivers.cpu import foreign_arrays
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.runtime.drivers.cpu.launcher import is_native
from tilewright.support.executable_memory import map_code

TIMES = 4
"""Launches: the first ones are by Python, the later ones native."""

ONE_HOLDER = {sys.getrefcount(object()) + 2}
"""The counts of references to what a list and a comprehension over it hold."""

native_only = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("axes", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class Unversioned(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))
    name = b"dltensor"


class Versioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )
    name = b"dltensor_versioned"


_name = ctypes.c_char_p
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, _name, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, _name)(("PyCapsule_IsValid", ctypes.pythonapi))
_DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_COUNT = """
define void @count(ptr %managed) {{
  %place = getelementptr i8, ptr %managed, i64 {offset}
  %counter = load ptr, ptr %place
  %count = load i64, ptr %counter
  %more = add i64 %count, 1
  store i64 %more, ptr %counter
  ret void
}}
"""


@cache
def counting(kind: Any) -> int:
    """The address of a deleter that counts in what the context points to."""
    blob = link(compile_object(_COUNT.format(offset=kind.context.offset), host_target()))
    return map_code(blob.image).address + blob.symbols["count"]


class Producer:
    """An array behind capsules that count how often they are made and given back.

    Attributes:
        capsules: those that were made.
        fields: what a tensor says instead of the truth; `flags` and `version` of versioned capsules among them.
        act: runs before a capsule is made.
    """

    def __init__(self, array: np.ndarray, kind: Any = Versioned, **fields: Any) -> None:
        self.array, self.kind, self.fields = array, kind, fields
        self.capsules: list[Any] = []
        self.counter = ctypes.c_int64(0)
        self.act: Callable[[], Any] = lambda: None
        self.kept: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        self.act()
        kind = {"f": 2, "i": 0, "u": 1, "b": 6}[self.array.dtype.kind]
        shape = (ctypes.c_int64 * max(1, self.array.ndim))(*self.array.shape)
        tensor = Tensor(self.array.ctypes.data, 1, 0, self.array.ndim, kind, 8 * self.array.itemsize, 1, shape)
        managed = self.kind(tensor=tensor, context=ctypes.addressof(self.counter), deleter=counting(self.kind))
        if self.kind is Versioned:
            managed.version[0] = 1
        for name, value in self.fields.items():
            setattr(managed.tensor if hasattr(Tensor, name) else managed, name, value)
        self.kept += [managed, shape]
        self.capsules.append(_new(ctypes.addressof(managed), self.kind.name, None))
        return self.capsules[-1]

    @property
    def taken(self) -> int:
        """How many capsules have the name of those that were taken."""
        return sum(_is_valid(capsule, b"used_" + self.kind.name) for capsule in self.capsules)

    @property
    def deleted(self) -> int:
        """How often a deleter was called."""
        return self.counter.value


class Stated:
    """An array of which an interface tells."""

    def __init__(self, array: np.ndarray, **entries: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **entries}


def kernel() -> Any:
    """A kernel that nobody has launched."""

    @tw.jit
    def add_one(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, (tl.load(x + i, mask=i < n) + 1).to(out.dtype.element_ty), mask=i < n)

    return add_one


@pytest.fixture
def numpy_made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrays that NumPy was asked to make."""
    made: list[Any] = []
    for name in ("asarray", "from_dlpack"):
        make = getattr(np, name)
        monkeypatch.setattr(np, name, lambda value, make=make: made.append(value) or make(value))
    return made


def launches(value: Any, out: np.ndarray, numpy_made: list[Any]) -> bool:
    """Launch some times; whether the last of these was without NumPy."""
    add_one = kernel()
    for _ in range(TIMES):
        out[:] = 0
        numpy_made.clear()
        add_one[(1,)](value, out, out.size, BLOCK=16)
    return not numpy_made


@native_only
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("wrap", [Producer, lambda x: Producer(x, Unversioned), Stated], ids=["1.0", "0", "interface"])
def test_every_dtype_is_read(wrap: Any, dtype: str, numpy_made: list[Any]) -> None:
    x = np.arange(16).astype(dtype)
    out = np.zeros(16, "f8")
    assert launches(wrap(x), out, numpy_made)
    assert np.array_equal(out, x + 1.0)


@native_only
def test_offsets_and_strides(numpy_made: list[Any]) -> None:
    memory = np.arange(64, dtype=np.float32)
    out = np.zeros(8, np.float32)
    point = memory[10:11].reshape(())
    for value in (Producer(memory, offset=40), Stated(memory[10:40:2]), Stated(memory[10::-1]), Stated(point)):
        assert launches(value, out, numpy_made)
        assert np.array_equal(out, memory[10:18] + 1), value


@native_only
def test_what_is_unusual_is_left_to_numpy(numpy_made: list[Any]) -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    address = x.ctypes.data
    unaligned = np.zeros(68, np.uint8)[1:65].view(np.float32)
    unaligned[:] = x
    for value in (
        Stated(x, typestr="f4"),
        Stated(x, data=(address, 0)),
        Stated(x, shape=(np.int64(16),)),
        Stated(x, strides=(np.int64(4),)),
        Stated(unaligned),
        Producer(unaligned),
        Producer(x, device=3),
    ):
        assert not launches(value, out, numpy_made), vars(value)
        assert np.array_equal(out, x + 1), vars(value)


@native_only
def test_unaligned_elements_have_a_key_of_their_own(numpy_made: list[Any]) -> None:
    """As NumPy's arrays have."""
    x, out = np.arange(17, dtype=np.float32), np.zeros(16, np.float32)
    add_one = kernel()
    for _ in range(TIMES):
        add_one[(1,)](Producer(x[1:]), out, 16, BLOCK=16)
    unaligned = np.zeros(68, np.uint8)[1:65].view(np.float32)
    unaligned[:] = x[1:]
    numpy_made.clear()
    add_one[(1,)](Producer(unaligned), out, 16, BLOCK=16)
    assert numpy_made
    assert np.array_equal(out, x[1:] + 1)


@pytest.mark.quick
@native_only
@pytest.mark.parametrize(
    "value",
    [
        Stated(np.zeros(16, "f4"), shape=(-16,)),
        Stated(np.zeros(16, "f4"), shape=16),
        Stated(np.zeros(16, "f4"), strides=(4, 4)),
        Stated(np.zeros(16, "f4"), strides=4),
        Stated(np.zeros(16, "f4"), data=(0, False)),
        Stated(np.zeros(16, "f4"), data=(2**70, False)),
        Stated(np.zeros(16, "f4"), typestr="<c8"),
        Stated(np.zeros(16, "f4"), typestr=["<f4"]),
        Producer(np.zeros(16, "f4"), lanes=4),
        Producer(np.zeros(16, "f4"), code=4, bits=16),
        Producer(np.zeros(16, "f4"), bits=24),
        Producer(np.zeros(16, "f4"), device=2),
        Producer(np.zeros(16, "f4"), axes=65),
        Producer(np.zeros(16, "f4"), version=(ctypes.c_uint32 * 2)(2, 0)),
        Producer(np.zeros(16, "f4"), Unversioned, device=2),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_what_numpy_refuses_is_refused_by_native_launches_too(value: Any) -> None:
    add_one, out = kernel(), np.zeros(16, np.float32)
    for _ in range(TIMES):
        add_one[(1,)](Producer(out), out, 16, BLOCK=16)
    for _ in range(TIMES):
        with pytest.raises((tw.ArgumentError, OverflowError, TypeError)):
            add_one[(1,)](value, out, 16, BLOCK=16)
    if isinstance(value, Producer):
        assert value.capsules
        assert value.taken == value.deleted
        assert {sys.getrefcount(capsule) for capsule in value.capsules} == ONE_HOLDER


@pytest.mark.parametrize("kind", [Versioned, Unversioned])
def test_each_capsule_is_given_back_once(kind: Any) -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    add_one, producer = kernel(), Producer(x, kind)
    for turn in range(20):
        add_one[(1,)](producer, out, 16, BLOCK=16)
        assert len(producer.capsules) == producer.taken == producer.deleted > turn
        assert np.array_equal(out, x + 1)


@pytest.mark.usefixtures("small_heap")
@native_only
def test_a_launch_takes_one_capsule_and_keeps_nothing() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    add_one, producer, stated = kernel(), Producer(x), Stated(x)
    for value in (producer, stated):
        for _ in range(TIMES):
            add_one[(1,)](value, out, 16, BLOCK=16)
    producer.capsules.clear()
    interface = stated.__array_interface__
    parts = [producer, stated, interface, interface["data"], interface["shape"]]
    before = [sys.getrefcount(part) for part in parts]
    for _ in range(100):
        add_one[(1,)](producer, out, 16, BLOCK=16)
        add_one[(1,)](stated, out, 16, BLOCK=16)
    assert len(producer.capsules) == 100
    assert {sys.getrefcount(capsule) for capsule in producer.capsules} == ONE_HOLDER
    assert [sys.getrefcount(part) for part in parts] == before
    seen = weakref.ref(producer)
    del producer, parts, value
    gc.collect()
    assert seen() is None


def test_no_deleter_is_none() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    add_one, producer = kernel(), Producer(x, deleter=0)
    for _ in range(TIMES):
        add_one[(1,)](producer, out, 16, BLOCK=16)
    assert np.array_equal(out, x + 1)


@pytest.mark.parametrize("error", [BufferError, TypeError, RuntimeError, KeyboardInterrupt])
def test_exceptions_while_capsules_are_made(error: type[BaseException]) -> None:
    """The capsule of the argument before is given back."""
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    add_one, first, second = kernel(), Producer(x), Producer(out)
    for _ in range(TIMES):
        add_one[(1,)](first, second, 16, BLOCK=16)

    def act() -> None:
        raise error("on the moon")

    second.act = act
    expected = tw.ArgumentError if error in (BufferError, RuntimeError) else error
    for _ in range(TIMES):
        with pytest.raises(expected, match="on the moon"):
            add_one[(1,)](first, second, 16, BLOCK=16)
    assert len(first.capsules) == first.taken == first.deleted
    assert second.taken == second.deleted


@pytest.mark.quick
@pytest.mark.parametrize("wrap", [lambda x: Producer(x, flags=1), lambda x: Producer(x, Unversioned), Stated])
def test_memory_that_must_not_be_written(wrap: Any) -> None:
    """Whether that in a capsule which does not tell may be, NumPy says, and versions differ."""
    x, out, other = np.arange(16, dtype=np.float32), np.zeros(16, np.float32), np.zeros(16, np.float32)
    out.flags.writeable = wrap is not Stated
    target, add_one = wrap(out), kernel()
    is_written = isinstance(target, Producer) and np.from_dlpack(target).flags.writeable
    for _ in range(TIMES):
        add_one[(1,)](Producer(x), Producer(other), 16, BLOCK=16)
        add_one[(1,)](target, Producer(other), 16, BLOCK=16)
    for _ in range(TIMES):
        with nullcontext() if is_written else pytest.raises(tw.ReadOnlyError):
            add_one[(1,)](Producer(x), target, 16, BLOCK=16)
    assert np.array_equal(out, (x + 1) * is_written)


@pytest.mark.parametrize("wrap", [Producer, Stated])
def test_arrays_without_elements(wrap: Any) -> None:
    add_one, out = kernel(), np.ones(16, np.float32)
    empty = np.zeros((4, 0), np.float32)
    for value in (wrap(empty), Stated(empty, data=(0, False)), Producer(empty, data=0)):
        for _ in range(TIMES):
            add_one[(1,)](value, out, 0, BLOCK=16)
    assert (out == 1).all()


@native_only
def test_producers_that_know_no_options(numpy_made: list[Any]) -> None:
    class Old(Producer):
        def __dlpack__(self) -> Any:
            return super().__dlpack__()

    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    assert launches(Old(x, Unversioned), out, numpy_made)
    assert np.array_equal(out, x + 1)


@native_only
def test_options_are_those_of_numpy() -> None:
    """A producer sees one request, whoever makes it."""
    seen = []

    class Curious(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            seen.append(options)
            return super().__dlpack__(**options)

    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    add_one = kernel()
    for _ in range(TIMES):
        add_one[(1,)](Curious(x), out, 16, BLOCK=16)
    np.from_dlpack(Curious(x))
    assert len({str(sorted(options.items())) for options in seen}) == 1


@native_only
def test_a_buffer_goes_before_an_interface(numpy_made: list[Any]) -> None:
    """NumPy reads such an array's buffer, and so do launches."""

    class Both(bytearray):
        pass

    x, out = np.arange(16, dtype=np.uint8), np.zeros(16, np.uint8)
    both = Both(x.tobytes())
    both.__array_interface__ = np.zeros(16, np.uint8).__array_interface__
    assert not foreign_arrays.tells_by_interface(both)
    assert not launches(both, out, numpy_made)
    assert np.array_equal(out, x + 1)


@native_only
def test_a_struct_goes_before_an_interface() -> None:
    x = np.arange(16, dtype=np.float32)
    stated = Stated(x)
    assert foreign_arrays.tells_by_interface(stated)
    stated.__array_struct__ = x.__array_struct__
    assert not foreign_arrays.tells_by_interface(stated)


@native_only
def test_arrays_on_gpus_are_asked_for_no_capsule() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    add_one, producer = kernel(), Producer(x)
    for _ in range(TIMES):
        add_one[(1,)](producer, out, 16, BLOCK=16)
    made = len(producer.capsules)
    producer.__cuda_array_interface__ = {"data": (x.ctypes.data, False), "typestr": "<f4", "shape": (16,)}
    with pytest.raises(Exception, match=r"driver|argument 'x'"):
        add_one[(1,)](producer, out, 16, BLOCK=16)
    assert len(producer.capsules) == made


def test_threads_launch_with_capsules_of_one_producer() -> None:
    x = np.arange(16, dtype=np.float32)
    add_one, wrong = kernel(), []
    producers = [Producer(x) for _ in range(4)]
    stated = Stated(x)

    def work(producer: Producer) -> None:
        out = np.zeros(16, np.float32)
        for _ in range(300):
            for value in (producer, stated):
                out[:] = 0
                add_one[(1,)](value, out, 16, BLOCK=16)
                if not np.array_equal(out, x + 1):
                    wrong.append(out.copy())

    threads = [Thread(target=work, args=(producer,)) for producer in producers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(len(producer.capsules) == producer.taken == producer.deleted >= 300 for producer in producers)


@native_only
def test_a_deleter_in_python_sees_no_exception_of_the_launch() -> None:
    x, out, errors = np.arange(16, dtype=np.float32), np.zeros(16, np.float32), []
    fetch = ctypes.pythonapi.PyErr_Occurred
    fetch.restype = ctypes.c_void_p

    def delete(managed: int) -> None:
        errors.append(fetch())

    deleter = _DELETER(delete)
    add_one, second = kernel(), Producer(out)
    first = Producer(x, deleter=ctypes.cast(deleter, ctypes.c_void_p).value)
    for _ in range(TIMES):
        add_one[(1,)](first, second, 16, BLOCK=16)

    def interrupt() -> None:
        raise KeyboardInterrupt("now")

    second.act = interrupt
    for _ in range(TIMES):
        with pytest.raises(KeyboardInterrupt, match="now"):
            add_one[(1,)](first, second, 16, BLOCK=16)
    assert errors == [None] * len(first.capsules)
