"""The dependencies of a kernel: the digest changes with each input, and with nothing else."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.language.callable import JITCallable
from tilewright.runtime.bytecode_names import global_reads
from tilewright.runtime.dependencies import check_unchanged, dependencies, value_text
from tilewright.semantics.constexpr import constexpr

pytestmark = pytest.mark.quick

BASE = """
def helper(x):
    return x + 1

def kernel(x, y):
    if x:
        return CONSTANT + m.deep.value
    return helper(y)
"""


def namespace(source: str = BASE, **changes: Any) -> dict[str, Any]:
    m = types.ModuleType("m")
    m.deep = types.ModuleType("m.deep")
    m.deep.value = 3
    names: dict[str, Any] = {"CONSTANT": 1, "m": m, "unused": 5} | changes
    exec(compile(source, "kernel.py", "exec"), names)
    return names


def digest(source: str = BASE, **changes: Any) -> str:
    return dependencies(namespace(source, **changes)["kernel"]).digest


def test_equal_sources_have_equal_digests() -> None:
    assert digest() == digest()


def test_comments_and_unused_globals_do_not_matter() -> None:
    assert digest() == digest(unused=6)
    assert digest() == digest(BASE.replace("return helper(y)", "return helper(y)  # so"))


@pytest.mark.parametrize(
    "changed",
    [
        digest(CONSTANT=2),
        digest(CONSTANT=1.0),
        digest(CONSTANT=True),
        digest(CONSTANT=constexpr(1)),
        digest(BASE.replace("x + 1", "x + 2")),
        digest(BASE.replace("x + 1", "x - 1")),
        digest(BASE.replace("kernel(x, y)", "kernel(x, y=1)")),
        digest(BASE.replace("kernel(x, y)", "kernel(x: int, y)")),
        digest(BASE.replace("m.deep.value", "m.deep.other")),
        digest("\n" + BASE),
    ],
)
def test_changes_that_matter(changed: str) -> None:
    assert changed != digest()


def test_a_value_behind_a_module_matters() -> None:
    names = namespace()
    before = dependencies(names["kernel"]).digest
    names["m"].deep.value = 4
    assert dependencies(names["kernel"]).digest != before


def test_used_globals_are_those_that_are_read() -> None:
    used = dependencies(namespace()["kernel"]).globals
    assert {name: value for (name, _), (value, _) in used.items()} == {"CONSTANT": 1, "value": 3}


def test_a_changed_global_is_an_error() -> None:
    names = namespace()
    used = dependencies(names["kernel"]).globals
    check_unchanged("kernel", used)
    names["CONSTANT"] = 2
    with pytest.raises(RuntimeError, match=r"CONSTANT has changed since we compiled this kernel.*from 1 to 2"):
        check_unchanged("kernel", used)
    del names["CONSTANT"]
    with pytest.raises(RuntimeError, match="to nothing"):
        check_unchanged("kernel", used)


class Callee(JITCallable):
    def __init__(self, key: str, *, noinline: bool = False, used: Any = ()) -> None:
        self.key, self.noinline, self.used_global_vals = key, noinline, dict(used)
        self.fn = test_used_globals_are_those_that_are_read

    @property
    def cache_key(self) -> str:
        return self.key


def test_callees_count_by_their_keys() -> None:
    found = {digest("kernel = lambda x: f(x)", f=Callee(key, noinline=flag)) for key in "ab" for flag in (False, True)}
    assert len(found) == 4


def test_conflicting_global_values() -> None:
    names = namespace("def kernel(x): return f(x) + CONSTANT")
    names["f"] = Callee("a", used={("CONSTANT", id(names)): (7, names)})
    with pytest.raises(RuntimeError, match="CONSTANT"):
        dependencies(names["kernel"])


def test_captured_values_count() -> None:
    def make(bound: Any) -> Any:
        return lambda x: x + bound

    assert dependencies(make(1)).digest != dependencies(make(2)).digest


def test_classes_of_installed_packages_count_by_name() -> None:
    def annotated(x: Any) -> Any:
        return x

    annotated.__annotations__ = {"x": np.ndarray, "return": pytest.Module}
    assert dependencies(annotated).digest
    assert value_text(pytest.Module) == "_pytest.python.Module()"


def test_functions_inside_functions_are_read_too() -> None:
    names = namespace("def kernel(x): return [g(y) for y in x]", g=1)
    assert ("g", (), False) in set(global_reads(names["kernel"].__code__))


def test_digest_does_not_depend_on_what_was_imported() -> None:
    """Names of the language that nobody asked for yet stay what they are, and names that were replaced do not."""
    program = """
import sys
import tilewright as tw, tilewright.language as tl
def kernel(x):
    tl.store(x, tl.math.exp(tl.max(tl.core.load(x))) + tw.cdiv(4, 2))
digest = lambda: tw.jit(kernel).cache_key
first = digest()
for import_more in ("import tilewright.language.math", "tw.cdiv", "tl.load"):
    exec(import_more)
    assert digest() == first, import_more
for module, name in ((tl, "max"), (tl, "store"), (tl.math, "exp"), (tw, "cdiv")):
    kept = getattr(module, name)
    setattr(module, name, abs)
    assert digest() != first, name
    setattr(module, name, kept)
    assert digest() == first, name
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.spared
def test_digest_does_not_depend_on_the_process() -> None:
    program = (
        "from test_dependencies import digest; "
        'print(digest(\'def kernel(x): return x in {"a", "b", "c", "d"} or object\'))'
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in "12"
    }
    assert len(found) == 1
    assert "\n" in found.pop()


class Slotted:
    """An object without a dict."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


@pytest.mark.parametrize("make", [Slotted, lambda value: partial(max, value), lambda value: partial(max, key=[value])])
def test_objects_count_by_what_they_hold(make: Any) -> None:
    assert value_text(make(3)) == value_text(make(3)) != value_text(make(4))
    assert " at 0x" not in value_text(make(3))


def test_functions_of_the_standard_library_are_not_followed() -> None:
    class Odd(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)  # as torch.classes does

    source = "def kernel(x):\n    return copied(x)\n"
    before = digest(source, copied=copy.deepcopy)
    copy._deepcopy_dispatch[Odd] = lambda value, memo: value
    try:
        assert digest(source, copied=copy.deepcopy) == before
    finally:
        del copy._deepcopy_dispatch[Odd]
    assert digest(source, copied=copy.copy) != before
    assert "odd" in value_text({"module": Odd("odd")})
