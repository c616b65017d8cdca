"""After every pass from TTIR to TTGIR a program still does what it did before: random programs, and kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_programs import RandomProgram
from test_truth import KERNELS, outcome

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.transforms.gpu.pipeline import CAPABILITIES, TtgirOptions, optimize_ttgir
from tilewright.transforms.pipeline import optimize_ttir

assert tilewright.dialects.__all__

MODULES = Path(__file__).parents[1] / "modules"


def check_random(seed: int, capability: int) -> None:
    text = RandomProgram(seed).text
    module = optimize_ttir(parse_module(text))
    expected = outcome(module)

    def compare(name: str, changed: Op) -> None:
        assert outcome(changed) == expected, f"{name} changed the meaning of\n{text}\nto\n{print_op(changed)}"

    optimize_ttgir(module, TtgirOptions(capability), dump=compare)


@pytest.mark.parametrize("seed", range(10))
def test_random_programs(seed: int) -> None:
    check_random(seed, 90)


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("seed", range(10, 60))
def test_more_random_programs(seed: int, capability: int) -> None:
    check_random(seed, capability)


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, capability: int) -> None:
    arguments, output, grid = KERNELS[name]
    module = optimize_ttir(parse_module((MODULES / f"{name}.ttir").read_text()))
    before: dict[str, Any] = arguments()
    run_ir(module, before, grid)

    def compare(step: str, changed: Op) -> None:
        after: dict[str, Any] = arguments()
        run_ir(changed, after, grid)
        np.testing.assert_allclose(after[output], before[output], rtol=1e-3, atol=1e-3, err_msg=step)

    optimize_ttgir(module, TtgirOptions(capability), dump=compare)
