"""The self-test of compiled kernels, where nobody has run them: what it decides, and what happens then."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels
from tilewright.runtime import self_test
from tilewright.runtime.interpreted import InterpretedFunction
from tilewright.runtime.jit import JITFunction
from tilewright.support.executable_memory import PlatformError, map_code
from tilewright.support.system import SYSTEM


def doubled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@pytest.fixture
def unproven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache_without_kernels(tmp_path / "cache")))
    monkeypatch.setattr(SYSTEM, "wants_proof", True)
    monkeypatch.setattr(SYSTEM, "_doubt", "")
    self_test.failure.cache_clear()
    yield
    self_test.failure.cache_clear()


def program(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(self_test, "COMMAND", (sys.executable, "-c", text))


def test_the_real_one_passes_and_is_noted(unproven: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(tw.jit(doubled), JITFunction)
    assert len(list((tmp_path / "cache").glob("self-test-*"))) == 1
    self_test.failure.cache_clear()
    program(monkeypatch, "raise SystemExit(1)")
    assert self_test.failure() == "", "it is not run again"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys; sys.exit('other numbers')", "ended with 1: other numbers"),
        ("import os; os.abort()", "ended with -?[0-9]+: "),
        ("pass", "ended with 0: it said nothing"),
        ("import time; time.sleep(600)", "did not end"),
    ],
)
def test_one_that_fails_makes_kernels_run_in_python(
    unproven: None, text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(monkeypatch, text)
    if "did not end" in reason:
        monkeypatch.setattr(self_test, "_SECONDS", 0.1)
    with pytest.warns(RuntimeWarning, match=f"kernels run in Python, slowly: the self-test of .* {reason}"):
        kernel = tw.jit(doubled)
    assert isinstance(kernel, InterpretedFunction)
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    kernel[(3,)](x, out, 10, BLOCK=4)
    assert out.tolist() == (2 * x).tolist()
    with pytest.raises(PlatformError, match=reason):
        map_code(b"\xc3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(tw.jit(doubled), InterpretedFunction), "once is enough"
        assert isinstance(tw.jit(interpret=False)(doubled), JITFunction), "who insists gets a kernel"
    assert list((tmp_path / "cache").glob("self-test-*")) == [], "the next process tries again"


def test_proven_systems_are_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    program(monkeypatch, "raise SystemExit(1)")
    assert SYSTEM.wants_proof == (SYSTEM.name == "macos")
    if not SYSTEM.wants_proof:
        assert isinstance(tw.jit(doubled), JITFunction)
