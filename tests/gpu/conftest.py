"""Tests of `bench/gpu`: its modules, the fake driver of tests/drivers, a bundle of kernels and launches."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "drivers" / "cuda"))
sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "gpu"))

from bundle import build
from fake_driver import FakeDriver

from tilewright.runtime.drivers.cpu.launcher import is_native

ANCHORS = "add1024_w4|softmax1024_w4|cos1024_w4|^layer_norm_fp16_[01]$"
PROGRAMS = ("vector_add", "tensor_maps", "clusters", "cooperative_launch", "early_return_17", "seed_12", "core.add_i8")
ONLY = f"{ANCHORS}|^({'|'.join(PROGRAMS)})$"


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for one architecture, with the PTX that the simulator needs."""
    folder = Path(tmp_path_factory.mktemp("bundle"))
    build(folder, (90,), only=ONLY, keeps_ptx=True)
    return folder


@pytest.fixture
def bundle_of_two(tmp_path: Path) -> Path:
    """A bundle for two architectures."""
    build(tmp_path, (80, 90), only=ONLY, keeps_ptx=True)
    return tmp_path


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    if not is_native():
        pytest.skip("there is no native launcher here, which the fake driver is made with")
    return FakeDriver(Path(tmp_path_factory.mktemp("driver")))


@pytest.fixture
def fake(library: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Two GPUs of capability 9.0 that run nothing."""
    library.reset()
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", str(library.folder))
    return library
