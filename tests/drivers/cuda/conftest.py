"""The fake driver for all tests here: one library per process, forgotten calls and default answers for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_driver import FakeDriver

from tilewright.runtime.drivers.cpu.launcher import is_native
from tilewright.support import knobs


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    if not is_native():
        pytest.skip("there is no native launcher here")
    return FakeDriver(Path(tmp_path_factory.mktemp("driver")))


@pytest.fixture
def fake(library: FakeDriver) -> Iterator[FakeDriver]:
    """GPUs, as far as this process knows."""
    library.reset()
    with knobs.nvidia.scope():
        knobs.nvidia.libcuda_path = str(library.folder)
        yield library
    library.reset()
