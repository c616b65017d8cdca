"""The share of small mistakes in the package's own source that the tests notice.

    python tests/mutation/check_mutants.py
    --count 300 --seed 1       how many mutants are drawn, from all files
    --workers 2                how many are tried at once
    --seconds 40               of quick tests, by what they took when they were recorded, for one mutant
    --late-seconds 240         of tests for one that those do not notice
    --only backends/cpu        a part of the package
    --marks "not slow"         tests that are started, as for `pytest -m`; blocks that only others run are listed first
    --record folder/run        where what tests run is kept for the next time: one that was stopped goes on, too
    --out mutants.jsonl        the outcomes: a run that was stopped goes on where it was
    --again                    tries those again that nobody noticed

First the tests of `make test` run once and note which blocks of functions each of them runs. Then each mutant is put
into a copy of the package, and tests that run its block are started, the shortest first, until one fails that passes
without the mutant. Then come longer tests, and those of the folder, which may run it in other processes
(`mutant_tests.py`). A test that takes far more of the processor's time than it did fails, too (`endless_tests.py`).

Mutants that no test notices are printed: a test is missing, or the mutant does the same as the original; then it goes
into `equivalent.toml` with the reason, and counts no more.

This takes hours: it is no part of `make test`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue
from random import Random
from signal import SIGKILL
from subprocess import DEVNULL, PIPE

import pytest
from endless_tests import ENDED
from forked_trials import ENDLESS, UNKNOWN, Forks
from mutant_outcomes import Outcome, Outcomes, equivalent_mutants, mutant_of
from mutant_tests import Costs, late_tests, module_of, quick_tests
from source_mutants import Key, Mutant, mutants_of
from watched_blocks import ANY, blocks_run

Start = Callable[[Mutant, str, Path, list[str]], str]
"""Starts tests with a mutant of a text in a copy of the package, and says which fails."""
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "tilewright"
PATIENCE = 8
"""The time that the tests of a mutant may take, in times of what they took without it: they may wait for ever."""
FEW = 10
"""Max tests of a block in a new process, if no fork notices a mutant of it; with fewer there are late ones, too."""
MIN_SECONDS = 120
"""The seconds that the tests of a mutant may take in any case."""
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider")


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        place = Path(options.record or f"{folder}/run")
        if not Path(f"{place}.complete").exists():
            _record(place, options.workers)
        outcomes = Outcomes(Path(options.out or f"{folder}/outcomes"))
        tests = blocks_run(place)
        for key in () if outcomes.by_key else drawn(Path(options.only), options.count, options.seed, tests):
            outcomes.add(Outcome(key))
        with closing(_Trials(Path(folder), tests, options)) as trials:
            _try_all(outcomes, trials, again=options.again)
    _report(list(outcomes.by_key.values()))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--late-seconds", type=float, default=240)
    parser.add_argument("--only", default="")
    parser.add_argument("--marks", default="")
    parser.add_argument("--record", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--again", action="store_true")
    return parser.parse_args()


def _record(place: Path, workers: int) -> None:
    """Run the tests of `make test`, those that are not noted yet, and note what they run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "watched_blocks", "-n", str(workers)]
    environment = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{ROOT / 'src'}", "BLOCKS_RUN": str(place)}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != pytest.ExitCode.INTERRUPTED:
        Path(f"{place}.complete").touch()


def drawn(part: Path, count: int, seed: int, tests: dict[str, Costs]) -> list[Key]:
    """Mutants drawn from all files under a part of the package, as far as tests run something of those files."""
    files = sorted((PACKAGE / part).rglob("*.py"))
    found = [mutant.key for file in files for mutant in mutants_of(file.read_text(), str(file.relative_to(PACKAGE)))]
    modules = {block.partition(":")[0] for block in tests}
    tried = [key for key in found if module_of(key[0]) in modules]
    share = len(tried) / max(1, len(found))
    print(f"{len(found)} mutants, {share:.0%} of them in files that tests run in their own processes")
    return Random(seed).sample(tried, min(count, len(tried)))


def _try_all(outcomes: Outcomes, trials: _Trials, again: bool) -> None:
    equivalent = equivalent_mutants()
    missing = (None, "") if again else (None,)
    left = [key for key, outcome in outcomes.by_key.items() if outcome.noticed in missing and key not in equivalent]
    with ThreadPoolExecutor(trials.workers) as pool:
        for outcome in pool.map(trials.outcome, left):
            print(_line(outcome), flush=True)
            outcomes.add(outcome)


class _Trials:
    """Copies of the package that take one mutant after the other."""

    def __init__(self, folder: Path, tests: dict[str, Costs], options: argparse.Namespace) -> None:
        self._tests = of_these(tests, _that_are_there(options.marks))
        self._options = options
        self.workers = options.workers
        self._copies = SimpleQueue[Path]()
        self._forks: dict[Path, Forks] = {}
        for number in range(options.workers):
            copy = folder / f"copy{number}"
            shutil.copytree(PACKAGE, copy / "tilewright")  # with bytecode: times of files stay, so it is taken
            subprocess.run([sys.executable, "-m", "compileall", "-q", copy], check=True)
            self._forks[copy] = Forks(ROOT, _environment(copy))
            self._copies.put(copy)
        self._time = itertools.count(10**9)
        self._passing: set[str] = set()

    def close(self) -> None:
        """End the processes that fork."""
        for forks in self._forks.values():
            forks.end()

    def outcome(self, key: Key) -> Outcome:
        """Put a mutant into a copy of the package, and start tests until one fails."""
        copy = self._copies.get()
        mutant = mutant_of(key, copy / "tilewright")
        try:
            return Outcome(key, "gone") if mutant is None else self._first_that_notices(mutant, copy)
        finally:
            self._copies.put(copy)

    def _first_that_notices(self, mutant: Mutant, copy: Path) -> Outcome:
        """Try tests in forks, then some in a new process, where the mutant is there when modules are imported.

        A block that few tests run may run once for all of a process; then a fork may be too late for all of them.
        """
        quick = quick_tests(mutant, self._tests, self._options.seconds)
        late = late_tests(mutant, self._tests, self._options.late_seconds, quick)
        again = quick[:FEW] if len(quick) > FEW else quick + late
        for start, chosen in ((self._in_fork, quick), (self._in_fork, late), (self._in_process, again)):
            noticed = self._failure(start, mutant, copy, chosen)
            if noticed == UNKNOWN:
                noticed = self._failure(self._in_process, mutant, copy, quick + late)
                return Outcome(mutant.key, noticed, len(quick + late))
            if noticed:
                return Outcome(mutant.key, noticed, len(quick + late))
        return Outcome(mutant.key, "", len(quick + late))

    def _failure(self, start: Start, mutant: Mutant, copy: Path, tests: list[str]) -> str:
        """The first of the tests that fails with the mutant and passes without it.

        In a new process tests come in another order than usual: one that fails there has to fail alone as well.
        """
        file = copy / "tilewright" / mutant.path
        original = file.read_text()
        while tests:
            self._write(file, mutant.text)
            failed = start(mutant, original, copy, tests)
            fails = failed in tests and (start != self._in_process or self._in_new_process(copy, [failed]))
            self._write(file, original)
            if failed not in tests or (fails and self._passes(failed, copy)):
                return failed
            tests = tests[tests.index(failed) + 1 :]
        return ""

    def _passes(self, test: str, copy: Path) -> bool:
        """Whether a test passes alone, without a mutant; one that did is not tried again."""
        if test not in self._passing and not self._in_new_process(copy, [test]):
            self._passing.add(test)
        return test in self._passing

    def _in_fork(self, mutant: Mutant, original: str, copy: Path, tests: list[str]) -> str:
        costs = {test: self._tests[ANY][test] for test in tests}
        return self._forks[copy].first_failure(module_of(mutant.path), original, mutant.text, costs)

    def _in_process(self, mutant: Mutant, original: str, copy: Path, tests: list[str]) -> str:
        return self._in_new_process(copy, tests)

    def _in_new_process(self, copy: Path, tests: list[str]) -> str:
        """The first test that fails with this copy of the package, ENDLESS, another way to fail, or ""."""
        costs = {test: self._tests[ANY][test] for test in tests}
        environment = {**_environment(copy), "TEST_SECONDS": json.dumps(costs)}
        limit = MIN_SECONDS + PATIENCE * sum(costs.values())
        code, lines = _run([*PYTEST, "-p", "endless_tests", *tests], environment, limit)
        if code in (None, ENDED):
            return ENDLESS
        failures = (line for line in lines if line.startswith(("FAILED", "ERROR")))
        line = next(failures, f"FAILED pytest ends with {code}") if code else ""
        return line.partition(" ")[2].partition(" - ")[0]

    def _write(self, file: Path, text: str) -> None:
        """Bytecode is kept by time and size, so each text has a time of its own."""
        file.write_text(text)
        time = next(self._time)
        os.utime(file, (time, time))


def _environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{HERE}", "PYTHONDONTWRITEBYTECODE": ""}


def _that_are_there(marks: str) -> set[str]:
    """The tests with these marks, by their names of today."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-o", "addopts=", "-p", "no:cacheprovider"]
    listed = subprocess.run([*command, "-m", marks], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(listed.splitlines())


def of_these(tests: dict[str, Costs], chosen: set[str]) -> dict[str, Costs]:
    """The chosen ones of the tests that run each block; blocks that none of them runs are printed."""
    found = {block: {test: these[test] for test in these if test in chosen} for block, these in tests.items()}
    lost = sorted(block for block, these in found.items() if not these)
    print(f"{len(lost)} of {len(found)} blocks are run by other tests only", *lost, sep="\n  ")
    return found


def _run(command: list[str], environment: dict[str, str], seconds: float) -> tuple[int | None, list[str]]:
    """The exit status of a command, or None if it takes too long, and the lines that it prints."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True
    )
    try:
        lines = process.communicate(timeout=seconds)[0].splitlines()
        return process.returncode, lines
    except subprocess.TimeoutExpired:
        return None, []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)


def _line(outcome: Outcome) -> str:
    path, function, original, change, _ = outcome.key
    verdict = f"noticed by {outcome.noticed}" if outcome.noticed else f"NOT NOTICED by {outcome.tests} tests"
    return f"{path}:{function} {_short(original)} -> {_short(change)}: {verdict}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:67]}..."


def _report(outcomes: list[Outcome]) -> None:
    """The shares by folder, then the mutants that nobody noticed."""
    equivalent = equivalent_mutants()
    tried = [outcome for outcome in outcomes if outcome.noticed not in (None, "gone") and outcome.key not in equivalent]
    folders = Counter(outcome.folder for outcome in tried)
    noticed = Counter(outcome.folder for outcome in tried if outcome.noticed)
    print()
    for folder, count in sorted(folders.items()):
        print(f"{folder:16} {noticed[folder]:4} of {count:4}")
    total = sum(noticed.values())
    print(f"{'all':16} {total:4} of {len(tried):4}  {total / max(1, len(tried)):.1%}")
    print(f"{'equivalent':16} {sum(outcome.key in equivalent for outcome in outcomes):4}\n")
    for outcome in tried:
        if not outcome.noticed:
            print(_line(outcome))


if __name__ == "__main__":
    raise SystemExit(main())
