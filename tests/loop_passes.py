"""Checks that the passes from ttcir to vector loops keep what a kernel computes, as `run_ir` executes it.

    check_every_pass(text, target, Trial(run, differ))      behind every pass that changed the module
    check_all_passes(text, target, Trial(run, differ))      behind the last one; step by step only if that differs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import Pass
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

TARGETS = [host_target(cpu) for cpu in ("x86-64-v2", "x86-64-v3", "znver4", "neoverse-v1")]

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Trial:
    """A launch of a kernel.

    Attributes:
        run: runs a module on arguments that are made for it; gives its arrays afterwards.
        differ: the first place where two results differ; "" where they do not.
        passes: the passes for a target.
    """

    run: Callable[[Op], Arrays]
    differ: Callable[[Arrays, Arrays], str]
    passes: Callable[[Target], Sequence[Pass]] = loop_passes


def check_every_pass(text: str, target: Target, trial: Trial) -> tuple[set[str], Op]:
    """Behind each pass the text (ttcir) computes what it did before; returns those that changed it, and the loops."""
    module, seen = parse_module(text), set[str]()
    expected = trial.run(module)
    for name in _changing(module, trial.passes(target)):
        difference = trial.differ(expected, trial.run(module))
        assert not difference, f"{name}, for {target.cpu}: {difference}\n{print_op(module)}"
        seen.add(name)
    return seen, module


def check_all_passes(text: str, target: Target, trial: Trial) -> Op:
    """The loops that the passes make of the text (ttcir), which computes what it did before.

    If it does not, the first wrong pass is named.
    """
    module = parse_module(text)
    expected = trial.run(module)
    for step in trial.passes(target):
        step.function(module)
    verify(module)
    difference = trial.differ(expected, trial.run(module))
    if difference:
        check_every_pass(text, target, trial)
        pytest.fail(f"all passes together, for {target.cpu}: {difference}\n{print_op(module)}")
    return module


def _changing(module: Op, passes: Sequence[Pass]) -> Iterator[str]:
    """The names of the passes that change `module`, each once it has."""
    before = print_op(module, names=False)
    for step in passes:
        says = step.function(module)
        after = print_op(module, names=False)
        if after != before:
            assert says is not False, f"{step.name} says that nothing changed"
            verify(module)
            yield step.name
        before = after


def rounded_difference(expected: Arrays, found: Arrays) -> str:
    """The first array that differs by more than what another order of additions may make."""
    for name, array in expected.items():
        tolerance = 0.0 if array.dtype.kind in "biu" else 2e-2 if array.dtype.itemsize < 4 else 2e-5
        wanted, other = array.astype(np.float64), found[name].astype(np.float64)
        if not np.allclose(other, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"{name} differs by {np.nanmax(np.abs(other - wanted))}"
    return ""
