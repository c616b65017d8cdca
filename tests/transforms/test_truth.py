"""After every pass a program still does what it did before: random programs, and kernels on random data.

What a program does is compared after every pass for some of them, and at the end for many; a program that differs there
goes through them once more, to say which pass it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_programs import MEMORY, RandomProgram

import tilewright.dialects
from long_runs import first_of
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import Pass, run_passes
from tilewright.ir.printer import print_op
from tilewright.transforms.licm import licm_with_loads
from tilewright.transforms.pipeline import PASSES, device_passes

assert tilewright.dialects.__all__

INPUTS = ((0, 0), (1, -1), (5, 3), (-8, 40))
MODULES = Path(__file__).parent / "modules"


def outcome(module: Op) -> list[Any]:
    """The memory that the program leaves, per input."""
    found: list[Any] = []
    for a, b in INPUTS:
        memory = np.arange(MEMORY, dtype=np.int32) * 3 - 40
        run_ir(module, {"a": a, "b": b, "m": memory})
        found.append(memory.tolist())
    return found


LISTS = {"cpu": PASSES, "device": (*device_passes(80), Pass("licm_with_loads", licm_with_loads))}


Dump = Callable[[str, Op], None]
Steps = Callable[[Op, Dump | None], object]
"""Changes a module in place, step by step."""


def check_every_step(text: str, steps: Steps) -> None:
    """After every step a program leaves in memory what it left before the first."""
    module = parse_module(text)
    expected = outcome(module)

    def compare(name: str, changed: Op) -> None:
        assert outcome(changed) == expected, f"{name} changed the meaning of\n{text}\nto\n{print_op(changed)}"

    steps(module, compare)


def check_end(text: str, steps: Steps) -> None:
    """After all steps a program leaves in memory what it left before the first."""
    module = parse_module(text)
    expected = outcome(module)
    steps(module, None)
    if outcome(module) != expected:
        check_every_step(text, steps)
        pytest.fail(f"together, the steps changed the meaning of\n{text}\nto\n{print_op(module)}")


def steps_of(passes: Sequence[Pass]) -> Steps:
    return lambda module, dump: run_passes(module, passes, dump=dump)


@pytest.mark.parametrize("seed", range(20))
def test_no_pass_hides_a_change(seed: int) -> None:
    """A module is verified only behind passes that say that they changed it."""
    module = parse_module(RandomProgram(seed).text)
    for step in LISTS["cpu" if seed % 2 else "device"]:
        before = print_op(module)
        if step.function(module) is False:
            assert print_op(module) == before, step.name


@pytest.mark.parametrize("seed", range(60))
def test_every_pass_keeps_the_meaning(seed: int) -> None:
    check_every_step(RandomProgram(seed).text, steps_of(LISTS["cpu" if seed % 3 else "device"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("block", first_of(10, 1))
def test_all_passes_on_a_thousand_programs(block: int, name: str) -> None:
    for seed in range(100 * (block + 1), 100 * (block + 2)):
        check_end(RandomProgram(seed).text, steps_of(LISTS[name]))


@pytest.mark.parametrize("check", [check_every_step, check_end])
def test_a_pass_that_changes_the_meaning_is_named(check: Callable[[str, Steps], None]) -> None:
    """The first one, however many follow."""

    def forget_a_store(module: Op) -> None:
        next(op for op in module.walk() if op.name == "tt.store").erase()

    passes = (*PASSES, Pass("forget_a_store", forget_a_store), *PASSES)
    texts = (RandomProgram(seed).text for seed in range(100))
    with pytest.raises(AssertionError, match="forget_a_store changed the meaning"):
        check(next(text for text in texts if "tt.store" in text), steps_of(passes))


def normal(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def matmul_arguments() -> dict[str, Any]:
    sizes = {"M": 80, "N": 96, "K": 48, "stride_am": 48, "stride_bk": 96, "stride_cm": 96}
    return {"a_ptr": normal(80, 48), "b_ptr": normal(48, 96), "c_ptr": np.zeros((80, 96), np.float32), **sizes}


def softmax_arguments() -> dict[str, Any]:
    sizes = {"x_stride": 700, "out_stride": 700, "n_rows": 3, "n_cols": 700}
    return {"out_ptr": np.zeros((3, 700), np.float16), "x_ptr": normal(3, 700, dtype="float16"), **sizes}


def attention_arguments() -> dict[str, Any]:
    tensors = {name: normal(1, 1024, 64, dtype="float16") for name in ("Q", "K", "V")}
    strides = {"stride_qz": 1024 * 64, "stride_qh": 1024 * 64, "stride_qm": 64}
    return {**tensors, "Out": np.zeros((1, 1024, 64), np.float16), "sm_scale": 0.125, "H": 1, **strides}


KERNELS = {
    "matmul": (matmul_arguments, "c_ptr", (1,)),
    "softmax": (softmax_arguments, "out_ptr", (2,)),
    "flash_attention": (attention_arguments, "Out", (2, 1)),
}


@pytest.mark.parametrize("passes", [PASSES, pytest.param(device_passes(80), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compute_the_same(name: str, passes: Sequence[Pass]) -> None:
    arguments, output, grid = KERNELS[name]
    module = parse_module((MODULES / f"{name}.ttir").read_text())
    before, after = arguments(), arguments()
    run_ir(module, before, grid)
    run_passes(module, passes)
    run_ir(module, after, grid)
    assert before[output].any()
    np.testing.assert_allclose(after[output], before[output], rtol=1e-3, atol=1e-5)
