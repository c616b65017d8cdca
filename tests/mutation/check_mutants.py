"""The share of small mistakes in the package's own source that the tests notice.

    python tests/mutation/check_mutants.py
    --count 300 --seed 1       how many mutants are drawn, from all files
    --workers 2                how many are tried at once
    --seconds 40               of tests, by what they took when they were recorded, for one mutant
    --only backends/cpu        a part of the package
    --out mutants.json         the results

First the tests that are not slow run once and note which functions each of them runs. Then each mutant is put into a
copy of the package, and tests that run its function are started, the shortest first, until one fails. Where no test
runs the function in its own process, tests of others in the same file stand in for it. Mutants that no test notices are
printed: a test is missing, or the mutant does the same as the original.

This takes an hour or so: it is no part of `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import NamedTuple

from source_mutants import Mutant, mutants_of
from watched_functions import functions_run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "tilewright"
PATIENCE = 8
"""The time that the tests of a mutant may take, in times of what they took without it; a mutant may never end."""
LEAST_SECONDS = 60
"""The seconds that the tests of a mutant may take in any case."""
MAX_TESTS = 80
"""Max tests that are started for one mutant."""


class Outcome(NamedTuple):
    """The outcome of a mutant: the test that noticed it, or "", and the number of tests that had the chance."""

    mutant: Mutant
    noticed: str
    tests: int


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(options.record or f"{folder}/run")
        if not list(place.parent.glob(f"{place.name}.*.json")):
            _record(place, options.workers)
        tests = functions_run(place)
        chosen = drawn(Path(options.only), options.count, options.seed, tests)
        copies = SimpleQueue[Path]()
        for number in range(options.workers):
            copies.put(_copy(Path(folder) / f"copy{number}"))
        with ThreadPoolExecutor(options.workers) as pool:
            outcomes = []
            for outcome in pool.map(lambda mutant: _try(mutant, tests, copies, options.seconds), chosen):
                print(_line(outcome), flush=True)
                outcomes.append(outcome)
    _report(outcomes)
    if options.out:
        rows = [{**outcome._asdict(), "mutant": outcome.mutant._replace(text="")._asdict()} for outcome in outcomes]
        Path(options.out).write_text(json.dumps(rows, indent=1))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", default="", help="where what tests run is kept for the next time")
    parser.add_argument("--out", default="")
    return parser.parse_args()


def _record(place: Path, workers: int) -> None:
    """Run the tests that are not slow, and note what they run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "watched_functions", "-n", str(workers), "-m", "not slow"]
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT / 'src'}", "FUNCTIONS_RUN": str(place)}
    subprocess.run(command, cwd=ROOT, env=environment, check=False)


def drawn(part: Path, count: int, seed: int, tests: dict[str, dict[str, float]]) -> list[Mutant]:
    """Mutants drawn from all files under a part of the package, as far as tests run something of those files."""
    files = sorted((PACKAGE / part).rglob("*.py"))
    found = [mutant for file in files for mutant in mutants_of(file.read_text(), str(file.relative_to(PACKAGE)))]
    modules = {function.partition(":")[0] for function in tests}
    tried = [mutant for mutant in found if module_of(mutant) in modules]
    share = len(tried) / max(1, len(found))
    print(f"{len(found)} mutants, {share:.0%} of them in files that tests run in their own processes")
    return Random(seed).sample(tried, min(count, len(tried)))


def tests_of(mutant: Mutant, tests: dict[str, dict[str, float]]) -> dict[str, float]:
    """The tests that run a mutant's function, or else those that run another one of its file."""
    module = module_of(mutant)
    found = tests.get(f"{module}:{mutant.function}")
    if found is not None:
        return found
    others = (these for function, these in tests.items() if function.partition(":")[0] == module)
    return {test: seconds for these in others for test, seconds in these.items()}


def module_of(mutant: Mutant) -> str:
    """The module of a mutant."""
    return "tilewright." + mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _copy(folder: Path) -> Path:
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _try(mutant: Mutant, tests: dict[str, dict[str, float]], copies: SimpleQueue[Path], seconds: float) -> Outcome:
    """Put a mutant into a copy of the package, and start tests until one fails."""
    chosen = list(_affordable(tests_of(mutant, tests), seconds))
    copy = copies.get()
    file = copy / "tilewright" / mutant.path
    original = file.read_text()
    try:
        file.write_text(mutant.text)
        return Outcome(mutant, _first_failure(copy, chosen, seconds), len(chosen))
    finally:
        file.write_text(original)
        copies.put(copy)


def _affordable(tests: dict[str, float], seconds: float) -> Iterator[str]:
    """The shortest tests that take so many seconds together, at least one."""
    spent = 0.0
    for number, (test, cost) in enumerate(sorted(tests.items(), key=lambda item: item[1])):
        spent += cost
        if number == MAX_TESTS or (number and spent > seconds):
            return
        yield test


def _first_failure(copy: Path, tests: list[str], seconds: float) -> str:
    """The first test that fails with this copy of the package, "it does not end", or ""."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider", *tests]
    # Bytecode is kept by time and size, which a mutant may share with the file before it.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    limit = LEAST_SECONDS + PATIENCE * seconds
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "it does not end"
    if done.returncode == 0:
        return ""
    lines = (line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    return next(lines, f"pytest ends with {done.returncode}").partition(" - ")[0]


def _line(outcome: Outcome) -> str:
    mutant = outcome.mutant
    verdict = f"noticed by {outcome.noticed}" if outcome.noticed else f"NOT NOTICED by {outcome.tests} tests"
    return f"{mutant.path}:{mutant.line} {_short(mutant.original)} -> {_short(mutant.change)}: {verdict}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:67]}..."


def _report(outcomes: list[Outcome]) -> None:
    """The shares by folder, then the mutants that nobody noticed."""
    folders = Counter(outcome.mutant.path.partition("/")[0] for outcome in outcomes)
    noticed = Counter(outcome.mutant.path.partition("/")[0] for outcome in outcomes if outcome.noticed)
    print()
    for folder, count in sorted(folders.items()):
        print(f"{folder:16} {noticed[folder]:4} of {count:4}")
    total = sum(noticed.values())
    print(f"{'all':16} {total:4} of {len(outcomes):4}  {total / max(1, len(outcomes)):.1%}\n")
    for outcome in outcomes:
        if not outcome.noticed:
            print(_line(outcome))


if __name__ == "__main__":
    raise SystemExit(main())
