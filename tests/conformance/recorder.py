"""A pytest plugin that writes what becomes of every test to the file that CONFORMANCE_LOG names, as lines of JSON.

With CONFORMANCE_EVERY=8 every eighth test is run, with CONFORMANCE_SIMULATE=90 on a simulated GPU of that capability.
Tests that the file already knows are left out, so a run that crashed goes on after the test that crashed it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tilewright.runtime.devices import choose
from tilewright.runtime.drivers.simulated.gpu import simulated_gpu

LOG = Path(os.environ["CONFORMANCE_LOG"])
EVERY = int(os.environ.get("CONFORMANCE_EVERY", "1"))
CAPABILITY = int(os.environ.get("CONFORMANCE_SIMULATE") or "0")
LONGEST_MESSAGE = 400
NEUTRAL: set[str] = set()
"""The tests that Triton marks as needing no GPU."""


def pytest_configure() -> None:
    """Launches are for the simulated GPU, where one is asked for."""
    if CAPABILITY:
        choose(simulated_gpu(CAPABILITY))


@pytest.hookimpl(trylast=True)  # behind pytest -k
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every n-th test, without those that an earlier run began."""
    begun = {line["test"] for line in map(json.loads, LOG.read_text().splitlines())} if LOG.exists() else set()
    items[:] = [item for item in items[::EVERY] if item.nodeid not in begun]
    NEUTRAL.update(item.nodeid for item in items if item.get_closest_marker("interpreter"))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported counts as one failure."""
    if report.failed:
        note(report.nodeid, "failed", f"not collected: {last_line(report.longreprtext)}")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Whatever is begun and has no end made the process crash."""
    note(nodeid, "begun")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The outcome of a test; errors around it are failures."""
    if report.failed:
        note(report.nodeid, "failed", message_of(report))
    elif report.skipped:
        note(report.nodeid, "xfailed" if hasattr(report, "wasxfail") else "skipped", skip_reason(report))
    elif report.when == "call":
        note(report.nodeid, "passed")


def note(test: str, outcome: str, message: str = "") -> None:
    """Add a line to the file."""
    with LOG.open("a") as log:
        line = {"test": test, "outcome": outcome, "message": message[:LONGEST_MESSAGE], "neutral": test in NEUTRAL}
        log.write(json.dumps(line) + "\n")


def message_of(report: pytest.TestReport) -> str:
    """The line of a failure that says what happened."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash is not None else last_line(report.longreprtext)


def skip_reason(report: pytest.TestReport) -> str:
    """The reason why a test was skipped."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")


def last_line(text: str) -> str:
    """The last line with something in it."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
