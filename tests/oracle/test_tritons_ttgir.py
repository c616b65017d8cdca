"""Triton's TTGIR of our TTIR is read, keeps the rules and computes what the TTIR computes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.pipeline import optimize_ttir

sys.path.insert(0, str(Path(__file__).parents[1] / "transforms"))
from test_truth import KERNELS, MODULES

assert tilewright.dialects.__all__

TARGETS = ((80, 4, 3), (90, 4, 3), (90, 8, 2))


def theirs(text: str) -> list[str]:
    lines = "\n".join(json.dumps([text, *target, 1]) for target in TARGETS)
    script = str(Path(__file__).parent / "tritons_ttgir.py")
    command = [os.environ["TRITON_PYTHON"], script]
    done = subprocess.run(command, input=lines, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line)[0] for line in done.stdout.splitlines()]


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_tritons_ttgir_computes_what_our_ttir_computes(name: str) -> None:
    make_arguments, output, grid = KERNELS[name]
    module = optimize_ttir(parse_module((MODULES / f"{name}.ttir").read_text()))
    arguments = make_arguments()
    run_ir(module, arguments, grid)
    kernel = module.regions[0].block.first
    assert kernel is not None
    names = [parameter.name or "" for parameter in kernel.regions[0].block.args]
    for text in theirs(print_op(module, triton="3.9")):
        compiled = parse_module(text)
        verify(compiled)
        after = make_arguments()
        run_ir(compiled, [after[name] for name in names], grid)
        np.testing.assert_allclose(after[output], arguments[output], rtol=1e-3, atol=1e-5)
