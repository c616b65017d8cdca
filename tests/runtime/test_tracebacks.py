"""Compile errors are short wherever they leave the package: the message, the program's line, the way there."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compat.compile_errors import as_triton
from tilewright.support.diagnostics import present_errors

MAX_LINES = 25
OURS = str(Path(tw.__file__).parent)


@tw.jit
def helper(a):
    return a + tl.arange(0, 32)


@tw.jit
def kernel(x, BLOCK: tl.constexpr = 16):
    tl.store(x + helper(tl.arange(0, BLOCK)), 1.0)


@tw.vectorize
def several(a):
    return helper.nothing(a)


def array() -> Any:
    return np.zeros(16, np.float32)


def tuned() -> Any:
    configs = [tw.Config({"BLOCK": 16}), tw.Config({"BLOCK": 64})]
    return tw.autotune(configs, key=[])(kernel)


WAYS: dict[str, Callable[[], object]] = {
    "launch": lambda: kernel[(1,)](array()),
    "run": lambda: kernel.run(array(), grid=(1,)),
    "warmup": lambda: kernel.warmup(array(), grid=(1,)),
    "compile": lambda: tw.compile(tw.ASTSource(kernel, {"x": "*fp32"})),
    "autotuned": lambda: tuned()[(1,)](array()),
    "heuristics": lambda: tw.heuristics({"BLOCK": lambda args: 16})(kernel)[(1,)](array()),
    "bytecode": lambda: tw.jit(kernel.fn, frontend="bytecode")[(1,)](array()),
    "trace": lambda: tw.jit(kernel.fn, frontend="trace")[(1,)](array()),
    "vectorized": lambda: several(array()),
    "vectorized numbers": lambda: several(1.0),
}


def error_of(run: Callable[[], object]) -> tw.CompilationError:
    with pytest.raises(tw.CompilationError) as caught:
        run()
    return caught.value


def own_frames(error: BaseException) -> list[str]:
    return [f.name for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(OURS)]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_out_is_short(way: str) -> None:
    error = error_of(WAYS[way])
    assert len(own_frames(error)) <= 2
    lines = "".join(traceback.format_exception(error)).splitlines()
    assert len(lines) <= MAX_LINES
    assert "During handling" not in "\n".join(lines)
    assert "direct cause" not in "\n".join(lines)


@pytest.mark.parametrize("variable", ["TILEWRIGHT_FULL_TRACEBACK", "TRITON_FRONT_END_DEBUGGING"])
@pytest.mark.parametrize("way", ["launch", "autotuned", "vectorized"])
def test_all_is_shown_where_it_is_asked_for(way: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    error = error_of(WAYS[way])
    assert len(own_frames(error)) > 5
    assert error.__cause__ is not None
    assert not hasattr(error, "_render_traceback_")


PROGRAM = """
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def helper(a):
    return a + tl.arange(0, 32)

@tw.jit
def kernel(x):
    tl.store(x + helper(tl.arange(0, 16)), 1.0)

kernel[(1,)](np.zeros(16, np.float32))
"""


@pytest.mark.spared
def test_a_program_that_ends_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert sum(bool(line.strip("~^ ")) for line in lines) <= 13  # Python marks places in lines of their own
    assert lines[1].endswith('program.py", line 14, in <module>')
    assert lines[-1] == "help: reshape one side, or index it with [:, None] so that dimension 0 is 1"
    assert "program.py:8:12" in done.stderr
    assert "program.py:12:18" in done.stderr


def test_a_notebook_shows_the_frames_of_the_program() -> None:
    """IPython prints what this method gives, and much source around each frame where there is none."""

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        kernel[(1,)](array())

    error: Any = error_of(lambda: deep(6))
    error.add_note("a note")
    lines = error._render_traceback_()
    assert lines[:2] == ["Traceback (most recent call last):", "  … 6 more frames"]
    assert [line.rpartition(" in ")[2] for line in lines if line.startswith("  File")] == ["deep"] * 3
    assert lines[7:9] == ["    kernel[(1,)](array())", "CompilationError: error: shapes do not broadcast"]
    assert lines[-2:] == ["help: reshape one side, or index it with [:, None] so that dimension 0 is 1", "a note"]
    assert len(lines) <= MAX_LINES
    assert OURS not in "\n".join(lines)


@tw.jit
def endless(x):
    return endless(x + 1)


@tw.jit
def there(x, N: tl.constexpr):
    return back(x, N + 1)


@tw.jit
def back(x, N: tl.constexpr):
    return there(x, N + 1)


@tw.jit
def recursive(x, MUTUAL: tl.constexpr):
    if MUTUAL:
        tl.store(x, there(1.0, 0))
    else:
        tl.store(x, endless(1.0))


@pytest.mark.parametrize(
    ("mutual", "said"), [(False, "called from here"), (True, "… 61 more calls")], ids=["itself", "another"]
)
@pytest.mark.parametrize("frontend", ["ast", "bytecode", "trace"])
def test_recursion_is_short(frontend: str, *, mutual: bool, said: str) -> None:
    error: Any = error_of(lambda: tw.jit(recursive.fn, frontend=frontend)[(1,)](array(), mutual))
    lines = error._render_traceback_()
    assert "calls itself" in "\n".join(lines)
    assert len(lines) <= MAX_LINES
    assert frontend == "trace" or said in "\n".join(lines)


@tw.constexpr_function
def refuses(n):
    raise ValueError(f"never {n}")


@tw.jit
def asks(x):
    tl.store(x, refuses(3))


def test_an_exception_of_the_program_stays_the_cause() -> None:
    error = error_of(lambda: asks[(1,)](array()))
    assert isinstance(error.__cause__, ValueError)
    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)] == ["refuses"]
    assert len("".join(traceback.format_exception(error)).splitlines()) <= MAX_LINES


def test_other_words_keep_their_causes() -> None:
    present_errors(by=_other_words)
    try:
        error: Any = error_of(lambda: kernel[(1,)](array()))
    finally:
        present_errors(by=None)
    assert isinstance(error.__cause__, KeyError)
    assert "CompilationError: error: shapes do not broadcast" in error._render_traceback_()


def _other_words(error: tw.CompilationError) -> tw.CompilationError:
    shown = as_triton(error)
    shown.__cause__ = KeyError("kept")
    return shown
