"""Nothing searches for garbage while a kernel is compiled; afterwards everything is as it was."""

import gc
import os

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compiler.compile import resting


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


def test_it_works_again_after_a_mistake() -> None:
    @tw.jit
    def wrong(x_ptr):
        tl.store(x_ptr, unknown)  # noqa: F821

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
