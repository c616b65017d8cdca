"""Triton's own tests of Gluon on Tilewright, counted by function.

    python tests/conformance/gluon.py ~/triton.git                     # gluon/test_frontend.py of HEAD
    python tests/conformance/gluon.py ~/triton.git --commit 3.9 --file gluon/test_core.py

The first argument is a repository of Triton; nothing of it is in this one. It needs what the tests need: pytest,
expecttest, filecheck. `gluon_plugin.py` says what is compared and left out. A function passes if all its cases do.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
VERBOSE = re.compile(r"^\S+?::(\w+)\S*(?:\[.*?\])? (PASSED|FAILED|ERROR|SKIPPED)", re.MULTILINE)


def text_of(repository: Path, commit: str, file: str) -> str:
    command = ["git", f"--git-dir={repository}", "show", f"{commit}:python/test/{file}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def outcomes(text: str) -> tuple[dict[str, set[str]], str]:
    """The outcomes of the cases of each function, and what pytest says."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_gluon.py").write_text(text)
        paths = os.pathsep.join([str(HERE), str(SOURCE), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "tilewright", "run", "-m", "pytest", "-v", "-p", "gluon_plugin"]
        command += ["-p", "no:cacheprovider", "--tb=line", "test_gluon.py"]
        environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "1000"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, set[str]] = defaultdict(set)
    for name, outcome in VERBOSE.findall(done.stdout):
        found[name].add(outcome)
    return found, done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--file", default="gluon/test_frontend.py")
    arguments = parser.parse_args()
    found, output = outcomes(text_of(arguments.repository, arguments.commit, arguments.file))
    if not found:
        sys.stderr.write(output)
        return 1
    ours = {name: kinds - {"SKIPPED"} for name, kinds in found.items() if kinds != {"SKIPPED"}}
    failed = sorted(name for name, kinds in ours.items() if kinds != {"PASSED"})
    lines = [f"{len(found)} functions, {len(found) - len(ours)} of them for AMD's GPUs only"]
    lines += [f"{len(ours) - len(failed)} of {len(ours)} pass", *(f"    fails: {name}" for name in failed)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
