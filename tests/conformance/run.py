"""Triton's own tests on Tilewright: a part of `docs/conformance.md` is what this prints.

    python tests/conformance/run.py ~/triton.git --jobs 2                      # all of reasons.toml, into the page
    python tests/conformance/run.py ~/triton/python/test runtime/test_jit.py   # one file, to the terminal
    python tests/conformance/run.py ~/triton.git --kept results.json runtime/test_jit.py    # one, into the page

The first argument is a repository of Triton, whose commits reasons.toml names, or a folder `python/test`; nothing of it
is in this repository. It needs what those tests need: pytest, torch, scipy, expecttest. Each file runs through
`tilewright run -m pytest`, on its own and with an empty cache; a test that ends the process counts as failed, and the
file goes on behind it. `reasons.toml` says why a test fails or is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path
from typing import Any

from tilewright.support.progress import Progress

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "conformance.md"
NEXT_HEADINGS = ("\n# Triton's library of mixed products\n", "\n# Triton's tutorials\n", "\n# Triton's lit tests\n")
"""The mark at which this program's part ends: what follows is written by others."""
MAX_CRASHES = 20
ERRORS_OF_PYTEST = (2, 3, 4, 5)
"""Exit statuses that no test is the cause of."""
FOLDER = ""
"""The name of the tree where a folder was given instead of a repository."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test: `passed`, `failed`, `skipped` or `xfailed`, and its text.

    `neutral` says that Triton marks it as one that needs no GPU (its mark `interpreter`).
    """

    name: str
    outcome: str
    message: str
    neutral: bool = False

    @property
    def function(self) -> str:
        """The test without its parameters."""
        return self.name.partition("[")[0]


@dataclass(frozen=True)
class Run:
    """The outcomes of the tests of one file, and the seconds they took."""

    tests: Sequence[Outcome]
    seconds: float = 0.0


Found = dict[tuple[str, str], Run]
"""The results by tree and file."""

ON_GPU = " on sm_"
"""Stands behind the name of a file that runs on a simulated GPU, in front of its capability."""


def file_of(name: str) -> str:
    """The file that a row of the page is about."""
    return name.partition(ON_GPU)[0]


def main() -> int:
    """Run the files and write the page, or print the failures of the files that were named."""
    options = parsed_arguments()
    plan = tomllib.loads((HERE / "reasons.toml").read_text())
    found = kept_results(options.kept)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool, ExitStack() as stack:
        trees = unpacked(options.triton.resolve(), plan["trees"], Path(folder))
        chosen = [(tree, name) for name in options.files or plan["files"] for tree in trees]
        chosen = [(tree, name) for tree, name in chosen if (trees[tree] / "unit" / file_of(name)).exists()]
        runs = pool.map(lambda key: run(trees[key[0]], *key, options, plan), chosen)
        progress = stack.enter_context(Progress("running files", len(chosen)))
        for number, ((tree, name), done) in enumerate(zip(chosen, runs, strict=True), 1):
            found[tree, name] = done
            progress.write(f"{tree} {name}: {summary(done.tests)} in {done.seconds:.0f} s")
            progress.at(number)
            if options.files:
                for test in done.tests:
                    if test.outcome == "failed":
                        progress.write(f"  {test.name}: {test.message}")
            keep_results(options.kept, found)
    if FOLDER not in trees and (options.kept or not options.files):
        write_part(page(in_order(found, plan), plan))
    return 0


def parsed_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Triton's own tests on Tilewright")
    parser.add_argument("triton", type=Path, help="a repository of Triton, or the folder python/test of a checkout")
    parser.add_argument("files", nargs="*", help="files below its folder `unit`; without them, those of reasons.toml")
    parser.add_argument("--kept", type=Path, help="results of earlier runs, for the files that are not run now")
    parser.add_argument("--jobs", type=int, default=1, help="files that run at the same time")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one file")
    parser.add_argument("--every", type=int, default=0, help="every n-th test; 0: as reasons.toml says")
    parser.add_argument("--simulate", type=int, default=0, metavar="90", help="on a simulated GPU of this capability")
    parser.add_argument("-k", dest="only", default="", help="only tests that match, as pytest -k")
    return parser.parse_intermixed_args()


def unpacked(
    triton: Path, commits: Mapping[str, str], folder: Path, part: str = "python/test", beside: Sequence[str] = ()
) -> dict[str, Path]:
    """A folder of Triton in every tree, by the tree's name.

    Args:
        triton: a repository, or `python/test`.
        commits: the commit of each tree, for a repository.
        folder: where they are unpacked.
        part: which folder.
        beside: what is unpacked with it, where it is in the repository.
    """
    if (triton / "unit").is_dir():
        return {FOLDER: triton}
    for name, commit in commits.items():
        command = ["git", "-C", str(triton), "archive", commit, part, *beside]
        archive = subprocess.run(command, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder / name, filter="data")
    return {name: folder / name / part for name in commits}


def run(folder: Path, tree: str, name: str, options: argparse.Namespace, plan: dict[str, Any]) -> Run:
    """Run one file as the command line and reasons.toml say."""
    every = options.every or (1 if options.only else plan["every"].get(name, 1))
    only, marks = (plan[kind].get(f"{tree} {name}") or plan[kind].get(name, "") for kind in ("only", "marks"))
    capability = options.simulate or int(name.partition(ON_GPU)[2] or "0")
    choice = Choice(options.only or only, every, capability, marks)
    began = time.monotonic()
    tests = list(outcomes(folder, file_of(name), options.timeout, choice))
    return Run(tests, time.monotonic() - began)


def kept_results(path: Path | None) -> Found:
    """The results in a file that `--kept` named earlier."""
    if path is None or not path.exists():
        return {}
    lines = json.loads(path.read_text())
    return {(tree, name): Run([Outcome(*test) for test in tests], seconds) for tree, name, seconds, tests in lines}


def keep_results(path: Path | None, found: Found) -> None:
    """Write that file."""
    if path is not None:
        lines = [[*key, run.seconds, [astuple(test) for test in run.tests]] for key, run in found.items()]
        path.write_text(json.dumps(lines))


def in_order(found: Found, plan: dict[str, Any]) -> Found:
    """The results that belong on the page, in the order of reasons.toml."""
    keys = [(tree, name) for name in plan["files"] for tree in plan["trees"]]
    return {key: found[key] for key in keys if key in found}


def write_part(text: str) -> None:
    """Put `text` into the page in place of this program's part."""
    old = PAGE.read_text()
    ends = [old.index(heading) for heading in NEXT_HEADINGS if heading in old]
    PAGE.write_text(text + old[min(ends, default=len(old)) :])


@dataclass(frozen=True)
class Choice:
    """The tests of a file that are run: those that match `only` as pytest -k has it, and of them every n-th.

    `simulate` is the capability of the simulated GPU that they run on; 0: on this CPU. `marks` is what pytest -m gets.
    """

    only: str
    every: int
    simulate: int = 0
    marks: str = ""


def outcomes(tree: Path, name: str, timeout: float, choice: Choice) -> Iterator[Outcome]:
    """Run one file, again after every crash."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        for _ in range(MAX_CRASHES):
            status = run_file(tree, name, log, timeout, choice)
            if status is not None and (status in (0, 1) or status in ERRORS_OF_PYTEST):
                break
        latest = {line["test"]: line for line in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    for test, line in latest.items():
        crashed = line["outcome"] == "begun"
        message = "the process ended, or took too long" if crashed else line["message"]
        short = test.partition("::")[2] or "(the file)"
        yield Outcome(short, "failed" if crashed else line["outcome"], message, line["neutral"])


def run_file(tree: Path, name: str, log: Path, timeout: float, choice: Choice) -> int | None:
    """Run what is left of a file; None when it took too long."""
    command = [sys.executable, "-m", "tilewright", "run", "-m", "pytest", "-q", "-p", "recorder"]
    command += ["-p", "no:cacheprovider", "--device", "cpu", "--tb=short"]
    command += [*(["-k", choice.only] if choice.only else []), *(["-m", choice.marks] if choice.marks else [])]
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as cache:
        variables = os.environ | {"PYTHONPATH": path, "CONFORMANCE_LOG": str(log), "TRITON_CACHE_DIR": cache}
        variables["CONFORMANCE_EVERY"] = str(choice.every)
        variables["CONFORMANCE_SIMULATE"] = str(choice.simulate)
        try:
            done = subprocess.run(
                [*command, f"unit/{name}"],
                cwd=tree,
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


COLUMNS = ("passed", "failed", "skipped", "xfailed")


def page(found: Found, plan: dict[str, Any]) -> str:
    """This program's part of the page: what passes, what fails and why, and what is not run."""
    lines = ["# Triton's own tests", "", plan["introduction"].strip(), ""]
    for tree, commit in plan["trees"].items():
        runs = {name: run for (of, name), run in found.items() if of == tree and run.tests}
        lines += [f"## {tree} ({commit})", "", *table(runs, plan), ""]
    lines += ["## What fails", "", "| test | " + " | ".join(plan["trees"]) + " | reason |"]
    lines += ["|---|" + "---:|" * len(plan["trees"]) + "---|", *failures(found, plan)]
    lines += ["", "## What is not run", "", "| file | reason |", "|---|---|"]
    lines += [f"| {name} | {reason} |" for name, reason in sorted(plan["left_out"].items())]
    return "\n".join(lines) + "\n"


def table(runs: Mapping[str, Run], plan: dict[str, Any]) -> Iterator[str]:
    """The files of one tree, and their sums: of all tests, and of those that need no GPU."""
    yield "| file | passed | failed | skipped | expected to fail | seconds |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, run in runs.items():
        every = plan["every"].get(name, 1)
        yield row(name + (f", one case in {every}" if every > 1 else ""), run.tests, run.seconds)
    on_cpu = [run for name, run in runs.items() if ON_GPU not in name]
    tests = [test for run in on_cpu for test in run.tests]
    yield row("all on the CPU", tests, sum(run.seconds for run in on_cpu))
    neutral = [test for test in tests if test.neutral]
    counts = Counter(test.outcome for test in neutral)
    yield row("those with the mark `interpreter`", neutral)
    yield ""
    decided = counts["passed"] + counts["failed"]
    share = 100 * counts["passed"] / decided if decided else 0.0
    yield f"Of the tests with the mark `interpreter` that were not skipped, {share:.2f} % pass."


def row(name: str, tests: Iterable[Outcome], seconds: float | None = None) -> str:
    """One line of the table of files."""
    counts = Counter(test.outcome for test in tests)
    time_taken = "" if seconds is None else f"{seconds:.0f}"
    return f"| {name} | " + " | ".join(str(counts[kind]) for kind in COLUMNS) + f" | {time_taken} |"


def failures(found: Found, plan: dict[str, Any]) -> Iterator[str]:
    """One line per test function and reason, with the number of cases in every tree."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for (tree, file), run in found.items():
        for test in run.tests:
            if test.outcome == "failed":
                key = f"{file}::{test.function}", reason_for(file_of(file), test, plan["reasons"])
                counts.setdefault(key, Counter())[tree] += 1
    for (function, reason), in_tree in counts.items():
        yield f"| {function} | " + " | ".join(str(in_tree[tree]) for tree in plan["trees"]) + f" | {reason} |"


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
