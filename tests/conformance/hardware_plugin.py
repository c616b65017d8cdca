"""A plugin of pytest for Triton's tests on hardware: a share of them, the outcome of each as a line of JSON.

HARDWARE_LOG is the file of the lines, HARDWARE_SHARD which share (`3/16`), HARDWARE_END the time at which it ends.
Tests that the file already knows are left out. A failure behind which the GPU is of no more use ends the process.
"""

from __future__ import annotations

import inspect
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from missing_modules import FOR_AMD, bind_missing_modules

LOG = Path(os.environ["HARDWARE_LOG"])
NUMBER, JOBS = map(int, os.environ["HARDWARE_SHARD"].split("/"))
END = float(os.environ["HARDWARE_END"])
SPOILT = 7
"""The exit status of a process whose context a test has spoilt."""
LONGEST_MESSAGE = 1500


def note(test: str, outcome: str, message: str = "") -> None:
    """Add a line to the file."""
    with LOG.open("a") as log:
        log.write(json.dumps({"test": test, "outcome": outcome, "message": message}) + "\n")


def pytest_configure() -> None:
    bind_missing_modules()


def is_for_amd(item: Any) -> bool:
    """Whether a test is of AMD's GPUs alone."""
    code = getattr(inspect.unwrap(item.function), "__code__", None)
    return bool(FOR_AMD.search(item.name)) or (code is not None and "is_hip" in code.co_names[:1])


@pytest.hookimpl(trylast=True)  # behind pytest -k
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """This share, one case of each function before the second of any, without those that an earlier process began."""
    begun = {line["test"] for line in map(json.loads, LOG.read_text().splitlines())} if LOG.exists() else set()
    found = [item for item in items if not is_for_amd(item)]
    if not begun:
        note("", "collected", json.dumps(Counter(item.nodeid.partition("::")[0] for item in found)))
    ranks, order = Counter[str](), dict[str, tuple[int, int]]()
    for place, item in sorted(enumerate(found), key=lambda pair: crc32(pair[1].nodeid.encode())):
        function = item.nodeid.partition("[")[0]
        order[item.nodeid] = ranks[function], place  # tests of one case stay in the order of their file
        ranks[function] += 1
    found.sort(key=lambda item: order[item.nodeid])
    items[:] = [item for item in found[NUMBER::JOBS] if item.nodeid not in begun]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported counts as one failure."""
    if report.failed:
        note(report.nodeid, "failed", f"not collected: {report.longreprtext[-LONGEST_MESSAGE:]}")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Whatever is begun and has no end made the process crash, or hung."""
    if time.time() > END:
        pytest.exit("time is up", returncode=0)
    note(nodeid, "begun")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The outcome of a test; errors around it are failures."""
    if report.failed:
        note(report.nodeid, "failed", report.longreprtext[-LONGEST_MESSAGE:])
        _end_if_spoilt()
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
        note(report.nodeid, "xfailed" if hasattr(report, "wasxfail") else "skipped", reason)
    elif report.when == "call":
        note(report.nodeid, "passed")


def _end_if_spoilt() -> None:
    """A context that a fault has spoilt fails every later test: end without taking it down."""
    try:
        torch.cuda.synchronize()
    except Exception:  # noqa: BLE001 - torch's errors of the device are of several classes
        os._exit(SPOILT)
