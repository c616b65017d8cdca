"""How a kernel shows itself: lines with their places in the source, and the tabs of a notebook, in a browser too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from browser import Browser, Page
from tilewright.runtime.display.listings import Line, Listing, Place, agreeing, assembly_lines, matched_stages


@tw.jit
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr, tl.sum(x))


FIRST = total.fn.__code__.co_firstlineno
LOAD, STORE = FIRST + 3, FIRST + 4


def launched(**options: Any) -> Any:
    return total[(1,)](np.ones(50, np.float32), np.zeros(1, np.float32), 50, BLOCK=64, **options)


def by_title(listings: list[Listing]) -> dict[str, list[Line]]:
    return {listing.title: list(listing.lines) for listing in listings}


def lines_of(lines: list[Line], pattern: str) -> set[int]:
    return {line.source for line in lines if re.search(pattern, line.text)}


def test_all_stages_are_matched() -> None:
    kernel = launched()
    found = by_title(matched_stages(kernel))
    assert list(found) == ["source", "ttir", "loops", "asm"]
    assert lines_of(found["source"], "tl.load") == {LOAD}
    assert lines_of(found["ttir"], "tt.load") == {LOAD}
    assert LOAD in lines_of(found["loops"], r"vector\.(masked)?load")
    assert lines_of(found["loops"], r"vector\.store|tt\.store") == {STORE}
    instructions = [line.source for line in found["asm"] if line.text.startswith("\t")]
    assert {LOAD, STORE} <= set(instructions)


@pytest.mark.parametrize("stage", ["ttir", "loops"])
def test_the_texts_are_the_kernels_own(stage: str) -> None:
    kernel = launched()
    found = by_title(matched_stages(kernel))
    assert [line.text for line in found[stage]] == kernel.asm[stage].splitlines()


def test_the_instructions_are_the_kernels_own() -> None:
    kernel = launched()
    shown = [line.text for line in by_title(matched_stages(kernel))["asm"] if re.match(r"\t[a-z]", line.text)]
    assert shown == [line for line in kernel.asm["asm"].splitlines() if re.match(r"\t[a-z]", line)]


def test_a_kernel_of_a_gpu() -> None:
    with tw.simulate("cuda:90"):
        kernel = launched()
    found = by_title(matched_stages(kernel))
    assert list(found) == ["source", "ttir", "ttgir", "ptx"]
    assert lines_of(found["ttgir"], "tt.load") == {LOAD}
    assert LOAD in lines_of(found["ptx"], r"ld\.global")


def test_options_are_those_of_the_kernel() -> None:
    """With checks in it, the code is another, and still matched."""
    found = by_title(matched_stages(launched(sanitize="bounds")))
    assert LOAD in lines_of(found["ttir"], "tt.load")
    assert any(line.source for line in found["asm"])


def test_a_kernel_from_text_has_no_places(tmp_path: Path) -> None:
    file = tmp_path / "total.ttir"
    file.write_text(launched().asm["ttir"])
    found = by_title(matched_stages(tw.compile(str(file))))
    assert list(found) == ["ttir", "loops", "asm"]
    assert {line.source for lines in found.values() for line in lines} == {0}


def test_texts_that_differ_are_not_matched() -> None:
    located = [Line("\tmovl\t%eax, %ebx", 3), Line("\tret", 4)]
    assert agreeing("\tmovl\t%eax, %ebx\n\tret\n", located) == located
    assert agreeing("\tmovl\t%eax, %ecx\n\tret\n", located) == [Line("\tmovl\t%eax, %ecx"), Line("\tret")]


def test_assembly_of_other_files_has_no_line() -> None:
    text = '\t.file\t1 "/a" "k.py"\n\t.file\t2 "/b" "l.py"\n\t.loc\t1 5 1\n\tnop\n\t.loc\t2 5 1\n\tret\n'
    lines = assembly_lines(text, Place("/a/k.py", range(4, 8)))
    assert [line.source for line in lines if line.text in ("\tnop", "\tret")] == [5, 0]


def test_text_is_escaped() -> None:
    html = launched()._repr_html_()
    assert "tensor&lt;64xi32" in html.replace('<span class="number">64xi32</span>', "64xi32")
    assert html.count("<div") == html.count("</div>")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def opened(browser: Browser, folder: Path, width: int, *, dark: bool = False) -> Page:
    file = folder / "kernel.html"
    file.write_text(f"<!doctype html><meta name=viewport content='width=device-width'>{launched()._repr_html_()}")
    return browser.open(file.as_uri(), width=width, dark=dark)


LIT = "[...document.querySelectorAll('[data-line]')].filter(e => e.offsetParent && getComputedStyle(e)" + (
    ".backgroundColor != 'rgba(0, 0, 0, 0)').map(e => e.dataset.line)"
)


@pytest.mark.slow
@pytest.mark.needs_chromium
def test_pointing_at_a_line_lights_what_came_of_it(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, 1280)
    assert page.evaluate(LIT) == []
    page.point_at(f'.tw-source [data-line="{LOAD}"]')
    lit = page.evaluate(LIT)
    assert len(lit) >= 4
    assert set(lit) == {str(LOAD)}
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.needs_chromium
def test_tabs_choose_and_a_click_scrolls(browser: Browser, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, 1280)
    visible = "[...document.querySelectorAll('.tw-panel')].map(e => e.offsetParent != null)"
    assert page.evaluate(visible) == [True, False, False, False]
    page.evaluate("[...document.querySelectorAll('label')].find(e => e.textContent == 'assembly').click()")
    assert page.evaluate(visible) == [False, False, True, False]
    page.evaluate(f"document.querySelector('.tw-source [data-line=\"{LOAD}\"]').click()")
    assert page.evaluate("document.querySelector('.tw-panel-2').scrollTop") > 0
    assert page.problems == []


@pytest.mark.slow
@pytest.mark.needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone(browser: Browser, tmp_path: Path, *, dark: bool) -> None:
    page = opened(browser, tmp_path, 375, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    background = page.evaluate("getComputedStyle(document.querySelector('.tw-kernel')).backgroundColor")
    assert (int(re.findall(r"\d+", background)[0]) < 100) == dark
