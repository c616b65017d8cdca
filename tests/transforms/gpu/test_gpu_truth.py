"""From TTIR to TTGIR a program still does what it did before: random programs, and kernels.

What it does is compared as in test_truth.py: after every pass for some of them, at the end for many.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_programs import RandomProgram
from test_truth import KERNELS, Dump, Steps, check_end, check_every_step

import tilewright.dialects
from long_runs import first_of
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.transforms.gpu.pipeline import CAPABILITIES, TtgirOptions, ttgir_passes
from tilewright.transforms.pipeline import optimize_ttir

assert tilewright.dialects.__all__

MODULES = Path(__file__).parents[1] / "modules"


def steps_for(capability: int) -> Steps:
    def steps(module: Op, dump: Dump | None) -> None:
        run_passes(optimize_ttir(module), ttgir_passes(TtgirOptions(capability)), dump=dump)

    return steps


@pytest.mark.parametrize("seed", range(10))
def test_random_programs(seed: int) -> None:
    check_every_step(RandomProgram(seed).text, steps_for(90))


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("seed", first_of(60, 34)[10:])
def test_more_random_programs(seed: int, capability: int) -> None:
    check_end(RandomProgram(seed).text, steps_for(capability))


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, capability: int) -> None:
    arguments, output, grid = KERNELS[name]
    module = optimize_ttir(parse_module((MODULES / f"{name}.ttir").read_text()))
    before: dict[str, Any] = arguments()
    run_ir(module, before, grid)

    run_passes(module, ttgir_passes(TtgirOptions(capability)))
    after: dict[str, Any] = arguments()
    run_ir(module, after, grid)

    np.testing.assert_allclose(after[output], before[output], rtol=1e-3, atol=1e-3)
