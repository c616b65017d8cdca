"""Kernels of tuples and aggregates that are drawn at random give the same as machine code, TTIR and Python."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from structures import drawn
from ways_to_run import front_end, module_of

from long_runs import first_of
from machine_levels import compiled_for, cpu_of
from tilewright.interpreter.run_ir import run_ir
from tilewright.runtime.interpreted import InterpretedFunction

FAST, BLOCKS, EACH = 8, 40, 25


def arguments(seed: int, places: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    kinds = {"tile": np.int32, "scalar": np.int32, "real": np.float32, "single": np.float32, "wide": np.int64}
    return {
        "x": rng.integers(-9, 9, 16).astype(np.int32),
        "y": np.array([1.5], np.float32),
        **{f"o_{name}": np.zeros(places + 1, kind) for name, kind in kinds.items()},
        "n": int(rng.choice([1, 3, -5, 2, 0, 7])),
        "C": int(rng.choice([1, 2, 3])),
    }


def check(seed: int, folder: Path) -> None:
    program = drawn(Random(seed))
    kernel = module_of(program.text, folder).kernel
    native, ttir, eager = (arguments(seed, program.places) for _ in range(3))
    with compiled_for(cpu_of(seed)):
        kernel[(1,)](**native)
    with np.errstate(all="ignore"):
        run_ir(front_end(kernel, ttir, "ast"), ttir, (1,))
        InterpretedFunction(kernel.fn)[(1,)](**eager)
    for name, found in native.items():
        for way, other in (("TTIR", ttir), ("Python", eager)):
            assert np.array_equal(found, other[name]), f"seed {seed}, {name}, {way}:\n{program.text}"


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, FAST), marks=pytest.mark.spared)], ids=str)
def test_some_structures(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", first_of(BLOCKS, 1))
def test_many_structures(block: int, tmp_path: Path) -> None:
    for seed in range(FAST + block * EACH, FAST + (block + 1) * EACH):
        check(seed, tmp_path)
