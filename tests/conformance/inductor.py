"""Torch's own tests of Inductor on Tilewright, and with Inductor's C++ back end; writes docs/conformance-torch.md.

    python tests/conformance/inductor.py pytorch/test/inductor --page docs/conformance-torch.md
    --suite common,sweep        some of the suites
    --only REGEX                tests whose names match
    --out results.jsonl         the outcomes: a run that was stopped goes on where it was
    --compare failing           the tests that the C++ back end runs, too: failing, all or none

The folders have files of torch's `test/inductor`; where several have a file, the first wins. Nothing of them is in this
repository. Tests run in processes of their own kind, which are started again when they crash or hang; the test that was
under way is then the crash. `inductor.toml` says why a test fails.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from case_runner import Limits, Outcome, outcomes, run_cases

HERE = Path(__file__).parent
LIMITS = Limits(seconds=240, cases=60)
SUITES = "common,sweep,block pointers,tensor descriptors,user kernels,mutation,custom operators,packages"
WITHOUT_TRITON = ("common: ", "sweep: ", "packages: ")
"""The suites that the C++ back end can run, since Inductor writes their kernels, or most of them."""
AGE = "age of the file"
"""How the reasons begin that say nothing about a back end: the test is older than the torch that is installed."""
OURS, THEIRS = "triton", "cpp"
"""The names that Inductor has for the back ends."""


def main() -> int:
    options = _options()
    if options.child:
        _answer(options)
        return 0
    cases = [case for case in _listed(options) if re.search(options.only, case)]
    _run(cases, OURS, options)
    found = outcomes(options.out)
    failing = [case for case in cases if found[f"{OURS} {case}"]["result"] in ("fails", "crashes")]
    compared = {"failing": failing, "all": cases, "none": []}[options.compare]
    _run([case for case in compared if case.startswith(WITHOUT_TRITON)], THEIRS, options)
    plan = tomllib.loads((HERE / "inductor.toml").read_text())
    text = "\n".join(page(outcomes(options.out), plan)) + "\n"
    print(text)
    if options.page:
        options.page.write_text(text)
    return int(bool(failing))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--suite", default=SUITES)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=Path("inductor.jsonl"))
    parser.add_argument("--compare", choices=["failing", "all", "none"], default="failing")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--child", choices=["list", OURS, THEIRS], help="run the cases that standard input names")
    return parser.parse_args()


def _command(options: argparse.Namespace, child: str) -> list[str]:
    """The command of a process that lists tests or runs them.

    `tilewright run` makes every Triton of it ours: AOTInductor would look for kernels of one that is installed.
    """
    folders = [str(folder.resolve()) for folder in options.folders]
    python = [sys.executable, *([] if child == THEIRS else ["-m", "tilewright", "run"])]
    return [*python, __file__, *folders, "--suite", options.suite, "--child", child]


def _listed(options: argparse.Namespace) -> list[str]:
    """All cases: a suite and a test."""
    done = subprocess.run(_command(options, "list"), capture_output=True, check=True, text=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def _run(cases: Sequence[str], backend: str, options: argparse.Namespace) -> None:
    run_cases([f"{backend} {case}" for case in cases], _command(options, backend), options.out, LIMITS)


def _answer(options: argparse.Namespace) -> None:
    """Be a process that lists the tests, or runs those that are asked for."""
    from inductor_tests import Suites

    listing = options.child == "list"
    suites = Suites(options.folders, OURS if listing else options.child)
    if listing:
        print(json.dumps([f"{suite}: {name}" for suite in options.suite.split(",") for name in suites.names(suite)]))
        return
    print("ready", flush=True)
    answers = sys.stdout
    sys.stdout = sys.stderr  # tests print
    for line in sys.stdin:
        suite, name = line.strip().partition(" ")[2].split(": ")
        began = time.perf_counter()
        outcome = {"case": line.strip(), **suites.run(suite, name)}
        print(json.dumps({**outcome, "seconds": round(time.perf_counter() - began, 2)}), file=answers, flush=True)


def page(found: Mapping[str, Outcome], plan: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the page: counts per suite, then the failures with their causes."""
    ours = {case.partition(" ")[2]: outcome for case, outcome in found.items() if case.startswith(OURS)}
    theirs = {case.partition(" ")[2]: outcome for case, outcome in found.items() if case.startswith(THEIRS)}
    yield from ("# Torch's tests of Inductor", "", plan["introduction"].strip(), "")
    yield from (
        "| suite | passes | fails | crashes | skips | of those that do not skip |",
        "|---|---:|---:|---:|---:|---:|",
    )
    for suite in dict.fromkeys(case.partition(": ")[0] for case in ours):
        yield _row(suite, [outcome for case, outcome in ours.items() if case.startswith(f"{suite}: ")])
    yield _row("all", list(ours.values()))
    yield from ("", _without_age(ours, plan["reasons"]))
    yield from ("", "## What fails", "", "| tests | cause | with the C++ back end |", "|---|---|---|")
    yield from _failures(ours, theirs, plan["reasons"])
    yield from ("", "## What skips", "", "| tests | torch's reason |", "|---:|---|")
    skipped = Counter(outcome["detail"].strip() for outcome in ours.values() if outcome["result"] == "skips")
    yield from (f"| {number} | {_cell(reason)} |" for reason, number in skipped.most_common())


def _row(name: str, results: Sequence[Outcome]) -> str:
    counts = Counter(outcome["result"] for outcome in results)
    share = counts["passes"] / max(1, len(results) - counts["skips"])
    numbers = " | ".join(str(counts[kind]) for kind in ("passes", "fails", "crashes", "skips"))
    return f"| {name} | {numbers} | {share:.1%} |"


def _without_age(ours: Mapping[str, Outcome], reasons: Mapping[str, str]) -> str:
    """The share that passes of the tests that say something about the back end."""
    failed = [case for case, outcome in ours.items() if outcome["result"] in ("fails", "crashes")]
    old = sum(_cause(case, ours[case], reasons).startswith(AGE) for case in failed)
    passed = sum(outcome["result"] == "passes" for outcome in ours.values())
    share = passed / max(1, passed + len(failed) - old)
    return f"{old} of the {len(failed)} fail for the age of their files; {share:.1%} of all others pass."


def _cause(case: str, outcome: Outcome, reasons: Mapping[str, str]) -> str:
    known = (reason for pattern, reason in reasons.items() if fnmatch(case, pattern))
    return next(known, f"not explained yet: {outcome['detail'][:200]}")


def _failures(ours: Mapping[str, Outcome], theirs: Mapping[str, Outcome], reasons: Mapping[str, str]) -> Iterator[str]:
    """A row per cause and outcome of the C++ back end."""
    rows: dict[tuple[str, str], list[str]] = {}
    for case, outcome in ours.items():
        if outcome["result"] in ("fails", "crashes"):
            cause = _cause(case, outcome, reasons)
            same = theirs.get(case, {}).get("result", "not tried") if case.startswith(WITHOUT_TRITON) else "–"
            rows.setdefault((cause, same), []).append(f"`{case.partition(': ')[2]}`")
    for (cause, same), names in rows.items():
        yield f"| {', '.join(names)} | {_cell(cause)} | {same} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
