"""Behind each pass from ttcir to vector loops every launch of the examples computes what it did before, in `run_ir`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from small_cases import CASES

import tilewright as tw
from long_runs import LONG
from loop_passes import Arrays, Trial, check_every_pass, rounded_difference
from tilewright.backends.llvm.machine import host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op

FAST = ("softmax", "vector_add")

Launch = tuple[str, dict[str, Any], tuple[int, ...]]
"""The loops over tiles of a kernel, its arguments by name as they were before the launch, and the grid."""


def launches_of(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """All launches of a small problem of an example, which are done, too."""
    found: list[Launch] = []
    get = tw.JITFunction.__getitem__

    def recording(kernel: Any, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> Any:
            parameters = inspect.signature(kernel.fn)
            own = {name: value for name, value in kwargs.items() if name in parameters.parameters}
            bound = parameters.bind(*args, **own)
            bound.apply_defaults()
            before = {name: _copied(value) for name, value in bound.arguments.items()}
            compiled = get(kernel, grid)(*args, **kwargs)
            found.append((compiled.asm["ttcir"], before, grid(before) if callable(grid) else grid))
            return compiled

        return launch

    monkeypatch.setattr(tw.JITFunction, "__getitem__", recording)
    CASES[name](num_threads=1)
    return found


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def run(arguments: dict[str, Any], grid: tuple[int, ...], module: Op) -> Arrays:
    """The arrays among the arguments behind a launch of `module` with copies of them."""
    given = {name: _copied(value) for name, value in arguments.items()}
    run_ir(module, given, grid)
    return {name: value for name, value in given.items() if isinstance(value, np.ndarray)}


def marked(name: str) -> Any:
    """A name, with the marks that say how long it takes."""
    marks = LONG if name in ("batched_gemm", "flash_attention", "matmul") else () if name in FAST else pytest.mark.slow
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name) for name in CASES])
def test_every_loop_pass_keeps_what_an_example_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = launches_of(name, monkeypatch)
    assert launches
    for text, arguments, grid in launches:
        seen, _ = check_every_pass(text, host_target(), Trial(partial(run, arguments, grid), rounded_difference))
        assert "lower_nests" in seen
