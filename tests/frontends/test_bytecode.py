"""Bytecode gives what source gives: equal TTIR for every kernel, and the forms of Python that kernels use."""

from __future__ import annotations

import dis
import inspect
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forms
import numpy as np
import pytest
from evaluating import parameter, run_time
from forms import FORMS, REFUSALS, returns_values
from test_evaluate import KERNELS

import tilewright as tw
import tilewright.language as tl
from tilewright.frontends import evaluate_kernel, from_ast, from_bytecode, hir
from tilewright.frontends.from_bytecode import opcodes
from tilewright.frontends.from_bytecode.opcodes import REFUSED, SUPPORTED
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.support.diagnostics import CompilationError
from tilewright.transforms.pipeline import optimize_ttir

pytestmark = pytest.mark.quick

I32, P32 = run_time("i32"), run_time("*i32")


def ttir(fn: Callable[..., Any], read: Callable[..., Any], values: dict[str, Any]) -> str:
    """The text after the pipeline."""
    python = getattr(fn, "fn", fn)
    parameters = [parameter(name, value) for name, value in values.items()]
    module = evaluate_kernel(read(python), parameters, name=python.__name__, read=read)
    verify(module)
    optimize_ttir(module)
    return print_op(module)


@pytest.mark.parametrize(("kernel", "values"), KERNELS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_kernel_reads_alike(kernel: Any, values: dict[str, Any]) -> None:
    assert ttir(kernel, from_bytecode.read_function, values) == ttir(kernel, from_ast.read_function, values)


KNOWN = {*SUPPORTED, *REFUSED}


def test_every_opcode_of_this_python_is_known() -> None:
    assert {name for name in dis.opmap.keys() - KNOWN if not name.startswith("INSTRUMENTED_")} == set()
    assert SUPPORTED.keys() & REFUSED.keys() == set()


NEW_IN_3_14 = """
    ANNOTATIONS_PLACEHOLDER BUILD_INTERPOLATION BUILD_TEMPLATE JUMP_IF_FALSE JUMP_IF_TRUE LOAD_COMMON_CONSTANT
    LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW LOAD_SMALL_INT LOAD_SPECIAL NOT_TAKEN POP_ITER
"""


def test_the_opcodes_that_3_14_adds_are_known() -> None:
    assert set(NEW_IN_3_14.split()) <= KNOWN


def test_an_opcode_that_nobody_knows_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: translate for name, translate in SUPPORTED.items() if name != "BUILD_TUPLE"}
    monkeypatch.setattr(opcodes, "SUPPORTED", known)
    with pytest.raises(CompilationError, match=r"(?s)instruction BUILD_TUPLE cannot.*forms.py:.*a, \(b, c\) = n"):
        from_bytecode.read_function(forms.tuples)


@pytest.mark.parametrize("kernel", FORMS, ids=lambda kernel: kernel.__name__)
def test_forms_of_python(kernel: Any) -> None:
    values: dict[str, Any] = {"x": P32, "n": I32, "m": I32}
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    given = {name: values[name] for name in names if name in values and name != "m"}
    if "m" in names and not kernel.__defaults__:
        given["m"] = I32
    assert ttir(kernel, from_bytecode.read_function, given) == ttir(kernel, from_ast.read_function, given)


@pytest.mark.quick
@pytest.mark.parametrize("kernel", REFUSALS, ids=lambda kernel: kernel.__name__)
def test_what_is_refused_is_named_with_its_place(kernel: Any) -> None:
    for read in (from_bytecode.read_function, from_ast.read_function):
        with pytest.raises(CompilationError) as caught:
            ttir(kernel, read, {"x": P32, "n": I32})
        text = str(caught.value)
        assert REFUSALS[kernel] in text
        assert "forms.py" in text


def test_items_behind_a_starred_one() -> None:
    def kernel(out, SHAPE: tl.constexpr):
        tl.store(out, len((*SHAPE, 4, 5)) + (*SHAPE, 7)[-1])

    values = {"out": P32, "SHAPE": (2, 8)}
    assert ttir(kernel, from_bytecode.read_function, values) == ttir(kernel, from_ast.read_function, values)


def test_what_several_paths_go_on_with_is_read_once_and_begins_where_it_stands() -> None:
    def kernel(x, n):
        if n > 3:
            if n > 5:
                return
        elif n < 1:
            return
        tl.store(x, n)

    steps = list(hir.walk(from_bytecode.read_function(kernel).body))
    paths = [step for step in steps if isinstance(step, hir.Continue)]
    assert len(paths) == 2
    assert paths[0].block is paths[1].block
    assert {path.location for path in paths} == {paths[0].block.steps[0].location}
    assert sum(isinstance(step, hir.Call) for step in steps) == 1


def test_functions_without_source() -> None:
    names: dict[str, Any] = {"tl": tl}
    exec("def kernel(x, n, N: tl.constexpr):\n    for i in range(N):\n        tl.store(x + i, n)\n", names)
    assert "scf.for" in ttir(names["kernel"], from_bytecode.read_function, {"x": P32, "n": I32, "N": 4})


def launched(kernel: Any, *arguments: Any) -> list[int]:
    out = np.zeros(8, np.int32)
    kernel[(1,)](out, *arguments)
    return [int(value) for value in out]


def test_kernels_without_source_are_launched() -> None:
    names: dict[str, Any] = {"tl": tl}
    exec("def kernel(x, n):\n    for i in range(n):\n        tl.store(x + i, i + 1)\n", names)
    kernel = tw.jit(names["kernel"])
    assert launched(kernel, 3) == [1, 2, 3, 0, 0, 0, 0, 0]
    assert "FOR_ITER" in kernel.warmup(np.zeros(8, np.int32), 3, grid=(1,)).asm["source"]
    assert launched(tw.jit(lambda x, n: tl.store(x + n, n)), 2) == [0, 0, 2, 0, 0, 0, 0, 0]


LAMBDAS = """
import tilewright as tw
import tilewright.language as tl

def default(x, n, kernel=tw.jit(lambda x, n: tl.store(x + n, 3))):
    tl.store(x + n, 4)

TABLE = {
    "kernel": tw.jit(lambda x, n: tl.store(x + n, 5)),
    "vectorized": tw.vectorize(lambda x: x + 1),
}
def vectorized(x, function=tw.vectorize(lambda x: x + 2)): return x + 3
"""


def test_lambdas_whose_lines_are_those_of_something_else(tmp_path: Path) -> None:
    """The lines of a default are those of its `def`; those of a table, taken alone, are no Python."""
    path = tmp_path / "lambdas.py"
    path.write_text(LAMBDAS)
    found = runpy.run_path(str(path))
    assert launched(found["default"].__defaults__[0], 2)[2] == 3
    assert launched(found["TABLE"]["kernel"], 2)[2] == 5
    numbers = np.arange(3.0)
    assert found["TABLE"]["vectorized"](numbers).tolist() == [1, 2, 3]
    assert found["vectorized"].__defaults__[0](numbers).tolist() == [2, 3, 4]


def test_constants_without_source() -> None:
    names: dict[str, Any] = {"tl": tl, "filled": forms.filled}
    exec(inspect.getsource(forms.constants), names)
    outs = [np.zeros(16, np.int32) for _ in range(2)]
    for kernel, out in zip((names["constants"], forms.constants), outs, strict=True):
        tw.jit(kernel, frontend="bytecode")[(1,)](out, 7)
    assert outs[0].tolist() == outs[1].tolist() == [7, 7, 7, 7, 0, 0, 0, 0, 6, 0, 1, 0, 2, 0, 3, 0]


def test_what_is_no_constant_without_source() -> None:
    names: dict[str, Any] = {"tl": tl}
    exec("def kernel(x, n):\n    B = n * 2\n    tl.store(x + tl.arange(0, B), n)\n", names)
    with pytest.raises(CompilationError, match="must be known at compile time"):
        ttir(names["kernel"], from_bytecode.read_function, {"x": P32, "n": I32})


def test_the_front_end_can_be_chosen() -> None:
    for frontend in ("ast", "bytecode", "auto"):
        kernel = tw.jit(frontend=frontend)(returns_values)
        assert launched(kernel, -5)[0] == -1
        assert launched(kernel, 5)[0] == 1
    keys = {tw.jit(frontend=frontend)(returns_values).cache_key for frontend in ("ast", "bytecode")}
    assert len(keys) == 2


def test_what_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="one of auto, ast, bytecode, trace; not 'basic'"):
        tw.jit(frontend="basic")(returns_values)
    with pytest.raises(ValueError, match="source"):
        tw.jit(frontend="ast")(eval("lambda x: x"))
