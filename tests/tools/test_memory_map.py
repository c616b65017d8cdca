"""The memory that programs of a grid touch, as data and as pictures on the page of `tilewright explain`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from browser import Browser
from tilewright.compiler.signature import ArgumentSpec
from tilewright.runtime.display.listings import Place
from tilewright.tools import memory_map
from tilewright.tools.explain import _module
from tilewright.tools.kernels import UsageError
from tilewright.tools.main import main
from tilewright.tools.memory_map import Access, accesses, drawing
from tilewright.transforms.pipeline import optimize_ttir

ROOT = Path(__file__).parents[2]
VECTOR_ADD = f"{ROOT / 'examples' / 'vector_add.py'}:add_kernel"


@tw.jit
def add(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@tw.jit
def rows_of(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((4, BLOCK), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + i * stride + start + j, mask=start + j < n, other=0.0)
    tl.atomic_add(out_ptr + i * 0 + j, total)


@tw.jit
def columns_of(x_ptr, out_ptr, stride):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    tl.store(out_ptr + i * 8 + j, tl.load(x_ptr + i + j * stride))


@tw.jit
def picked(index_ptr, x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr + tl.load(index_ptr + tl.program_id(0)) + 5))


@tw.jit
def before(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr - 3))


SPECS = {
    before: "x_ptr:*fp32 out_ptr:*fp32",
    add: "x_ptr:*fp32 out_ptr:*fp32 n:i32 BLOCK=8",
    rows_of: "x_ptr:*fp32 out_ptr:*fp32 stride:i32 n:i32 BLOCK=8",
    columns_of: "x_ptr:*fp32 out_ptr:*fp32 stride:i32",
    picked: "index_ptr:*i64 x_ptr:*fp16 out_ptr:*fp16",
}


def touched(kernel: Any, grid: list[int], **numbers: int) -> list[Access]:
    specs = []
    for text in SPECS[kernel].split():
        name, equals, value = text.partition("=")
        typed, _, kind = text.partition(":")
        specs.append(ArgumentSpec(name, "constexpr", constant=int(value)) if equals else ArgumentSpec(typed, kind, 16))
    module = _module(kernel.fn, specs, "ast")
    optimize_ttir(module)
    return accesses(module, grid, numbers, Place.of(kernel.fn))


def test_each_program_has_its_elements() -> None:
    load, store = touched(add, [3], n=20)
    assert (load.kind, load.argument, load.size) == ("load", "x_ptr", 4)
    assert (store.kind, store.argument) == ("store", "out_ptr")
    expected = {(0, 0, 0): range(8), (1, 0, 0): range(8, 16), (2, 0, 0): range(16, 20)}
    for access in (load, store):
        assert {program: list(elements) for program, elements in access.touched.items()} == {
            program: list(elements) for program, elements in expected.items()
        }
        assert access.line == add.fn.__code__.co_firstlineno + 3


def test_elements_before_an_array_count_as_its_own() -> None:
    (load,) = [access for access in touched(before, [1]) if access.kind == "load"]
    assert (load.argument, list(load.touched[0, 0, 0])) == ("x_ptr", [-3])
    assert len(cells(drawing(load))) == 1


def test_a_loop_touches_all_of_its_turns() -> None:
    load, add_up = touched(rows_of, [1], stride=30, n=20)
    assert load.row == 30
    rows = [30 * i + j for i in range(4) for j in range(20)]
    assert list(load.touched[0, 0, 0]) == rows
    assert add_up.kind == "atomic"
    assert list(add_up.touched[0, 0, 0]) == list(range(8))


def test_a_row_is_the_larger_distance_of_a_tile() -> None:
    load, store = touched(columns_of, [1], stride=40)
    assert (load.row, store.row) == (40, 8)


def test_loaded_values_count_as_zero() -> None:
    by_name = {access.argument: access for access in touched(picked, [2])}
    assert by_name["index_ptr"].size == 8
    assert list(by_name["x_ptr"].touched[1, 0, 0]) == [5]


@pytest.mark.quick
@pytest.mark.parametrize("grid", [[0], [65], [8, 9], [1 << 40, 1 << 40]])
def test_grids_that_no_picture_shows(grid: list[int]) -> None:
    with pytest.raises(UsageError, match="1 to 64 programs"):
        touched(add, grid, n=20)


def test_elements_are_counted_for_all_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three programs load and store 20 elements."""
    monkeypatch.setattr(memory_map, "MAX_ELEMENTS", 40)
    assert len(touched(add, [3], n=20)) == 2
    monkeypatch.setattr(memory_map, "MAX_ELEMENTS", 39)
    with pytest.raises(UsageError, match="touch more than 39 elements: draw a smaller grid"):
        touched(add, [3], n=20)


def test_a_number_that_is_missing() -> None:
    with pytest.raises(UsageError, match="-a n=100"):
        touched(add, [1])


def cells(svg: str) -> list[tuple[str, int, int, int]]:
    found = re.findall(r'<rect class="(\w+)" style="--hue:\d+" x="(\d+)" y="(\d+)" width="(\d+)"', svg)
    return [(kind, *map(int, place)) for kind, *place in found]


def test_rows_of_a_picture_are_what_programs_are_apart() -> None:
    (load, _) = touched(add, [3], n=20)
    svg = drawing(load)
    assert "8 elements a row, from element 0 on" in svg
    assert cells(svg) == [("one", 0, 0, 79), ("one", 0, 10, 79), ("one", 0, 20, 39)]
    assert "<title>program 2: elements 16 to 19</title>" in svg


def test_rows_of_one_program_with_one_axis_have_a_width_of_their_own() -> None:
    assert "64 elements a row, from" in drawing(Access("load", "x", 1, 4, 0, {(0, 0, 0): np.arange(200)}))


def test_what_several_touch_is_marked() -> None:
    touched = {(0, 0, 0): np.arange(4), (1, 0, 0): np.arange(2, 6), (0, 1, 0): np.array([5])}
    shared = Access("load", "x", 1, 4, 0, touched)
    svg = drawing(shared)
    assert [kind for kind, *_ in cells(svg)] == ["one", "several", "one", "several"]
    assert "<title>2 programs: 0, 1: elements 2 to 3</title>" in svg
    assert "<title>2 programs: 1, (0, 1): element 5</title>" in svg


def test_nothing_touched_and_too_much() -> None:
    assert cells(drawing(Access("load", "x", 1, 4, 0, {}))) == []
    assert cells(drawing(Access("load", "x", 1, 4, 0, {(0, 0, 0): np.array([], np.int64)}))) == []
    assert "too many" in drawing(Access("load", "x", 1, 4, 0, {(0, 0, 0): np.arange(0, 40_000, 2)}))


PICTURES = {
    "rows of a tile": (30, {(0, 0, 0): [30, 31, 32, 60, 61], (1, 0, 0): [61, 62], (0, 0, 2): [91]}),
    "the longest row": (512, {(0, 0, 0): [511, 512, 513], (0, 3, 0): [1500]}),
    "a row too long": (513, {(0, 0, 0): [511, 512, 640], (1, 0, 0): [700]}),
    "neighbours are one element apart": (0, {(n, 0, 0): [n, n + 1] for n in range(3)}),
    "two elements apart, before the array": (0, {(n, 0, 0): [2 * n - 4, 2 * n - 3] for n in range(3)}),
    "small cells": (187, {(0, 0, 0): [0, 1, 186, 187], (1, 0, 0): [188]}),
    "cells that are large enough": (140, {(0, 0, 0): [139, 140, 141]}),
    "eight programs": (4, {(n, 0, 0): [5] for n in range(8)}),
    "nine programs": (4, {(n, 1, 0): [5] for n in range(9)}),
}
"""The memory that programs touch, and the distance of its rows."""


def test_pictures(golden: Callable[[str, str], None]) -> None:
    lines = []
    for title, (row, elements) in PICTURES.items():
        touched = {program: np.array(those) for program, those in elements.items()}
        svg = drawing(Access("load", "x", 1, 4, row, touched))
        lines.append(f"{title}\n{svg}\n".replace("><", ">\n  <"))
    golden("".join(lines), "tools/memory_maps.txt")


COMMAND = ["explain", VECTOR_ADD, "-c", "BLOCK=128"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--grid", "4"], "--html FILE"),
        (["--gpu", "90"], "--html FILE"),
        (["--grid", "four", "--html", "{out}"], "one to three numbers"),
        (["--grid", "4", "--html", "{out}"], "a number for n"),
        (["--grid", "4", "-a", "n", "--html", "{out}"], "NAME=VALUE"),
    ],
)
def test_mistakes_of_the_command_line(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "page.html")
    assert main([*COMMAND, *(option.format(out=out) for option in options)]) == 1
    assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "page.html"
    command = [*COMMAND, "--html", str(out), "--grid", "4", "-a", "n=500", "--gpu", "90"]
    assert main(command) == 0
    return out


def test_the_page_has_pictures(written: Path) -> None:
    text = written.read_text()
    assert text.count("<figure data-line=") == 3
    assert "load of <code>x_ptr</code>, 4 bytes each" in text
    assert "<h2>GPU 90</h2>" in text
    assert "<code>#blocked</code> of a tile 128 of" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.mark.slow
@pytest.mark.needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_lights_picture_and_lines(browser: Browser, written: Path, *, dark: bool) -> None:
    page = browser.open(written.as_uri(), width=1500, dark=dark)
    line = re.findall(r'<figure data-line="(\d+)"', written.read_text())[0]
    page.point_at(f'figure[data-line="{line}"]')
    lit = page.evaluate("[...document.querySelectorAll('.lit')].map(e => e.tagName + e.dataset.line)")
    assert f"FIGURE{line}" in lit
    assert lit.count(f"DIV{line}") > 10
    assert page.evaluate("[...document.images].every(e => e.naturalWidth > 0)")
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.needs_chromium
def test_the_page_fits_a_phone(browser: Browser, written: Path) -> None:
    page = browser.open(written.as_uri(), width=375)
    assert page.evaluate("document.documentElement.scrollWidth <= 375")
    assert page.problems == []
