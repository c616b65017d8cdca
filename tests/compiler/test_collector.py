"""Nothing searches for garbage while a kernel is compiled; afterwards everything is as it was."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.ir.core import Op
from tilewright.support.collector import resting


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with resting():
            assert not gc.isenabled()
            with resting():
                pass
            assert not gc.isenabled(), "the outer one still compiles"
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_objects_grow_old_only_where_modules_were_imported() -> None:
    """Most of what a compilation leaves is garbage, and the next search should find it."""
    program = """
import gc, sys
from tilewright.support.collector import resting
def generation(made):
    return next(number for number in range(3) if any(thing is made for thing in gc.get_objects(generation=number)))
with resting():
    made = [[]]
assert generation(made) == 0
with resting():
    made = [[]]
    sys.modules["a_module_that_was_imported"] = gc
assert generation(made) == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_it_works_again_after_a_mistake() -> None:
    @tw.jit
    def wrong(x_ptr):
        tl.store(x_ptr, unknown)  # noqa: F821 - unknown on purpose

    with pytest.raises(tw.CompilationError):
        wrong.warmup(np.zeros(1, np.float32), grid=(1,))
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_searches() -> None:
    with resting():
        child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not gc.isenabled()


@pytest.mark.usefixtures("small_heap")
def test_a_compilation_leaves_it_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops refer to one another in circles; those of a module are taken apart, and only replaced ones remain."""

    @tw.jit
    def scaled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        row = tl.load(x_ptr + columns, columns < n, 0.0)
        tl.store(y_ptr + columns, row / tl.sum(row), columns < n)

    x = np.ones(64, np.float32)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    scaled.warmup(x, x, 64, BLOCK=64, grid=(1,))  # what is made only once
    gc.collect()
    gc.disable()
    try:
        kernel = scaled.warmup(x, x, 60, BLOCK=64, grid=(1,))
        left = sum(isinstance(thing, Op) for thing in gc.get_objects(generation=0))
    finally:
        gc.enable()
    assert kernel.asm["loops"].count("\n") > 60
    assert left < 40  # of the tile level, and the loops that `unroll_and_jam` has replaced
