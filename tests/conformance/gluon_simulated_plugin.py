"""A plugin of pytest for Triton's tests of Gluon that launch kernels: they run on a simulated GPU.

GLUON_SIMULATE is the compute capability, GLUON_UNINITIALIZED what reads of what nothing has stored are (`report`, or
`nan` as under Triton's sanitizer), GLUON_CASES how many cases of each function run (evenly drawn), GLUON_SECONDS
how long one may take, GLUON_LOG the file that gets a line of JSON for each case. Tensors for `cuda` are made on the
CPU, torch says that there is such a GPU, and what Triton runs in a process of its own runs here. A report of the
simulator stands for what Triton's sanitizer prints and for the failure of the device behind it.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton._internal_testing as internal
from missing_modules import FOR_AMD, bind_missing_modules
from tutorial_parts import AskedForCuda

from tilewright import CompilationError, SimulationError
from tilewright.backends.nvidia.targets import find
from tilewright.runtime.devices import choose
from tilewright.runtime.drivers.simulated.gpu import simulated_gpu
from tilewright.runtime.jit import JITFunction
from tilewright.support.diagnostics import OutOfResources
from tilewright.transforms.gpu.barrier_layouts import WrongBarrier

CAPABILITY = int(os.environ["GLUON_SIMULATE"])
UNINITIALIZED: Any = os.environ.get("GLUON_UNINITIALIZED", "report")
CASES = int(os.environ.get("GLUON_CASES", "4"))
SECONDS = int(os.environ.get("GLUON_SECONDS", "60"))
LOG = Path(os.environ["GLUON_LOG"])
LONGEST_MESSAGE = 2000
WARMUP = JITFunction.warmup
SMALLER = {"test_mma_scaled_tcgen05_copy": {"M": 512, "N": 512, "K": 512}}
"""Extents of tests that are too long for a simulator, and smaller ones; docs/conformance-gluon.md says so."""
DEVICE_FAILED = "device-side assert: "
"""Words in the message of every failure of the device."""


class Report(str):
    """The output of the sanitizer: it contains every message if the simulator had one, else none."""

    __slots__ = ()

    def __contains__(self, _message: object) -> bool:
        return bool(len(self))


def run_here(function: Callable[..., Any], arguments: Any = (), keywords: Any = None, **_options: Any) -> Any:
    """Triton's `run_in_process` without a process: the error, and what the sanitizer would have printed."""
    try:
        function(*arguments, **(keywords or {}))
    except SimulationError as error:
        failure = RuntimeError(f"{DEVICE_FAILED}{error}")
        return types.SimpleNamespace(exc=failure, driver_stderr_output=Report(str(error)))
    except Exception as error:  # noqa: BLE001 - the test says what it expects
        return types.SimpleNamespace(exc=error, driver_stderr_output=Report(""))
    return types.SimpleNamespace(exc=None, driver_stderr_output=Report(""))


class OnTheCpu(AskedForCuda):
    """All tensors are made on the CPU, whatever names the GPU: a string, a device, a number."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = tuple("cpu" if str(value).startswith("cuda") else value for value in args)
        if options.get("device") is not None:
            options["device"] = "cpu"
        return super().__torch_function__(func, types, args, options)


class Properties:
    """The properties of a GPU that tests ask for."""

    multi_processor_count = 4
    shared_memory_per_block_optin = find(CAPABILITY).shared_limit


def warmed_up(kernel: Any, *arguments: Any, **options: Any) -> Any:
    """`warmup` that prints what a pass refuses, and raises what Triton raises then."""
    try:
        return WARMUP(kernel, *arguments, **options)
    except CompilationError as error:
        if not isinstance(error.diagnostic, WrongBarrier):
            raise
        sys.stderr.write(str(error))
        raise RuntimeError("PassManager::run failed") from error


def pytest_configure() -> None:
    """One simulated GPU, of which torch knows."""
    choose(simulated_gpu(CAPABILITY, uninitialized=UNINITIALIZED))
    bind_missing_modules()
    internal.run_in_process = run_here
    JITFunction.warmup = warmed_up
    torch.cuda.get_device_capability = lambda *_: divmod(CAPABILITY, 10)
    torch.cuda.get_device_properties = lambda *_: Properties()
    torch.cuda.synchronize = lambda *_: None


@pytest.fixture
def device() -> str:
    """Where tensors are made."""
    return "cpu"


@pytest.fixture
def fresh_knobs() -> Iterator[Any]:
    """Triton's knobs, put back afterwards."""
    fresh, reset = internal._fresh_knobs_impl()
    yield fresh()
    reset()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out what is for AMD's GPUs, and all but some cases of each function."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        own = inspect.unwrap(item.function)
        if not FOR_AMD.search(item.name) and "is_hip" not in own.__code__.co_names[:1]:
            groups[item.originalname].append(item)
    chosen = []
    for group in groups.values():
        count = min(CASES, len(group))
        chosen += [group[(2 * i + 1) * len(group) // (2 * count)] for i in range(count)]
    for item in chosen:
        if hasattr(item, "callspec"):
            item.callspec.params.update(SMALLER.get(item.originalname, {}))
    items[:] = chosen


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Generator[None, Any]:
    """Tensors for `cuda` are on the CPU, time is limited, and a device with too little shared memory runs no case."""

    def stop(*_arguments: Any) -> None:
        pytest.fail(f"has not ended in {SECONDS} s", pytrace=False)

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with OnTheCpu():
            outcome = yield
    finally:
        signal.alarm(0)
    if outcome.excinfo is not None and issubclass(outcome.excinfo[0], OutOfResources):
        outcome.force_exception(pytest.skip.Exception(str(outcome.excinfo[1])))


def pytest_runtest_logreport(report: Any) -> None:
    """A line for each case."""
    if report.when != "call" and report.passed:
        return
    outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.skipped and isinstance(report.longrepr, tuple):
        message = str(report.longrepr[2])
    else:
        message = crash.message if crash else str(report.longrepr or "")[-LONGEST_MESSAGE:]
    line = {"test": report.nodeid.partition("::")[2], "outcome": outcome, "message": message[:LONGEST_MESSAGE]}
    line["seconds"] = round(report.duration, 1)
    with LOG.open("a") as log:
        log.write(json.dumps(line) + "\n")
