"""Long sums are read whatever their length; code that is nested too deeply for Python's own depth is refused."""

from __future__ import annotations

import operator
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.frontends import hir, python_function
from tilewright.frontends.choice import READERS
from tilewright.support.diagnostics import Unsupported

DEPTH = 600
"""More branches than a reader can be within: it takes several calls for each, and Python 1,000."""


def written(tmp_path: Path, *lines: str) -> FunctionType:
    """A function of x, n, and o with these lines."""
    path, names = tmp_path / "written.py", dict[str, Any](tl=tl)
    path.write_text("def function(x, n, o):\n" + "".join(f"    {line}\n" for line in lines), encoding="utf-8")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    found = names["function"]
    assert isinstance(found, FunctionType)
    return found


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
def test_sums_of_many_terms_are_read(frontend: str, tmp_path: Path) -> None:
    count = 2000  # Python itself compiles little more
    function = READERS[frontend](written(tmp_path, f"return {' - '.join(f'x * {i}' for i in range(count))}"))
    differences = [step.function for step in hir.walk(function.body) if isinstance(step, hir.Operate)]
    assert differences.count(operator.sub) == count - 1


def test_more_than_python_parses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of Python differ in how much that is; a kernel may be called with less depth than it was made with."""

    def too_deep(text: str) -> NoReturn:
        raise RecursionError("maximum recursion depth exceeded during ast construction")

    monkeypatch.setattr(python_function, "syntax_tree", too_deep)
    with pytest.raises(Unsupported, match="code that is nested this deeply") as refused:
        READERS["ast"](written(tmp_path, "return x"))
    assert "written.py:1:1" in str(refused.value)


@pytest.mark.spared
def test_a_sum_of_many_terms_is_computed(tmp_path: Path) -> None:
    sum_of_many = tw.vectorize(written(tmp_path, f"return {' + '.join(['x', *(['n'] * 1500)])} - o"))
    assert sum_of_many(2, 3, 1) == 4501


ELIFS = ["if n == -1:", "    x = n", *(line for i in range(DEPTH) for line in (f"elif n == {i}:", f"    x = n + {i}"))]
DEEP = {"elif": [*ELIFS, "return x"], "if else": ["return " + "n if n > x else " * DEPTH + "x"]}


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
@pytest.mark.parametrize("lines", DEEP.values(), ids=list(DEEP))
def test_code_that_is_nested_too_deeply_is_refused(frontend: str, lines: list[str], tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="code that is nested this deeply cannot be used in a kernel") as refused:
        READERS[frontend](written(tmp_path, *lines))
    text = str(refused.value)
    assert "written.py:" in text
    assert "give a part of it a name, or make it a function of its own" in text
