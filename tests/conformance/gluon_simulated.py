"""Triton's tests of Gluon that launch kernels, on simulated GPUs: docs/conformance-gluon.md is what this writes.

    python tests/conformance/gluon_simulated.py ~/triton.git                       # all files, into the page
    python tests/conformance/gluon_simulated.py ~/triton.git --kept results test_core     # one file, into a folder too

The first argument is a repository of Triton, of whose HEAD the tests are; nothing of it is in this one. It needs torch
and pytest. Each file runs on each of its devices, some cases of each function (`gluon_simulated_plugin.py`). A function
passes if it has a case that passed and none that failed. REASONS says why others fail, by what their messages hold.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gluon import part_of

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
PAGE = HERE.parents[1] / "docs" / "conformance-gluon.md"
CASES = 2
SECONDS = 120


class Run(NamedTuple):
    """A file on some devices, the cases that pytest -k leaves, and how reads of what nothing has stored are met."""

    file: str
    capabilities: tuple[int, ...]
    only: str = ""
    uninitialized: str = "report"


RUNS = (
    Run("test_layout_format_view", (90,)),
    Run("test_lowerings", (80, 90, 100, 120)),
    Run("test_core", (80, 90, 100, 120)),
    Run("test_consan", (90, 100), "1ctas or not ctas", "nan"),
)
REASONS: tuple[tuple[str, str], ...] = (
    (
        "an asynchronous copy is writing",
        "two copies fill one buffer, and the kernel reads it when it has waited for one of them, which is reported: "
        "PTX puts copies of one thread in no order, Triton's sanitizer takes the second to be the later one",
    ),
    (
        "will still signal",
        "the kernel invalidates a barrier that a product will still signal, which is reported: PTX forbids it, "
        "Triton's sanitizer does not look at it",
    ),
    ("assert None is not None", "a fault in tensor memory that is not found: another warp writes what a warp reads"),
    ("profile_scratch", "looks at the memory of Triton's sanitizer"),
)
"""Parts of messages, and what is missing."""


def results(repository: Path, run: Run, capability: int, kept: Path | None) -> list[dict[str, str]]:
    """The lines that the plugin writes."""
    git = ["git", f"--git-dir={repository}", "show", f"HEAD:python/test/gluon/{run.file}.py"]
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name, "python", "test", "gluon"), Path(name, "log")
        folder.mkdir(parents=True)
        (folder / f"{run.file}.py").write_text(subprocess.run(git, capture_output=True, text=True, check=True).stdout)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(SOURCE), os.environ.get("PYTHONPATH", "")]),
            "GLUON_SIMULATE": str(capability), "GLUON_CASES": str(CASES), "GLUON_SECONDS": str(SECONDS),
            "GLUON_LOG": str(log), "GLUON_UNINITIALIZED": run.uninitialized,
        }
        command = [sys.executable, "-m", "tilewright", "run", "-m", "pytest", "-q", "-p", "gluon_simulated_plugin"]
        command += ["-p", "no:cacheprovider", "--tb=line", f"{run.file}.py"]
        command += ["-k", run.only] if run.only else []
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not log.exists():
            raise RuntimeError(f"{run.file} was not collected:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        text = log.read_text()
    if kept is not None:
        (kept / f"{run.file}.{capability}.jsonl").write_text(text)
    return [json.loads(line) for line in text.splitlines()]


def by_function(lines: list[dict[str, str]]) -> Mapping[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for line in lines:
        found[line["test"].partition("[")[0]].append(line)
    return found


def reason_of(message: str) -> str:
    first = re.sub(r"/tmp/\S*/", "", message.splitlines()[0])
    return next((reason for part, reason in REASONS if part in message), f"not looked into: `{first}`")


def part(run: Run, lines: list[dict[str, str]]) -> Iterator[str]:
    """The lines of the page about a file."""
    names = [f"sm_{capability}" for capability in run.capabilities]
    devices = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    yield f"\n## {run.file}.py on {devices}\n"
    cases = Counter(line["outcome"] for line in lines)
    functions = by_function(lines)
    ran = {name: own for name, own in functions.items() if any(line["outcome"] != "skipped" for line in own)}
    failed = {name: [line for line in own if line["outcome"] == "failed"] for name, own in ran.items()}
    passed = sum(not own for own in failed.values())
    yield f"{passed} of {len(ran)} functions pass; {len(functions) - len(ran)} more are skipped by themselves."
    yield f"{cases['passed']} cases pass, {cases['failed']} fail, and {cases['skipped']} are skipped.\n"
    for reason, names in reasons(failed).items():
        yield f"- {reason}: {', '.join(f'`{name}`' for name in names)}"


def reasons(failed: Mapping[str, list[dict[str, str]]]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, lines in failed.items():
        for reason in dict.fromkeys(reason_of(line["message"]) for line in lines):
            found[reason].append(name)
    return found


INTRODUCTION = f"""# Triton's tests of Gluon, simulated

Triton's tests in python/test/gluon that launch kernels, of June 2026, on simulated GPUs: at most {CASES} cases of each
function on each device, drawn evenly. Tests that are for AMD's GPUs alone are left out. In test_consan.py, whose tests
are of Triton's sanitizer, a report of the simulator counts as one of the sanitizer's, only programs of one CTA run, and
as under the sanitizer what nothing has stored is NaN (`uninitialized="nan"`).
A case that needs more shared memory than the device has is skipped: sm_120 has 99 KiB.
The products of `test_mma_scaled_tcgen05_copy` have 512 rows, columns and terms instead of 2048, 2048 and 4096.
Each list says what the functions behind it fail for; what is missing is refused by its name.
`tests/conformance/gluon_simulated.py` writes this page but for its last part."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("files", nargs="*", help="the names of some, to the terminal only")
    parser.add_argument("--kept", type=Path, help="a folder for the results, a file per device")
    arguments = parser.parse_args()
    parts = [INTRODUCTION]
    for run in RUNS:
        if not arguments.files or run.file in arguments.files:
            lines = [
                line
                for capability in run.capabilities
                for line in results(arguments.repository, run, capability, arguments.kept)
            ]
            parts += part(run, lines)
    text = "\n".join(parts) + "\n"
    if arguments.files:
        sys.stdout.write(text)
    else:
        PAGE.write_text(text + part_of(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
