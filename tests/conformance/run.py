"""Triton's own tests on Tilewright: `docs/conformance.md` is what this prints.

    python tests/conformance/run.py ~/triton/python/test                       # all of reasons.toml, into the page
    python tests/conformance/run.py ~/triton/python/test runtime/test_jit.py   # one, to the terminal
    python tests/conformance/run.py ~/triton/python/test --kept results.json runtime/test_jit.py    # one, into the page

The first argument is the folder `python/test` of a checkout of Triton; nothing of it is in this repository. It needs
what those tests need: pytest, torch, scipy, expecttest. Each file runs through `tilewright run -m pytest`, on its own
and with an empty cache; a test that ends the process counts as failed, and the file goes on behind it. `reasons.toml`
says why a test fails or is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
LIT_HEADING = "\n# Triton's lit tests\n"
MAX_CRASHES = 20
ERRORS_OF_PYTEST = (2, 3, 4, 5)
"""Exit statuses that no test is the cause of."""


@dataclass(frozen=True)
class Outcome:
    """What became of one test: `passed`, `failed`, `skipped` or `xfailed`, and what it said."""

    name: str
    outcome: str
    message: str

    @property
    def function(self) -> str:
        """The test without its parameters."""
        return self.name.partition("[")[0]


def main() -> int:
    """Run the files and print the page, or the failures of the files that were named."""
    parser = argparse.ArgumentParser(description="Triton's own tests on Tilewright")
    parser.add_argument("checkout", type=Path, help="the folder python/test of a checkout of Triton")
    parser.add_argument("files", nargs="*", help="files below its folder `unit`; without them, those of reasons.toml")
    parser.add_argument("--kept", type=Path, help="results of earlier runs, for the files that are not run now")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one file")
    parser.add_argument("--every", type=int, default=0, help="every n-th test; 0: as reasons.toml says")
    parser.add_argument("--simulate", type=int, default=0, metavar="90", help="on a simulated GPU of this capability")
    parser.add_argument("-k", dest="only", default="", help="only tests that match, as pytest -k")
    options = parser.parse_intermixed_args()
    plan = tomllib.loads((HERE / "reasons.toml").read_text())
    found = kept_results(options.kept)
    for name in options.files or plan["files"]:
        every = options.every or (1 if options.only else plan["every"].get(name, 1))
        choice = Choice(options.only or plan["only"].get(name, ""), every, options.simulate)
        found[name] = list(outcomes(options.checkout.resolve(), name, options.timeout, choice))
        print(f"{name}: {summary(found[name])}", flush=True)
        if options.files:
            print(*(f"  {test.name}: {test.message}" for test in found[name] if test.outcome == "failed"), sep="\n")
        if options.kept:
            lines = {name: [astuple(test) for test in tests] for name, tests in found.items()}
            options.kept.write_text(json.dumps(lines))
    if options.kept or not options.files:
        _, heading, rest = PAGE.read_text().partition(LIT_HEADING)  # what lit.py wrote
        PAGE.write_text(page({name: found[name] for name in plan["files"] if name in found}, plan) + heading + rest)
    return 0


def kept_results(path: Path | None) -> dict[str, list[Outcome]]:
    """The results in a file that `--kept` named earlier, by test file."""
    if path is None or not path.exists():
        return {}
    return {name: [Outcome(*test) for test in tests] for name, tests in json.loads(path.read_text()).items()}


@dataclass(frozen=True)
class Choice:
    """Which tests of a file are run: those that match `only` as pytest -k has it, and of them every n-th.

    `simulate` is the capability of the simulated GPU that they run on; 0: on this CPU.
    """

    only: str
    every: int
    simulate: int = 0


def outcomes(checkout: Path, name: str, timeout: float, choice: Choice) -> Iterator[Outcome]:
    """Run one file, again after every crash."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        for _ in range(MAX_CRASHES):
            status = run_file(checkout, name, log, timeout, choice)
            if status is not None and (status in (0, 1) or status in ERRORS_OF_PYTEST):
                break
        latest = {line["test"]: line for line in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    for test, line in latest.items():
        crashed = line["outcome"] == "begun"
        message = "the process ended, or took too long" if crashed else line["message"]
        short = test.partition("::")[2] or "(the file)"
        yield Outcome(short, "failed" if crashed else line["outcome"], message)


def run_file(checkout: Path, name: str, log: Path, timeout: float, choice: Choice) -> int | None:
    """Run what is left of a file; None when it took too long."""
    command = [sys.executable, "-m", "tilewright", "run", "-m", "pytest", "-q", "-p", "recorder"]
    command += [
        "-p",
        "no:cacheprovider",
        "--device",
        "cpu",
        "--tb=short",
        *(["-k", choice.only] if choice.only else []),
    ]
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as cache:
        variables = os.environ | {"PYTHONPATH": path, "CONFORMANCE_LOG": str(log), "TRITON_CACHE_DIR": cache}
        variables["CONFORMANCE_EVERY"] = str(choice.every)
        variables["CONFORMANCE_SIMULATE"] = str(choice.simulate)
        try:
            done = subprocess.run(
                [*command, f"unit/{name}"],
                cwd=checkout,
                env=variables,
                timeout=timeout,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    if done.returncode in ERRORS_OF_PYTEST and not log.exists():
        print(done.stdout.decode()[-2000:], done.stderr.decode()[-2000:], file=sys.stderr)
    return done.returncode


def summary(tests: Iterable[Outcome]) -> str:
    """Numbers in one line."""
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(Counter(t.outcome for t in tests).items()))


def page(found: dict[str, list[Outcome]], plan: dict[str, Any]) -> str:
    """The page: a table of files, then the failures with their reasons, what is not run, and the tutorials."""
    lines = ["# Triton's own tests", "", plan["introduction"].strip(), ""]
    lines += ["| file | passed | failed | skipped | expected to fail |", "|---|---:|---:|---:|---:|"]
    totals: Counter[str] = Counter()
    for name, tests in found.items():
        counts = Counter(test.outcome for test in tests)
        totals += counts
        every = plan["every"].get(name, 1)
        lines.append(row(name + (f", one case in {every}" if every > 1 else ""), counts))
    lines += [row("all", totals), "", "## What fails", "", "| test | cases | reason |", "|---|---:|---|"]
    lines += [line for name, tests in found.items() for line in failures(name, tests, plan["reasons"])]
    lines += ["", "## What is not run", "", "| file | reason |", "|---|---|"]
    lines += [f"| {name} | {reason} |" for name, reason in sorted(plan["left_out"].items())]
    lines += [
        "",
        "## Tutorials",
        "",
        plan["tutorials"].pop("introduction"),
        "",
        "| tutorial | what happens |",
        "|---|---|",
    ]
    lines += [f"| {name} | {result} |" for name, result in plan["tutorials"].items()]
    return "\n".join(lines) + "\n"


def row(name: str, counts: Counter[str]) -> str:
    """One line of the table of files."""
    return f"| {name} | " + " | ".join(str(counts[kind]) for kind in ("passed", "failed", "skipped", "xfailed")) + " |"


def failures(file: str, tests: Sequence[Outcome], reasons: dict[str, str]) -> Iterator[str]:
    """One line per test function that fails."""
    failed = [test for test in tests if test.outcome == "failed"]
    for (function, reason), count in Counter((t.function, reason_for(file, t, reasons)) for t in failed).items():
        yield f"| {file}::{function} | {count} | {reason} |"


def reason_for(file: str, test: Outcome, reasons: dict[str, str]) -> str:
    """The reason that the table gives, or else what the test said."""
    said = f"{file}::{test.name}: {test.message}"
    for pattern, reason in reasons.items():
        if fnmatch(said, pattern):
            return reason
    first_line = test.message.strip().partition("\n")[0].replace("|", "\\|")
    return f"not explained yet: {first_line[:160]}"


if __name__ == "__main__":
    sys.exit(main())
