"""Fixtures of all tests: golden files, and a disk cache of their own.

    def test_it(golden): golden(text_of_the_module, "combine/add.ttir")

compares with `tests/goldens/combine/add.ttir`; `pytest --update-goldens` writes the files anew.

A test that needs a library or a program that `.[test]` does not install has a marker and skips without it:
`optional_peers.py`.

Which tests and cases `make check` runs: `check_cases.py`.

NVIDIA's assembler is that of the Triton that TRITON_PYTHON names, if nobody says otherwise. It gets all kernels with
`--peers`; without, those of tests that need it, also where it is installed.

Every pass is verified in the folders of `VERIFYING`; elsewhere stages are at their ends, which takes a twentieth less.

Each run (each worker process of one) keeps compiled kernels in a new folder, so no test sees what an earlier run left
and none writes to the user's cache. Processes that tests start inherit the folder.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

import check_cases
import long_runs
import optional_peers
import remembered_code
import skips
from tilewright.backends.nvidia import backend as nvidia
from tilewright.backends.nvidia.tools import find_ptxas
from tilewright.backends.registry import make_backend

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "kernels"))
GOLDENS = HERE / "goldens"
GARBAGE = 10_000
"""New objects after which Python looks for cycles, instead of 700, which takes up to a twentieth of a test's time."""
VERIFYING = ("cpu", "examples", "nvidia", "transforms")
"""Folders in whose tests the IR is verified after every pass."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write tests/goldens anew instead of comparing")
    parser.addoption("--kernels", type=int, default=0, metavar="5000", help="tests/fuzz: draw so many kernels")
    parser.addoption("--share", default="", metavar="3/10", help="run every tenth of the tests, from the fourth on")
    parser.addoption("--peers", action="store_true", help="run only tests that use what .[test] does not install")
    parser.addoption("--strict-skips", action="store_true", help="fail for skips that tests/skips.toml lacks")
    parser.addoption("--first-cases", action="store_true", help="tests/oracle: run one of the chosen cases of a test")
    parser.addoption("--gpu", default="", metavar="90", help="tests/oracle: run kernels on such a simulated GPU")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # what is collected stays: see `pytest_collection_finish`
    remembered_code.begin(config)
    for marker, (_, reason) in optional_peers.PEERS.items():
        config.addinivalue_line("markers", f"{marker}: skips with {reason!r} where that is so")
    folder = tempfile.mkdtemp(prefix="tilewright-tests-", dir=_memory())
    os.environ["TRITON_CACHE_DIR"] = folder
    os.environ["TILEWRIGHT_VERIFY_PASSES"] = "1"
    ptxas = _ptxas_of_the_oracle()
    if ptxas:
        os.environ.setdefault("TRITON_PTXAS_PATH", str(ptxas))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    if config.getoption("--strict-skips"):
        skips.watch(config)
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(ReportsOfWorkers())


class ReportsOfWorkers:
    """The messages of a worker process to the one that prints: how each test ended, in one message instead of five.

    Each of 13,000 tests would take a millisecond more. Phases that fail, skip or take long are reported as well.
    """

    LONG = 0.05
    """Seconds from which on a set-up or a teardown is worth a message: `--durations` shows it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.duration > self.LONG:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


@pytest.hookimpl(tryfirst=True)  # before `-m` is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    check_cases.mark_cases(items)
    if config.getoption("--peers"):
        config.hook.pytest_deselected(items=[item for item in items if not optional_peers.gains(item)])
        items[:] = filter(optional_peers.gains, items)
    items[:], others = long_runs.share_of(items, config.getoption("--share"))
    config.hook.pytest_deselected(items=others)
    for item in items:
        reason = next(filter(None, map(optional_peers.missing, optional_peers.needed_by(item))), "")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    os.environ["TILEWRIGHT_VERIFY_PASSES"] = "1" if _folder(item.path) in VERIFYING else "0"
    finder = find_ptxas if optional_peers.has_kernels_assembled(item) else optional_peers.ptxas_of_knobs
    if nvidia.find_ptxas is not finder:
        nvidia.find_ptxas = finder
        make_backend.cache_clear()  # a back end keeps the assembler that it found


@cache
def _folder(path: Path) -> str:
    """The folder of tests that has a file; "" where it is another one's."""
    return path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Notes the random numbers of all modules before the first test draws some.

    Takes what modules and tests hold out of every later look for garbage: up to a fifth of the time of a test.
    """
    for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
        generators_of(module)
    gc.freeze()
    gc.set_threshold(GARBAGE, 10, 10)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Nobody looks for garbage in what ends with the process: pytest would five times, for seconds each."""
    gc.freeze()


@pytest.fixture(params=["numpy", pytest.param("torch", marks=pytest.mark.needs_torch)])
def to_array(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Any]:
    """Turns a NumPy array into an argument of a kernel: itself, or a torch tensor of the same memory."""
    return np.asarray if request.param == "numpy" else importlib.import_module("torch").from_numpy


@pytest.fixture
def small_heap() -> None:
    """Collections in the test do not look through what other tests have left, which takes a second each.

    That stays so: `gc.unfreeze` would put back all modules and tests, too, for every collection from then on.
    """
    gc.freeze()


def _ptxas_of_the_oracle() -> Path | None:
    """NVIDIA's assembler out of the wheel of Triton that TRITON_PYTHON names, if it does."""
    python = os.environ.get("TRITON_PYTHON")
    wheels = Path(python).parents[1].glob("lib/python3*/site-packages/triton") if python else ()
    return next((wheel / "backends/nvidia/bin/ptxas" for wheel in wheels), None)


def _memory() -> Path | None:
    """A folder in memory with room for all kernels of a run, if there is one: writing to disk takes 2 ms per kernel."""
    folder = Path("/dev/shm")
    if not (hasattr(os, "statvfs") and os.access(folder, os.W_OK)):
        return None
    facts = os.statvfs(folder)
    has_room = facts.f_bavail * facts.f_frsize > 2**30
    return folder if has_room and not facts.f_flag & os.ST_NOEXEC else None


settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")  # `--hypothesis-profile default` draws other examples each time


@cache
def generators_of(module: ModuleType) -> list[tuple[Any, Any]]:
    """The random numbers that a module draws from, each with the state before its first test."""
    found: list[tuple[Any, Any]] = []
    for value in vars(module).values():
        if isinstance(value, np.random.Generator):
            found.append((value, value.bit_generator.state))
        elif isinstance(value, Random):
            found.append((value, value.getstate()))
    return found


@pytest.fixture(autouse=True)
def same_numbers_whatever_ran_before(request: pytest.FixtureRequest) -> None:
    """Random data of a test depend neither on `-k` nor on what else its worker runs."""
    for generator, state in generators_of(request.module):
        if isinstance(generator, Random):
            generator.setstate(state)
        else:
            generator.bit_generator.state = state
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """A function `golden(text, name)` that fails unless `text` equals the golden file `name`."""
    update = request.config.getoption("--update-goldens")

    def compare(text: str, name: str) -> None:
        path = GOLDENS / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        if not path.exists():
            pytest.fail(f"no golden {path}: run pytest --update-goldens and read what it writes", pytrace=False)
        expected = path.read_text()
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "now", lineterm="")
            pytest.fail("\n".join(lines), pytrace=False)

    return compare
