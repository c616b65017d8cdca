"""The lines of a function, found by its code, are those that the tokenizer of `inspect` finds."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib.util
import inspect
import linecache
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from functools import update_wrapper
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest

from tilewright.runtime.function_source import read_source

MODULES = argparse, ast, dataclasses, inspect, linecache, textwrap, typing


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    things = [*vars(module).values()]
    things += [part for thing in things if isinstance(thing, type) for part in vars(thing).values()]
    for thing in things:
        if isinstance(thing, FunctionType) and thing.__module__ == module.__name__:
            yield thing


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_functions_of_the_standard_library(module: ModuleType) -> None:
    checked = 0
    for function in _functions(module):
        if function.__code__.co_filename == module.__file__ and function.__name__ != "<lambda>":
            assert read_source(function).raw == inspect.getsourcelines(function)[0], function.__qualname__
            checked += 1
    assert checked > 5


HARD = {
    "a string behind the last instruction": 'def f():\n    return 1\n    """\nno indentation\n"""\n',
    "a bracket behind the last instruction": "def f():\n    return 1\n    x: (\nint\n)\n",
    "a line that goes on": "def f():\n    return 1\n    x: \\\nint\n",
    "only a string": '@keep\ndef f():\n    """A string."""\n',
    "only a name": "@keep\ndef f():\n    ...\n",
    "a decorator of several lines": "@keep_with(\n    1,\n)\ndef f(\n    a=1,\n):\n    return a\n",
    "a comment that is not indented": "def f():\n    a = 1\n# here\n    return a\n",
    "one line": "def f(): return 1\n",
    "lines without an end": "def f():\n    return 1",
}


@pytest.mark.quick
@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
@pytest.mark.parametrize("behind", ["", "\n\n\nx = 1\n", "\n# a comment\n\n\ndef g():\n    return 2\n"], ids=[0, 1, 2])
def test_hard_cases(text: str, behind: str, tmp_path: Path) -> None:
    path = tmp_path / "source.py"
    whole = text + behind if text.endswith("\n") else text
    path.write_text(whole)
    scope = {"keep": lambda f: f, "keep_with": lambda number: lambda f: f}
    exec(compile(whole, path, "exec"), scope)
    function = scope["f"]
    assert isinstance(function, FunctionType)
    assert read_source(function).raw == inspect.getsourcelines(function)[0]


def test_a_wrapped_function_has_the_source_of_what_it_wraps(tmp_path: Path) -> None:
    def inner() -> int:
        return 1

    def outer() -> int:
        return 2

    update_wrapper(outer, inner)
    assert read_source(outer).text.startswith("def inner")


KERNEL = """import tilewright as tw
import tilewright.language as tl

@tw.jit{options}
def answer(out):
    tl.store(out, {number})
"""


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """A function that makes a module of a text and then overwrites its file with another text."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "edited.py"

    def load(text: str, after: str) -> ModuleType:
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("edited", path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        path.write_text(after)
        return module

    return load


@pytest.mark.parametrize("frontend", ["", "(frontend='bytecode')", "(frontend='trace')"])
@pytest.mark.parametrize("after", [KERNEL.replace("{number}", "2"), "\n\n\n\n" + KERNEL, "this is ( no Python", ""])
def test_a_kernel_is_what_was_imported_whatever_its_file_became(
    frontend: str, after: str, edited: Callable[..., ModuleType]
) -> None:
    module = edited(KERNEL.format(options=frontend, number=1), after.replace("{options}", frontend))
    out = np.zeros(1, np.int64)
    kernel = module.answer[(1,)](out)
    assert out[0] == 1
    assert "tl.store(out, 1)" in module.answer.src
    assert "tl.store(out, 1)" in re.sub("<[^>]*>", "", kernel._repr_html_())


def test_an_edited_file_leaves_nothing_wrong_in_the_cache(edited: Callable[..., ModuleType]) -> None:
    first, second = (KERNEL.format(options="", number=number) for number in (1, 2))
    edited(first, second).answer[(1,)](np.zeros(1, np.int64))
    out = np.zeros(1, np.int64)
    edited(first, first).answer[(1,)](out)
    assert out[0] == 1
    edited(second, first).answer[(1,)](out)
    assert out[0] == 2
