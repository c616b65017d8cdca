"""Triton's own tests of Gluon on Tilewright, counted by function.

    python tests/conformance/gluon.py ~/triton.git                     # gluon/test_frontend.py of HEAD
    python tests/conformance/gluon.py ~/triton.git --commit 3.9 --file gluon/test_core.py
    python tests/conformance/gluon.py ~/triton.git --page --triton ~/triton-3.9/bin/python

The first argument is a repository of Triton; nothing of it is in this one. It needs what the tests need: pytest,
expecttest, filecheck. `gluon_plugin.py` says what is compared and left out. A function passes if all its cases do.
With `--page` the last part of docs/conformance-gluon.md is written, with `--triton` also how Triton itself does there.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "conformance-gluon.md"
HEADING = "\n## test_frontend.py, as text\n"
REASONS = {
    "test_reshape_linear_layout": "the file wants a linear layout; Triton 3.9 gives the slice of the tile's layout "
    "that it is, and so does Tilewright (tests/oracle/test_tritons_gluon.py)",
}
"""Why functions fail."""
SOURCE = HERE.parents[1] / "src"
VERBOSE = re.compile(r"^\S+?::(\w+)\S*(?:\[.*?\])? (PASSED|FAILED|ERROR|SKIPPED)", re.MULTILINE)
OURS = (sys.executable, "-m", "tilewright", "run", "-m", "pytest", "-p", "gluon_plugin")


def text_of(repository: Path, commit: str, file: str) -> str:
    command = ["git", f"--git-dir={repository}", "show", f"{commit}:python/test/{file}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def outcomes(text: str, program: Sequence[str] = OURS) -> tuple[dict[str, set[str]], str]:
    """The outcomes of the cases of each function under a program, and what pytest says."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_gluon.py").write_text(text)
        paths = os.pathsep.join([str(HERE), str(SOURCE), os.environ.get("PYTHONPATH", "")])
        command = [*program, "-v", "-p", "no:cacheprovider", "--tb=line", "test_gluon.py"]
        environment = {**os.environ, "PYTHONPATH": paths if program is OURS else "", "COLUMNS": "1000"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, set[str]] = defaultdict(set)
    for name, outcome in VERBOSE.findall(done.stdout):
        found[name].add(outcome)
    return found, done.stdout + done.stderr


def failing(found: Mapping[str, set[str]], names: Iterable[str]) -> list[str]:
    """Those of the functions with a case that does not pass."""
    return sorted(name for name in names if found.get(name, set()) - {"SKIPPED"} != {"PASSED"})


def summary(text: str, triton: str) -> Iterator[str]:
    """The lines about a file: how many functions pass, which do not and why, and how Triton itself does.

    Raises:
        RuntimeError: nothing ran.
    """
    found, output = outcomes(text)
    ours = [name for name, kinds in found.items() if kinds != {"SKIPPED"}]
    if not ours:
        raise RuntimeError(output)
    failed = failing(found, ours)
    passed, others = len(ours) - len(failed), len(found) - len(ours)
    yield f"{passed} of {len(ours)} functions pass; {others} more are for AMD's GPUs only."
    if triton:
        theirs, output = outcomes(text, (triton, "-m", "pytest"))
        if not theirs:
            raise RuntimeError(output)
        other = failing(theirs, ours)
        yield f"Triton 3.9, which is newer than the file, has other texts for {len(other)} of these: {listed(other)}."
    yield from ("", *(f"- `{name}`: {REASONS.get(name, 'not looked into')}" for name in failed))


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def part_of(page: str) -> str:
    """The part of the page that is written here, or nothing."""
    return "".join(page.partition(HEADING)[1:])


INTRODUCTION = """
Triton's tests of what the front end writes, of June 2026 as well. Texts are compared as modules, after calls were
inlined and constants brought together. `tests/conformance/gluon.py` writes this part.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--file", default="gluon/test_frontend.py")
    parser.add_argument("--triton", default="", help="Python with Triton, pytest and expecttest")
    parser.add_argument("--page", action="store_true", help="write the part of the page")
    arguments = parser.parse_args()
    lines = "\n".join(summary(text_of(arguments.repository, arguments.commit, arguments.file), arguments.triton))
    if arguments.page:
        PAGE.write_text(f"{PAGE.read_text().partition(HEADING)[0]}{HEADING}{INTRODUCTION}\n{lines}\n")
    else:
        sys.stdout.write(f"{lines}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
