"""`triton.runtime.driver` and targets on a machine without a GPU."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import GPUTarget
from tilewright.backends.registry import make_backend
from tilewright.compat.bindings import ASTSource
from tilewright.compat.driver import CpuDriver, CudaDriver, DriverConfig, driver, max_shared_mem
from tilewright.compat.internal_testing import (
    is_ampere_or_newer,
    is_blackwell,
    is_blackwell_ultra,
    is_cuda,
    is_hopper,
    is_hopper_or_newer,
    is_rubin,
    is_sm12x,
    supports_clc,
)
from tilewright.support import knobs


@tw.jit
def counted(out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, i + n)


class Elsewhere(CpuDriver):
    """A driver that another package brings along."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


def test_another_driver_is_what_programs_see_until_it_is_reset() -> None:
    shown = DriverConfig()
    usual = shown.active
    assert usual is shown.default

    shown.set_active(Elsewhere())

    assert shown.active.get_current_target().backend == "cuda"
    out = np.zeros(4, np.int32)
    counted[(1,)](out, 3, BLOCK=4)  # where its arguments are, whatever programs see
    assert out.tolist() == [3, 4, 5, 6]
    shown.reset_active()
    assert shown.active is usual


def test_kernels_are_compiled_for_a_cpu_that_is_named(tmp_path: Path) -> None:
    source = ASTSource(counted, {"out": "*i32", "n": "i32", "BLOCK": "constexpr"}, constexprs={"BLOCK": 4})
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        for warp in (0, 1):
            kernel = tw.compile(source, target=GPUTarget("cpu", platform.machine(), warp))
            assert kernel.metadata.target.backend == "cpu"
            assert "tt.func" in kernel.asm["ttir"]


def test_memory_of_tiles_is_that_of_the_active_driver() -> None:
    assert max_shared_mem(0) == CpuDriver().utils.get_device_properties()["max_shared_mem"]
    assert driver.active.get_current_target().backend in ("cpu", "cuda")


@pytest.mark.parametrize("arch", ["", "0"])
def test_what_others_call_this_cpu_is_what_is_compiled_for(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's target has no name."""
    monkeypatch.setenv("TILEWRIGHT_CPU", "x86-64-v2")
    assert driver.active.get_current_target() == GPUTarget("cpu", "x86-64-v2", 1)
    assert make_backend(GPUTarget("cpu", arch, 32)).hash() == make_backend(GPUTarget("cpu", "x86-64-v2", 0)).hash()
    assert make_backend(GPUTarget("cpu", "neoverse-n1", 0)).hash() != make_backend(GPUTarget("cpu", arch, 32)).hash()


@pytest.mark.skipif(CudaDriver.is_active(), reason="this machine has a GPU, which answers for itself")
def test_a_simulated_gpu_answers_as_one() -> None:
    assert not is_cuda()
    assert driver.active.get_device_capability() == (0, 0)
    with tw.simulate("cuda:90"):
        assert driver.active.get_current_target() == GPUTarget("cuda", 90, 32)
        assert driver.active.get_device_capability() == (9, 0)
        assert [is_cuda(), is_ampere_or_newer(), is_hopper(), is_blackwell()] == [True, True, True, False]
    with tw.simulate("cuda:103"):
        assert [is_hopper(), is_hopper_or_newer(), is_blackwell(), is_blackwell_ultra()] == [False, True, True, True]
    for capability, twelve, steals in ((90, False, False), (110, False, True), (120, True, True), (121, True, True)):
        with tw.simulate(f"cuda:{capability}"):
            assert (is_sm12x(), supports_clc(), is_rubin()) == (twelve, steals, False)
