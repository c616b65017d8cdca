"""After every pass a random program still does what it did before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_programs import MEMORY, RandomProgram
from small_interpreter import SmallInterpreter

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.transforms.pipeline import optimize_ttir

assert tilewright.dialects.__all__

INPUTS = ((0, 0), (1, -1), (5, 3), (-8, 40))


def outcome(module: Op) -> list[Any]:
    """What the program returns and leaves in memory, per input."""
    found: list[Any] = []
    for a, b in INPUTS:
        run = SmallInterpreter(np.arange(MEMORY, dtype=np.int32) * 3 - 40)
        returned = run.call(module, a, b, 0)
        found.append(([int(value) for value in returned], run.memory.tolist()))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_every_pass_keeps_the_meaning(seed: int) -> None:
    text = RandomProgram(seed).text
    module = parse_module(text)
    expected = outcome(module)

    def compare(name: str, changed: Op) -> None:
        assert outcome(changed) == expected, f"{name} changed the meaning of\n{text}\nto\n{print_op(changed)}"

    optimize_ttir(module, dump=compare)
