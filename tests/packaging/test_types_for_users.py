"""The types that programs see: checkers find no mistake in a program, and find those that are there."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw
import tilewright.language as tl

PROGRAM = Path(__file__).parent / "user_program.py"
MISTAKES = """
import tilewright as tw

kernel = tw.jit(3)
tw.autotune(configs=[], key=["n"], restore=["x"])
tw.vectorize(1.5)
tw.Config({"BLOCK": 1}, num_warps="four")
tw.jit(print)[5]
"""
WRONG_LINES = {4, 5, 6, 7, 8}


def lines_of(said: list[str]) -> set[int]:
    """The lines of a program that a checker complains of."""
    return {int(number) for line in said for number in re.findall(r"wrong\.py:(\d+)", line)}


def mypy(path: Path, folder: Path) -> list[str]:
    """The output of `mypy --strict` for a program, without any settings."""
    call = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    call += [f"--cache-dir={folder}", str(path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=folder, timeout=300)
    return [line for line in done.stdout.splitlines() if ": error:" in line] or done.stderr.splitlines()


def pyright(path: Path, folder: Path) -> list[str]:
    """The output of pyright for a program, in its strictest mode."""
    settings = {"typeCheckingMode": "strict", "include": [str(path)], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    call = [sys.executable, "-m", "basedpyright", "-p", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=300)
    return [line for line in done.stdout.splitlines() if " - error: " in line] or done.stderr.splitlines()


def test_checkers_see_every_name_that_is_imported_late() -> None:
    (block,) = (
        node
        for node in ast.parse(Path(tw.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = [alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    late = set(tw.__all__) - set(vars(tw)) | {*tw._MODULES, *tw._WHOLE_MODULES}
    assert sorted(seen) == sorted(late)


@pytest.mark.slow
def test_mypy(tmp_path: Path) -> None:
    assert mypy(PROGRAM, tmp_path) == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MISTAKES)
    assert lines_of(mypy(wrong, tmp_path)) == WRONG_LINES


@pytest.mark.slow
@pytest.mark.needs_pyright
def test_pyright(tmp_path: Path) -> None:
    assert pyright(PROGRAM, tmp_path) == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MISTAKES)
    assert lines_of(pyright(wrong, tmp_path)) == WRONG_LINES


@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_language_is_what_checkers_read() -> None:
    """`__init__.pyi` takes names from the files that also give them when programs run."""
    text = Path(str(tl.__file__)).with_suffix(".pyi").read_text()
    names: dict[str, object] = {}
    exec(text.partition("TRITON_MAX_TENSOR_NUMEL:")[0], names)
    apart = {name for name in tl.__all__ if names.get(name) is not getattr(tl, name)}
    assert apart == {"TRITON_MAX_TENSOR_NUMEL"}
