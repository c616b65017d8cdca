"""Before and behind each pass from ttcir to vector loops `run_ir` leaves the same in memory: kernels that are drawn.

Each kernel is lowered for one of several processors, in turn. Some are run behind every pass that changed them, the
others behind the last one, and step by step only if that differs. `make test` draws 100, `make test-long` 1,000. The
kernels of the tests of passes are in `tests/cpu/test_passes.py`, the examples in
`tests/examples/test_lowered_examples.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from statements import program
from ways_to_run import Arguments, Ways, first_difference, front_end

from code_counts import counts_and_digest
from long_runs import first_of
from loop_passes import TARGETS, Arrays, Trial, check_all_passes, check_every_pass
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes
from tilewright.backends.llvm.machine import Target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.pass_manager import Pass, run_passes
from tilewright.ir.printer import print_op
from tilewright.transforms.pipeline import PASSES

KERNELS, BLOCKS, FAST = 1000, 100, 8
STEPWISE = 10
"""The number of kernels of which the middle one is run behind every pass: some take seconds each time."""


def drawn(seed: int, folder: Path) -> tuple[str, Trial]:
    """The loops over tiles of the kernel of a seed, for its processor, and its launch."""
    found = program(Random(seed), size=6)
    module = front_end(Ways(found, folder).kernel, Arguments(found).named(), "ast")
    run_passes(module, (*PASSES, *cpu_passes(TARGETS[seed % len(TARGETS)])))

    def run(module: Op) -> Arrays:
        arguments = Arguments(found)
        with np.errstate(all="ignore"):
            run_ir(module, arguments.named(), found.grid)
        return arguments.arrays

    return print_op(module), Trial(run, first_difference)


def check(seed: int, folder: Path) -> str:
    """How much code the kernel of a seed becomes, which computes what it did before the passes."""
    text, trial = drawn(seed, folder)
    target = TARGETS[seed % len(TARGETS)]
    if seed % STEPWISE == STEPWISE // 2:
        _, module = check_every_pass(text, target, trial)
    else:
        module = check_all_passes(text, target, trial)
    return f"{seed} {target.cpu}: {counts_and_digest(module, target)}\n"


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ((13, 14, 15, 177), "code_of_kernels.txt"),
        pytest.param(range(16, 13 + FAST), "code_of_more_kernels.txt", marks=pytest.mark.spared),
    ],
    ids=["few", "more"],
)
def test_loop_passes_on_some_kernels(
    seeds: Sequence[int], text: str, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """The kernel of seed 13 has buffers of different sizes at one place, one after the other.

    That of seed 177 has a quotient of which no number in front of the loop tells that it is one.
    """
    golden("".join(check(seed, tmp_path) for seed in seeds), f"fuzz/{text}")


@pytest.mark.slow
@pytest.mark.parametrize("block", first_of(BLOCKS, 10))
def test_loop_passes_on_a_thousand_kernels(block: int, tmp_path: Path) -> None:
    each = KERNELS // BLOCKS
    for seed in range(100 + block * each, 100 + (block + 1) * each):
        check(seed, tmp_path)


@pytest.mark.parametrize("check", [pytest.param(check_every_pass, marks=pytest.mark.spared), check_all_passes])
def test_a_loop_pass_that_changes_the_meaning_is_named(check: object, tmp_path: Path) -> None:
    """The first wrong pass is named, however many follow."""

    def forget_a_store(module: Op) -> None:
        next(op for op in module.walk() if op.name == "vector.store").erase()

    def passes(target: Target) -> list[Pass]:
        return [*loop_passes(target), Pass("forget_a_store", forget_a_store), *loop_passes(target)]

    text, trial = drawn(13, tmp_path)
    with pytest.raises(AssertionError, match="forget_a_store, for x86-64-v3"):
        check(text, TARGETS[1], Trial(trial.run, trial.differ, passes))
