"""`pytest --strict-skips`: the run fails where a test skips for a reason that nothing explains.

What explains a skip is an entry of `skips.toml`, or the marker of a peer that is not installed (`optional_peers.py`);
a run of the tests that need peers (`--peers`) is there to have them, so there only the file does. An entry under
`always` for which no test skips is reported as well, after a run of all tests.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import optional_peers

LIST = Path(__file__).with_name("skips.toml")
REASONS = {reason: marker for marker, (_, reason) in optional_peers.PEERS.items()}


def entries() -> dict[str, dict[str, str]]:
    """The reasons (patterns) of tests that skip, with what explains them, by table of the file."""
    return tomllib.loads(LIST.read_text())


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


@dataclass(eq=False)  # plugins are hashed
class Skips:
    """The tests skipped in one run.

    Attributes:
        listed: the tables of `skips.toml`.
        with_peers: is this a run in which no peer may be missing?
        whole: were all tests asked for, so that each entry under `always` has to be met?
        found: by reason, the first test that gave it.
        unmarked: tests that skip for want of a peer and lack its marker: a run of `--peers` would leave them out.
    """

    listed: Mapping[str, Mapping[str, str]]
    with_peers: bool = False
    whole: bool = False
    found: dict[str, str] = field(default_factory=dict)
    unmarked: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.note(report, report.keywords)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # a module, through `optional_peers.module`: test_skips.py sees to its marker
            self.note(report, REASONS.values())

    def note(self, report: pytest.TestReport | pytest.CollectReport, markers: Iterable[str]) -> None:
        reason = reason_of(report)
        self.found.setdefault(reason, report.nodeid)
        if reason in REASONS and REASONS[reason] not in markers:
            self.unmarked.append(report.nodeid)

    def complaints(self) -> list[str]:
        patterns = [pattern for table in self.listed.values() for pattern in table]
        explained = set() if self.with_peers else set(REASONS)
        return [
            *(
                f"{test} skips for a reason that {LIST.name} does not list: {reason}"
                for reason, test in self.found.items()
                if reason not in explained and not any(fnmatchcase(reason, pattern) for pattern in patterns)
            ),
            *(f"{test} skips for want of a peer and lacks its marker" for test in self.unmarked),
            *(
                f"{LIST.name} lists a reason for which no test skips: {pattern}"
                for pattern in self.listed["always"]
                if self.whole and not any(fnmatchcase(reason, pattern) for reason in self.found)
            ),
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.complaints() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)  # behind the durations: an excerpt of the end of a log shows it
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        complaints = self.complaints()
        if complaints:
            terminalreporter.section("skips that nothing explains", red=True)
            terminalreporter.write_line("\n".join(complaints))


def watch(config: pytest.Config) -> None:
    """Have this run fail for skips that nothing explains; with workers, their controller sees to it."""
    if not hasattr(config, "workerinput"):
        options = config.option
        chosen = options.keyword or options.markexpr or options.file_or_dir or options.peers
        config.pluginmanager.register(Skips(entries(), options.peers, whole=not chosen))
