"""docs/follow-a-kernel.md shows what the compiler does now; `pytest --update-goldens` writes its texts anew."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from centered_rows import center
from follow import TEXTS, texts_in, with_current_texts
from pages import ROOT

PAGE = ROOT / "docs" / "follow-a-kernel.md"
LLVM_OF_THE_PAGE = re.compile(r"LLVM (\d+)")


def test_every_text_is_shown() -> None:
    assert list(texts_in(PAGE.read_text())) == list(TEXTS)


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "asm"])
def test_text_is_current(name: str, request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text()
    if request.config.getoption("--update-goldens"):
        PAGE.write_text(with_current_texts(page))
    else:
        assert texts_in(page)[name].strip() == TEXTS[name]().strip(), "pytest --update-goldens tests/docs"


def mnemonics(text: str) -> list[str]:
    """The instructions without operands: which registers they use depends on code elsewhere."""
    return [line.split()[0] for line in text.splitlines() if line.startswith(" ")]


def test_the_instructions_are_current() -> None:
    page = PAGE.read_text()
    if llvm.llvm_version_info[0] != int(LLVM_OF_THE_PAGE.findall(page)[0]):
        pytest.skip("another LLVM chooses other instructions")
    shown, now = mnemonics(texts_in(page)["asm"]), mnemonics(TEXTS["asm"]())
    assert shown == now, "pytest --update-goldens tests/docs"


@pytest.mark.parametrize("columns", [1, 1000, 1024])
def test_the_kernel_is_right(columns: int) -> None:
    x = np.random.default_rng(0).standard_normal((5, columns)).astype(np.float32)
    out = np.empty_like(x)
    center[(5,)](x, out, columns, BLOCK=1024)
    np.testing.assert_allclose(out, x - x.mean(axis=1, keepdims=True), atol=1e-6)
