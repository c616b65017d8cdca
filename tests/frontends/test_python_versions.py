"""Syntax of some versions of Python only: template strings, annotations nobody has evaluated, source kept for `-c`."""

from __future__ import annotations

import linecache
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.frontends import from_bytecode
from tilewright.support.annotations import annotations_of, signature_of
from tilewright.support.source import lines_of

HEADER = "import tilewright.language as tl\n"
NEW = pytest.mark.skipif(sys.version_info < (3, 14), reason="Python has it from 3.14 on")
ANNOTATED = """
def kernel(x: "Later", n: Missing, K: tl.constexpr, unused: Missing[const] = 0):
    tl.store(x + tl.arange(0, K), n)
"""
READ = [{"frontend": frontend} for frontend in ("ast", "bytecode", "trace")]
WAYS = pytest.mark.parametrize("options", [*READ, {"interpret": True}])


def module(folder: Path, text: str) -> Any:
    """A module with this text, in a file."""
    made = ModuleType("written")
    path = folder / "written.py"
    path.write_text(HEADER + text)
    linecache.checkcache(str(path))
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), vars(made))
    return made


@NEW
@WAYS
def test_annotations_may_name_what_is_not_there(tmp_path: Path, options: dict[str, Any]) -> None:
    kernel = tw.jit(**options)(module(tmp_path, ANNOTATED).kernel)
    out = np.zeros(8, np.int32)
    kernel[(1,)](out, 7, K=4)
    assert out.tolist() == [7, 7, 7, 7, 0, 0, 0, 0]


@NEW
def test_their_text_says_nothing_of_where_they_were_found(tmp_path: Path) -> None:
    function = module(tmp_path, ANNOTATED).kernel
    found = annotations_of(function)
    assert {name: text for name, text in found.items() if name != "K"} == {
        "x": "Later",
        "n": "Missing",
        "unused": "Missing[const]",
    }
    assert tw.jit(function).params[1].is_const is False
    keys = {tw.jit(module(tmp_path, ANNOTATED).kernel).cache_key for _ in range(2)}
    assert len(keys) == 1


def test_evaluated_annotations_are_objects() -> None:
    def function(a: int, b: Any = 3) -> float:
        return a + b

    function.__annotations__.update(a=int, b=Any)
    assert annotations_of(function)["a"] is int
    assert signature_of(function).parameters["b"].default == 3


@NEW
@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
@pytest.mark.parametrize("statement", ['t"a{n}"', 's = t"a{n}"'])
def test_template_strings_are_refused(tmp_path: Path, statement: str, frontend: str) -> None:
    kernel = module(tmp_path, f"def kernel(x, n):\n    {statement}\n    tl.store(x, n)\n").kernel
    with pytest.raises(tw.Unsupported, match=r"a template string cannot be used in a kernel\n.*written\.py:3"):
        tw.jit(frontend=frontend)(kernel)[(1,)](np.zeros(1, np.int32), 1)


@pytest.mark.parametrize("frontend", ["auto", pytest.param("bytecode", marks=pytest.mark.spared)])
def test_programs_of_exec_are_not_taken_for_the_one_of_the_command_line(frontend: str) -> None:
    """Python 3.13.0 keeps the lines of `-c` under the name that programs of `exec` have as well."""
    lines = [
        "import numpy as np, tilewright as tw, tilewright.language as tl",
        "def kernel(x, n): tl.store(x, n + 1)",
        "inner = 'import tilewright.language as tl\\ndef kernel(x, n): tl.store(x, n + 2)'",
        "names = {}",
        "exec(inner, names)",
        "out = np.zeros(2, np.int32)",
        f"tw.jit(frontend={frontend!r})(names['kernel'])[(1,)](out, 5)",
        f"tw.jit(frontend={frontend!r})(kernel)[(1,)](out[1:], 5)",
        "print(*out)",
    ]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("7 6\n", 0), ran.stderr


def test_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\nb = 2\n")
    assert lines_of(str(path)) == ["a = 1\n", "b = 2\n"]
    assert lines_of(str(tmp_path / "none.py")) == lines_of("<string>") == []


def test_bytecode_of_a_version_that_was_not_tested_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_bytecode, "python_problem", lambda: "another one")
    names: dict[str, Any] = {"tl": tl}
    exec("def kernel(x):\n    tl.store(x, 1)\n", names)
    version = rf"{sys.version_info[0]}\.{sys.version_info[1]}"
    with pytest.raises(tw.Unsupported, match=f"the bytecode of Python {version} cannot be used in a kernel"):
        tw.jit(frontend="bytecode")(names["kernel"])[(1,)](np.zeros(1, np.int32))
