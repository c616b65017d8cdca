"""Kernels whose names are not ASCII, or no identifiers at all, in every front end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.compile import ASTSource, compile


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


@tw.jit(noinline=True)
def hä(x):
    return x + 1.0


@tw.jit(noinline=True)
def hö(wert):
    return wert * 10.0


@tw.jit
def größe(ß, Ω: tl.constexpr):
    ü = tl.sum(tl.load(ß + tl.arange(0, Ω)), 0)
    tl.store(ß, hö(hä(ü)))


def stored(kernel: Any, *constants: int) -> float:
    x = np.ones(16, np.float32)
    kernel[(1,)](x, *constants)
    return float(x[0])


@pytest.mark.parametrize(
    "options", [{}, {"frontend": "bytecode"}, {"sanitize": "bounds"}, {"interpret": True}, {"debug": True}], ids=str
)
def test_letters_beyond_ascii(options: dict[str, Any]) -> None:
    for _ in range(2):  # compiled, then from the disk
        assert stored(tw.jit(größe.fn, **options), 16) == 170


def test_the_texts_of_stages_are_compiled_on(tmp_path: Path) -> None:
    kernel = compile(ASTSource(größe, {"ß": "*fp32"}, {"Ω": 16}))
    assert kernel.name == "größe"
    for stage in ("ttir", "ttcir", "llir"):
        (tmp_path / f"größe.{stage}").write_text(str(kernel.asm[stage]))
        again = compile(str(tmp_path / f"größe.{stage}"))
        assert (again.name, stored(again)) == ("größe", 170)


@pytest.mark.parametrize("name", ["größe of 3", 'a"b\\c', "λ", "3d", "x.y-z", "核"])
def test_names_that_a_program_makes_up(name: str) -> None:
    kernel = tw.jit(größe.fn, repr=lambda specialization: name)
    assert stored(kernel, 16) == 170
    assert kernel.warmup(np.ones(16, np.float32), 16, grid=(1,)).name == name


def test_functions_on_a_gpu_keep_apart() -> None:
    with tw.simulate("cuda:90"):
        assert stored(größe, 16) == 170
