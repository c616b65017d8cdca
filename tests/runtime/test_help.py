"""The answers of Python to people who ask: signatures, help, `repr`, completion."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def add(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 16):
    """Add one."""
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, lanes < n) + 1, lanes < n)


@tw.autotune([tw.Config({"BLOCK": 16}), tw.Config({"BLOCK": 32}, num_warps=8)], key=["n"])
@tw.jit
def tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Copy."""
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, lanes < n), lanes < n)


@tw.heuristics({"BLOCK": lambda _: 16})
@tw.jit
def chosen(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), n)


interpreted = tw.jit(interpret=True)(add.fn)
PUBLIC = [
    (module, name)
    for module in (tw, tl, tw.testing, tw.cuda)
    for name in dir(module)
    if not name.startswith("_") and callable(getattr(module, name))
]
OF_PYTHON = {"slice"}
"""Functions that the language takes from Python, which has no signature of them."""


def grid_of(meta: Any) -> tuple[int]:
    return (meta["n"],)


def text_of_grids() -> dict[str, Any]:
    return {
        "add[(4,)]": add[(4,)],
        "add[grid_of]": add[grid_of],
        "tuned[(1, 2)]": tuned[1, 2],
        "chosen[grid_of]": chosen[grid_of],
        "add[5]": interpreted[5],
    }


@pytest.mark.parametrize("launched", [False, True])
def test_a_kernel_on_a_grid_says_what_it_is(launched: bool) -> None:
    if launched:
        add[(1,)](np.zeros(4, np.int32), np.zeros(4, np.int32), 4)
    for text, bound in text_of_grids().items():
        assert repr(bound) == text
        assert next(iter(inspect.signature(bound).parameters)) == "x_ptr"


def test_kernels_and_what_wraps_them() -> None:
    assert repr(add).endswith("test_help:add)")
    assert repr(tuned).startswith("Autotuner(")
    assert repr(chosen).startswith("Heuristics(")
    assert repr(tuned.configs[1]) == "Config(BLOCK: 32, num_warps: 8, num_ctas: 1, num_stages: 3)"
    for kernel in (add, tuned, interpreted):
        assert list(inspect.signature(kernel).parameters) == ["x_ptr", "out_ptr", "n", "BLOCK"]
    assert inspect.getdoc(tuned) == "Copy."
    with pytest.raises(RuntimeError, match=r"tuned\[grid\]\(\.\.\.\)"):
        tuned(1)


def test_smaller_things() -> None:
    kernel = add.warmup(np.zeros(4, np.int32), np.zeros(4, np.int32), 4, grid=(1,))
    assert repr(kernel).startswith("CompiledKernel(add, ")
    assert repr(tw.MockTensor(tl.float32, [2, 3])) == "MockTensor(fp32, shape=[2, 3])"
    assert repr(tl.static_range(1, 7, 2)) == "static_range(1, 7, 2)"
    assert repr(tl.range(7)) == "range(0, 7, 1)"
    assert "spin_seconds=60" in repr(tw.knobs.tilewright)
    with tw.simulate("cuda:90") as gpu:
        assert repr(gpu) == "<the simulated cuda:90>"


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value))
def test_everything_public_says_what_it_takes_and_does(module: Any, name: str) -> None:
    value = getattr(module, name)
    assert inspect.getdoc(value), "it has no documentation"
    is_plain_error = isinstance(value, type) and issubclass(value, Exception) and "__init__" not in vars(value)
    if name not in OF_PYTHON and not is_plain_error:
        inspect.signature(value)


def test_decorators_name_their_options() -> None:
    options = set(inspect.signature(tw.jit).parameters)
    assert {"interpret", "debug", "do_not_specialize", "frontend", "sanitize", "noinline", "repr"} <= options
    assert "do_not_specialize" in pydoc.render_doc(tw.jit)
    with pytest.raises(TypeError, match="unexpected keyword argument 'debugg'"):
        tw.jit(debugg=True)


def test_completion_shows_what_is_public() -> None:
    names = {name for name in dir(tw) if not name.startswith("_")}
    assert names == {*tw.__all__, "cuda", "testing"}
    code = "import tilewright as tw; print(tw.testing.do_bench.__name__, tw.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"do_bench {tw.__version__}\n"


def test_the_command_says_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "tilewright", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tilewright {tw.__version__}\n"
