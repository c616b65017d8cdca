"""Reading: true positions, stored names, and what the HIR of a function says."""

from __future__ import annotations

import operator
import textwrap
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from evaluating import evaluate, jit, run_time, ttir

import tilewright.language as tl
from tilewright.frontends import hir, read_function, read_function_once
from tilewright.frontends.python_function import parse
from tilewright.ir.attributes import CallLocation, FileLocation
from tilewright.support.diagnostics import CompilationError


def _load(tmp_path: Path, text: str, name: str = "kernel") -> FunctionType:
    path = tmp_path / "source.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    names: dict[str, Any] = {"tl": tl}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    found = names[name]
    assert isinstance(found, FunctionType)
    return found


def _steps(function: hir.Function, kind: type) -> list[Any]:
    return [step for step in hir.walk(function.body) if isinstance(step, kind)]


def test_positions_of_a_nested_function() -> None:
    def kernel(x):
        y = x + 1
        return y  # noqa: RET504 - two statements are the point

    (add,) = _steps(read_function(kernel), hir.Operate)
    first = kernel.__code__.co_firstlineno
    assert add.function is operator.add
    assert add.location == FileLocation(__file__, first + 1, 13, first + 1, 18)


def test_columns_count_characters_not_bytes(tmp_path: Path) -> None:
    python = _load(tmp_path, "def kernel(x):\n    é = 'ü'; y = x + 1\n")
    (add,) = _steps(read_function(python), hir.Operate)
    assert (add.location.column, add.location.end_column) == (18, 23)


def test_source_ends_with_the_function(tmp_path: Path) -> None:
    python = _load(tmp_path, "x = 1\ndef kernel(\n    a,\n):\n    # before\n    return (\n        a\n    )\n\ny = 2\n")
    source, _ = parse(python)
    assert (source.first_line, source.text.rstrip()[-5:]) == (2, "    )")


def test_a_trailing_string_with_outdented_lines_is_read_whole(tmp_path: Path) -> None:
    python = _load(tmp_path, 'def kernel(a):\n    """Text\nat the margin\n"""\n')
    assert read_function(python).name == "kernel"


def test_no_source() -> None:
    names: dict[str, Any] = {}
    exec("def kernel(x):\n    pass\n", names)
    with pytest.raises(CompilationError, match="source of `kernel` is not available"):
        read_function(names["kernel"])


def test_blocks_know_what_they_store(tmp_path: Path) -> None:
    python = _load(
        tmp_path,
        """
        def kernel(n):
            for i in range(n):
                a = 1
                B: tl.constexpr = 2
                if a:
                    (c, d) = (1, 2)
                e = [z for z in (1, 2)]
        """,
    )
    function = read_function(python)
    assert function.body.stores == ("a", "c", "d", "e", "i")


def test_statements_after_an_early_return_move_into_the_other_side(tmp_path: Path) -> None:
    python = _load(tmp_path, "def kernel(a):\n    if a:\n        return 1\n    b = 2\n    return b\n")
    (step,) = [step for step in read_function(python).body.steps if isinstance(step, hir.If)]
    assert step.tail
    assert step.orelse.stores == ("b",)
    assert step.then.stores == ()


def test_many_conditional_returns_share_what_follows(tmp_path: Path) -> None:
    branches = "".join(f"    if FLAG == {i}:\n        if a > 0:\n            return {i}\n" for i in range(40))
    python = _load(tmp_path, f"def kernel(a, FLAG):\n{branches}    return a\n")
    assert len(_steps_once(read_function(python).body)) < 500


def _steps_once(block: hir.Block) -> set[int]:
    found: dict[int, hir.Block] = {}
    todo = [block]
    while todo:
        current = todo.pop()
        if id(current) not in found:
            found[id(current)] = current
            todo += [inner for step in current.steps for inner in hir.nested_blocks(step)]
    return {id(step) for shared in found.values() for step in shared.steps}


def test_equal_constants_share_a_register_but_not_across_types(tmp_path: Path) -> None:
    python = _load(tmp_path, "def kernel(x):\n    return (1, 1, 1.0, True, 0.0, -0.0)\n")
    (pack,) = _steps(read_function(python), hir.Operate)
    assert len(set(pack.operands)) == 5


def test_reading_is_remembered() -> None:
    def kernel(x):
        return x

    assert read_function_once(kernel) is read_function_once(kernel)


@jit
def _plus(a, b):
    return a + b


def _sums(x):
    tl.store(x, tl.reduce(tl.load(x + tl.arange(0, 16)), 0, _plus))


def test_locations_of_ops_evaluated_in_place_hold_the_call() -> None:
    module = evaluate(_sums, x=run_time("*fp32"))
    (add,) = [op for op in module.walk() if op.name == "arith.addf"]
    assert isinstance(add.location, CallLocation)
    assert isinstance(add.location.callee, FileLocation)
    assert isinstance(add.location.caller, FileLocation)
    assert add.location.callee.line == _plus.fn.__code__.co_firstlineno + 2
    assert add.location.caller.line == _sums.__code__.co_firstlineno + 1


def test_closures_and_defaults_are_seen() -> None:
    SIZE = tl.constexpr(32)

    def kernel(x, value=4):
        tl.store(x + tl.arange(0, SIZE), value)

    text = ttir(kernel, x=run_time("*i32"))
    assert "tensor<32xi32>" in text
    assert "dense<4>" in text
