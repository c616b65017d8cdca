"""Outer values that kernels read: whoever changes one afterwards gets an error, also from launches without Python."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from native_launches import launches

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.dependencies import dependencies

NUMBER = tl.constexpr(1)
KIND = tl.int32
SHARED = tl.constexpr(0)
CHANGED = "has changed since we compiled this kernel"


@pytest.fixture(autouse=True)
def values() -> Iterator[None]:
    kept = {name: globals()[name] for name in ("NUMBER", "KIND", "SHARED")}
    yield
    globals().update(kept)


def test_a_global_that_gets_another_value() -> None:
    global NUMBER

    @tw.jit
    def kernel(out):
        tl.store(out, NUMBER)

    launch = launches(kernel)
    NUMBER = tl.constexpr(2)
    for attempt in (launch, lambda: kernel[(1,)](np.zeros(1, np.int32))):
        with pytest.raises(RuntimeError, match=rf"NUMBER {CHANGED}.*from constexpr\[1\] to constexpr\[2\]"):
            attempt()
    NUMBER = tl.constexpr(1)
    assert [launch() for _ in range(3)] == [1, 1, 1]
    del globals()["NUMBER"]
    with pytest.raises(RuntimeError, match="to nothing"):
        launch()


def test_a_global_of_a_callee() -> None:
    global SHARED

    @tw.jit
    def callee():
        return SHARED

    @tw.jit
    def kernel(out):
        tl.store(out, callee())

    launch = launches(kernel)
    assert {name for name, _ in kernel.used_global_vals} == {"SHARED"}
    SHARED = tl.constexpr(5)
    with pytest.raises(RuntimeError, match=f"SHARED {CHANGED}"):
        launch()


def test_a_type_as_global() -> None:
    global KIND

    @tw.jit
    def kernel(out):
        tl.store(out, tl.full((), 3, KIND))

    launch = launches(kernel)
    KIND = tl.int64
    with pytest.raises(RuntimeError, match=f"KIND {CHANGED}"):
        launch()


def test_a_constexpr_that_is_changed_in_place() -> None:
    value = tl.constexpr(42)

    @tw.jit
    def closure(out):
        tl.store(out, value)

    launch = launches(closure)
    value.value = 43
    with pytest.raises(RuntimeError, match=rf"value {CHANGED}.*from constexpr\[42\] to constexpr\[43\]"):
        launch()
    value.value = 42
    assert launch() == 42


def test_a_captured_variable_that_gets_another_value() -> None:
    value = tl.constexpr(1)

    @tw.jit
    def closure(out):
        tl.store(out, value)

    launch = launches(closure)
    value = tl.constexpr(2)
    with pytest.raises(RuntimeError, match=f"value {CHANGED}"):
        launch()


def test_the_value_of_a_default_is_that_of_the_definition() -> None:
    global NUMBER

    @tw.jit
    def kernel(out, n: tl.constexpr = NUMBER):
        tl.store(out, n)

    launch = launches(kernel)
    NUMBER = tl.constexpr(2)
    assert launch() == 1
    assert len(kernel.device_caches[0][0]) == 1


def test_a_local_shadows_a_global() -> None:
    global NUMBER

    @tw.jit
    def kernel(out):
        _, NUMBER = 0, 7
        tl.store(out, NUMBER)

    launch = launches(kernel)
    NUMBER = 9
    assert launch() == 7
    assert not kernel.used_global_vals


def test_callees_that_saw_other_values_conflict() -> None:
    global SHARED

    @tw.jit
    def callee():
        return SHARED

    @tw.jit
    def early(out):
        tl.store(out, SHARED + callee())

    @tw.jit
    def late(out):
        tl.store(out, SHARED + callee())

    launches(early)
    SHARED = tl.constexpr(1)
    with pytest.raises(RuntimeError, match=r"Global variable SHARED has value constexpr\[1\].*callee.*constexpr\[0\]"):
        launches(late)


def test_modules_functions_and_builtins_are_not_watched() -> None:
    @tw.jit
    def callee(x):
        return x

    @tw.jit
    def kernel(out):
        tl.store(out + tl.arange(0, 1), callee(max(3, 1)) + len((1, 2)))

    assert launches(kernel)() == 5
    assert not kernel.used_global_vals


def closure_over(value: Any) -> Any:
    @tw.jit
    def child():
        return value

    return child


def test_attributes_of_modules_that_are_missing_or_made_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("of_a_program")
    vars(module)["__getattr__"] = {"made": tl.constexpr(5)}.__getitem__
    monkeypatch.setitem(globals(), "of_a_program", module)

    @tw.jit
    def kernel(out, KNOWN: tl.constexpr):
        if KNOWN:
            tl.store(out, of_a_program.made)  # noqa: F821 - set by the test
        else:
            tl.store(out, itertools.missing)

    out = np.zeros(1, np.int32)
    kernel[(1,)](out, KNOWN=True)
    kernel[(1,)](out, KNOWN=2)

    assert out[0] == 5
    with pytest.raises(tw.CompilationError, match="missing"):
        kernel[(1,)](out, KNOWN=False)


def test_keys_do_not_depend_on_what_was_hashed_first() -> None:
    left, right = closure_over(tl.constexpr(1)), closure_over(tl.constexpr(2))

    @tw.jit
    def parent(out):
        tl.store(out, left() + right())

    found = set()
    for order in itertools.permutations((left, right, parent)):
        for function in order:
            function.hash = None
        for function in order:
            _ = function.cache_key
        found.add(parent.cache_key)
    assert len(found) == 1
    assert left.cache_key != right.cache_key


def test_functions_that_call_each_other_have_keys() -> None:
    @tw.jit
    def even(n):
        return odd(n)

    @tw.jit
    def odd(n):
        return even(n)

    assert even.cache_key != odd.cache_key
    assert len(even.cache_key) == 64

    def ping(n):
        return pong(n)

    def pong(n):
        return ping(n)

    assert len(dependencies(ping).digest) == 64


class Pair(NamedTuple):
    left: Any


def class_with(number: int) -> type:
    class Scale:
        factor = number

        def apply(self, x: Any) -> Any:
            return x * number

    return Scale


def test_methods_and_constants_of_classes_count() -> None:
    def digest(kind: type) -> str:
        return dependencies(lambda: kind).digest

    assert digest(class_with(1)) == digest(class_with(1))
    assert digest(class_with(1)) != digest(class_with(2))
    assert len({digest(kind) for kind in (Pair, int, tw.Config)}) == 3


class Opaque:
    """An object that shows nothing of itself."""

    def __init__(self, value: int) -> None:
        self.value = value


def test_objects_are_told_apart_by_what_they_hold() -> None:
    @tw.jit
    def kernel(out, thing: tl.constexpr):
        tl.store(out, thing.value)

    out = np.zeros(1, np.int32)
    for value in (3, 4, 3):
        kernel[(1,)](out, Opaque(value))
        assert out[0] == value


def test_many_outer_values() -> None:
    names: dict[str, Any] = {f"C{i}": tl.constexpr(i) for i in range(20)} | {"tl": tl}
    text = "def total(out):\n    tl.store(out, " + " + ".join(f"C{i}" for i in range(20)) + ")\n"
    source_of_exec(text, names)
    kernel = tw.jit(names["total"])
    launch = launches(kernel)
    assert launch() == 190
    for i in (0, 7, 19):
        names[f"C{i}"] = tl.constexpr(-1)
        with pytest.raises(RuntimeError, match=f"C{i} {CHANGED}"):
            launch()
        names[f"C{i}"] = tl.constexpr(i)
    assert launch() == 190


def source_of_exec(text: str, names: dict[str, Any]) -> None:
    linecache.cache["<outer values>"] = (len(text), None, text.splitlines(keepends=True), "<outer values>")
    exec(compile(text, "<outer values>", "exec"), names)


WIDTH = 4
SEEN: dict[int, int] = {}


@tw.constexpr_function
def width(n):
    return counted(n) * inner_width()


def counted(n):
    SEEN[n] = SEEN.get(n, 0) + 1
    return n


def inner_width():
    return WIDTH


def test_a_number_that_plain_functions_read() -> None:
    global WIDTH

    @tw.jit
    def kernel(out):
        a: tl.constexpr = width(2)
        tl.store(out, a)

    launch = launches(kernel)
    assert launch() == 8
    SEEN[5] = 1  # the function's own memory
    assert launch() == 8
    WIDTH = 5
    try:
        with pytest.raises(RuntimeError, match=f"WIDTH {CHANGED}, from 4 to 5"):
            launch()
    finally:
        WIDTH = 4
    assert launch() == 8


HIDDEN = tl.constexpr(7)
PLAIN = 7


def reads_then_stores(out, flag):
    first = HIDDEN  # noqa: F823 - the global is meant
    HIDDEN = first + 1  # noqa: F841 - it makes the name a variable
    tl.store(out, first)


def stores_then_reads(out, flag):
    _, HIDDEN = 0, 5
    tl.store(out, HIDDEN)


def reads_in_a_loop(out, flag):
    for _ in tl.static_range(2):
        tl.store(out, HIDDEN)  # noqa: F823 - the global is meant
        HIDDEN = 9  # noqa: F841 - it makes the name a variable


def has_it_as_parameter(HIDDEN, flag):
    tl.store(HIDDEN, 7)
    HIDDEN += 0


@pytest.fixture
def hidden() -> Iterator[None]:
    yield
    globals()["HIDDEN"] = tl.constexpr(7)


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
@pytest.mark.parametrize(
    ("function", "expected", "sees_changes"),
    [
        (reads_then_stores, 7, True),
        (reads_in_a_loop, 9, True),
        (stores_then_reads, 5, False),
        (has_it_as_parameter, 7, False),
    ],
)
def test_a_constant_read_before_a_variable_of_its_name_is_set(
    hidden: None, function: Any, expected: int, sees_changes: bool, frontend: str
) -> None:
    global HIDDEN
    kernel = tw.jit(function, frontend=frontend)
    out = np.zeros(1, np.int32)
    kernel[(1,)](out, 0)
    assert out[0] == expected
    HIDDEN = tl.constexpr(8)
    if sees_changes:
        with pytest.raises(RuntimeError, match=f"HIDDEN {CHANGED}"):
            kernel[(1,)](out, 0)
    else:
        kernel[(1,)](out, 0)
    key = kernel.cache_key
    kernel.hash = None
    assert (kernel.cache_key != key) or not sees_changes


def reads_on_one_path(out, flag: tl.constexpr):
    if flag:
        HIDDEN = 5
    else:
        tl.store(out, HIDDEN)
        HIDDEN = 6
    tl.store(out + 1, HIDDEN)


def test_a_constant_read_on_one_path_only(hidden: None) -> None:
    global HIDDEN
    kernel = tw.jit(reads_on_one_path)
    out = np.zeros(2, np.int32)
    kernel[(1,)](out, 0)
    assert out.tolist() == [7, 6]
    key = kernel.cache_key
    HIDDEN = tl.constexpr(8)
    kernel.hash = None
    assert kernel.cache_key != key


def reads_ordinary(out, n):
    tl.store(out, PLAIN)  # noqa: F823 - the global is meant
    PLAIN = 1  # noqa: F841 - it makes the name a variable


def reads_what_was_lost(out, n):
    tl.store(out, HIDDEN)  # noqa: F823 - the global is meant
    if n > 3:
        HIDDEN = 5
    tl.store(out, HIDDEN)


def reads_in_a_run_time_loop(out, n):
    for i in range(n):
        tl.store(out, HIDDEN)  # noqa: F823 - the global is meant
        HIDDEN = i  # noqa: F841 - it makes the name a variable


@pytest.mark.quick
@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (reads_ordinary, "gets its value later"),
        (reads_what_was_lost, "HIDDEN"),
        (reads_in_a_run_time_loop, "gets its value later"),
    ],
)
def test_variables_that_no_global_stands_for(function: Any, reason: str, frontend: str) -> None:
    with pytest.raises(tw.CompilationError, match=reason):
        tw.jit(function, frontend=frontend)[(1,)](np.zeros(1, np.int32), 5)


PLAIN = 2.5
SIZES = [3, 4]
TABLE = np.arange(4)


def double(n: int) -> int:
    return 2 * n


class TestOrdinaryGlobals:
    """TRITON_ALLOW_NON_CONSTEXPR_GLOBALS."""

    @staticmethod
    def kernel() -> Any:
        @tw.jit
        def kernel(out):
            tl.store(out, PLAIN * 2 + double(SIZES[1]))

        return kernel

    def test_they_are_constants(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
        assert launches(self.kernel())() == 13

    @pytest.mark.parametrize(("name", "value"), [("PLAIN", 3.0), ("SIZES", [3, 5]), ("PLAIN", 5)])
    def test_changes_are_noticed(self, name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
        launch = launches(self.kernel())
        monkeypatch.setitem(globals(), name, value)
        with pytest.raises(RuntimeError, match=f"{name} {CHANGED}"):
            launch()
        assert launches(self.kernel())() != 13

    def test_a_list_that_is_changed_in_place_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
        monkeypatch.setitem(globals(), "SIZES", [3, 4])
        launch = launches(self.kernel())
        SIZES[1] = 7
        with pytest.raises(RuntimeError, match=f"SIZES {CHANGED}"):
            launch()

    def test_without_the_variable_they_are_refused_also_by_the_cache(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
        launches(self.kernel())
        monkeypatch.delenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS")
        with pytest.raises(tw.CompilationError, match="cannot access global variable `PLAIN`"):
            launches(self.kernel())

    def test_arrays_are_refused_all_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")

        @tw.jit
        def kernel(out):
            tl.store(out, TABLE[1])

        with pytest.raises(tw.CompilationError, match="cannot access global variable `TABLE`"):
            launches(kernel)
