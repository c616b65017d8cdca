"""Source text is parsed whatever other threads do."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tilewright.support import source

TEXT = "def f(x):\n" + "".join(f"    y{i} = (x + {i}) * (x - {i})\n" for i in range(60))


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns wherever they can: in the callbacks of the garbage collector, too, in the midst of a tree."""

    def turn(*_: Any) -> None:
        for _ in range(50):
            pass

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(turn)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*before)
    gc.callbacks.remove(turn)


def at_depth(depth: int) -> list[str]:
    """Parse at some depth of calls, as threads do at different ones."""
    return at_depth(depth - 1) if depth else [ast.dump(source.syntax_tree(TEXT)) for _ in range(60)]


@pytest.mark.spared
@pytest.mark.usefixtures("restless")
def test_threads_parse_at_once() -> None:
    expected = ast.dump(ast.parse(TEXT))
    with ThreadPoolExecutor(3) as pool:
        for dumps in pool.map(at_depth, (1, 20, 40)):
            assert dumps == [expected] * 60


def test_a_disturbed_text_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = ast.parse, []

    def parse(*arguments: Any, **named: Any) -> ast.AST:
        calls.append(arguments)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=72, after=156)")
        return original(*arguments, **named)

    monkeypatch.setattr(ast, "parse", parse)
    assert ast.unparse(source.expression_tree("1 + x")) == "1 + x"
    assert len(calls) == 3


def test_what_is_no_python_is_refused_at_once() -> None:
    with pytest.raises(SyntaxError):
        source.syntax_tree("def f(:")


def test_an_error_that_stays_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: Any, **__: Any) -> ast.AST:
        raise SystemError("broken")

    monkeypatch.setattr(ast, "parse", parse)
    with pytest.raises(SystemError, match="broken"):
        source.syntax_tree("x")
