"""Tracing gives what source gives, as far as Python's control flow goes; and control flow as functions, everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import traced
from evaluating import parameter, run_time
from test_evaluate import KERNELS
from traced import MISTAKES, endless, flow, python_all_over, scaled

import tilewright as tw
import tilewright.language as tl
from tilewright.frontends import EvaluateOptions, from_trace
from tilewright.frontends.choice import make_ttir
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.support.diagnostics import CompilationError
from tilewright.transforms.pipeline import optimize_ttir

BRANCHES_AT_RUN_TIME = {
    "carried_object",
    "carried_tuple",
    "collatz",
    "constant_parameter_changes",
    "constant_parameter_stays",
    "count_down",
    "early_return",
    "early_return_in_helper",
    "elif_chain",
    "hinted_while",
    "hints",
    "matmul",
    "merged",
    "nested",
    "only_side_effects",
    "perhaps_returned",
    "softmax",
    "sum_rows",
    "swapped",
    "ternary",
    "two_early_returns",
    "wide_counter",
}
"""Kernels whose Python control flow depends on values at run time."""
DIFFERENT = {"logic", "call_stays"}
"""`and` and `or` on run-time values; calls that stay calls."""


def ttir(kernel: Any, frontend: str, values: dict[str, Any]) -> str:
    """The text after the pipeline, without the names of values."""
    parameters = [parameter(name, value) for name, value in values.items()]
    python = getattr(kernel, "fn", kernel)
    options = EvaluateOptions()
    module = make_ttir(python, parameters, name=python.__name__, options=options, frontend=frontend)
    verify(module)
    optimize_ttir(module)
    for value in values_of(module):
        value.name = None
    return print_op(module)


def values_of(module: Op) -> Iterator[Any]:
    for op in module.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


@pytest.mark.quick
@pytest.mark.parametrize(("kernel", "values"), KERNELS, ids=lambda value: getattr(value, "__name__", ""))
def test_kernels_trace_alike_or_say_why_not(kernel: Any, values: dict[str, Any]) -> None:
    if kernel.__name__ in BRANCHES_AT_RUN_TIME | DIFFERENT:
        if kernel.__name__ in BRANCHES_AT_RUN_TIME:
            with pytest.raises(CompilationError, match=r"only known when the kernel runs"):
                ttir(kernel, "trace", values)
        return
    assert ttir(kernel, "trace", values) == ttir(kernel, "ast", values)


def expected(n: int) -> list[int]:
    small = n
    while small > 1:
        small //= 2
    chosen = n * 3 + 1 if n > 3 else 7
    return [10 + sum(range(n)), small, chosen, n * 3 + 1, n + 5, n + n + 2]


KINDS: dict[str, dict[str, Any]] = {
    **{name: {"frontend": name} for name in ("ast", "bytecode", "trace")},
    "interpreter": {"interpret": True},
}


def test_control_flow_as_functions_reads_alike() -> None:
    values = {"out": run_time("*i32"), "n": run_time("i32")}
    texts = {ttir(flow, frontend, values) for frontend in ("ast", "bytecode", "trace")}
    assert len(texts) == 1


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 2, 9])
def test_control_flow_as_functions(kind: str, n: int) -> None:
    out = np.zeros(6, np.int32)
    tw.jit(**KINDS[kind])(flow)[(1,)](out, n)
    assert out.tolist() == expected(n)


def test_python_runs_while_tracing() -> None:
    x = np.arange(8, dtype=np.int32)
    first = second = x * 8
    for i in range(3):
        first, second = second, first + i
    tw.jit(frontend="trace")(python_all_over)[(1,)](x, 3, N=2)
    assert x.tolist() == (first + second).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_of_every_kind(kind: str) -> None:
    def kernel(x, n, /, m, *rest, k, N: tl.constexpr = 3):
        tl.store(x, n * 100 + m * 10 + k + len(rest) + N)

    x = np.zeros(1, np.int32)
    tw.jit(**KINDS[kind])(kernel)[(1,)](x, 2, 3, k=4)
    assert x[0] == 237


def test_a_trace_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(x, n):
        while True:
            n += 1

    monkeypatch.setattr(from_trace, "MAX_VALUES", 100)
    with pytest.raises(CompilationError, match=r"(?s)does not come to an end.*n \+= 1.*100 values"):
        tw.jit(frontend="trace")(kernel).warmup(np.zeros(1, np.int32), 7, grid=(1,))


def test_a_trace_of_stores_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(x):
        while True:
            tl.store(x, 1)

    monkeypatch.setattr(from_trace, "MAX_VALUES", 100)
    with pytest.raises(CompilationError, match="does not come to an end"):
        tw.jit(frontend="trace")(kernel).warmup(np.zeros(1, np.int32), grid=(1,))


def test_keywords_reach_functions_that_are_called() -> None:
    @tw.jit(frontend="trace")
    def kernel(x, n):
        tl.store(x, scaled(n, by=5))

    x = np.zeros(1, np.int32)
    kernel[(1,)](x, 6)
    assert x[0] == 30


def test_mistakes(golden: Callable[[str, str], None]) -> None:
    texts = []
    for kernel in MISTAKES:
        with pytest.raises(CompilationError) as caught:
            tw.jit(frontend="trace")(kernel).warmup(np.zeros(1, np.int32), 7, grid=(1,))
        text = str(caught.value).replace(f"{Path(traced.__file__).parent}/", "")
        texts.append(f"{kernel.__name__}\n{text if kernel is not endless else text.splitlines()[0]}\n")
    golden("\n".join(texts), "frontends/trace_mistakes.txt")


def test_values_of_another_trace() -> None:
    kept: list[Any] = []

    def first_ever(value: Any) -> Any:
        kept.append(value)
        return kept[0]

    class Keeper:
        keep = staticmethod(first_ever)

    def keeping(x, n):
        tl.store(x, Keeper.keep(n * 2))

    kernel = tw.jit(frontend="trace")(keeping)
    x = np.zeros(1, np.int32)
    kernel[(1,)](x, 7)
    assert x[0] == 14
    with pytest.raises(CompilationError, match="value of another trace"):
        kernel[(1,)](x, 2**40)
