"""Runs the tests of every machine, one after the other, and prints a row of a table for each.

    python tests/machines/matrix.py                    all, as `make test-machines` does
    python tests/machines/matrix.py AVX "Python 3.14"  those whose names have one of these in them

A row says how many tests ran and how they ended, what first_use.py found, and how long all of it took. What programs
print is kept in build/machines/logs. The exit status is 1 if something fails anywhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "build" / "machines" / "logs"
SCALABLE = "tests/exactness tests/examples tests/vectorize tests/cpu/test_dot_matrices.py tests/llvm/test_scalable.py"
PYTHONS = ("3.12", "3.13", "3.14", "3.14t")
OUTCOMES = ("passed", "failed", "skipped", "error")
HEAD = "| machine | passed | failed | skipped | doctor | demo | launch | minutes |\n|---|---|---|---|---|---|---|---|"


class Run(NamedTuple):
    """A command of this folder, with the environment that chooses what it does."""

    command: str
    environment: Mapping[str, str]


def scalable(bits: int) -> list[Run]:
    """AArch64 with vectors of that length: what depends on it."""
    machine = {"QEMU_CPU": f"max,sve{bits}=on"}
    first = Run("arm64.sh tests/machines/first_use.py", {**machine, "PYTHON": "1"})
    return [first, Run("arm64.sh", {**machine, "TESTS": SCALABLE})]


MACHINES = {
    "x86-64 without AVX": [Run("cpus.sh", {"CPUS": "Nehalem"})],
    "x86-64 with AVX2": [Run("cpus.sh", {"CPUS": "Haswell-noTSX"})],
    "AArch64": [Run("arm64.sh", {})],
    "AArch64, SVE of 256 bits": scalable(256),
    "AArch64, SVE of 512 bits": scalable(512),
    "Windows": [Run("windows.sh", {})],
    **{f"Python {version}": [Run("pythons.sh", {"VERSIONS": version})] for version in PYTHONS},
}


def outcomes(log: str) -> dict[str, int]:
    """The sums of what the last lines of pytest say; there may be several runs in a log."""
    sums = dict.fromkeys(OUTCOMES, 0)
    for line in re.findall(r"^(?:.*: )?((?:\d+ \w+, )*\d+ \w+) in [\d.]+s", log, re.MULTILINE):
        for count, outcome in re.findall(r"(\d+) (passed|failed|skipped|error)", line):
            sums[outcome] += int(count)
    return sums


def first_use(log: str, step: str) -> str:
    """The finding of first_use.py in a step."""
    found = re.findall(rf"^{step}: (.*?)\r?$", log, re.MULTILINE)
    return found[-1] if found else "not run"


def row(name: str, log: str, minutes: float) -> str:
    """The row of a machine, from what its programs printed."""
    sums = outcomes(log)
    tests = f"{sums['passed']} | {sums['failed'] + sums['error']} | {sums['skipped']}"
    steps = " | ".join(first_use(log, step) for step in ("doctor", "demo", "launch"))
    return f"| {name} | {tests} | {steps} | {minutes:.0f} |"


def test(name: str) -> bool:
    """Run what a machine's row needs and print the row, with the tests that failed."""
    start, log, works = time.monotonic(), LOGS / f"{name}.log", True
    with log.open("w", encoding="utf-8") as file:
        for command, environment in MACHINES[name]:
            call = [str(ROOT / "tests" / "machines" / command.split()[0]), *command.split()[1:]]
            done = subprocess.run(call, env={**os.environ, **environment}, stdout=file, stderr=file, check=False)
            works &= done.returncode == 0
    text = log.read_text(encoding="utf-8", errors="replace")
    print(row(name, text, (time.monotonic() - start) / 60), flush=True)
    if not works:
        print(*re.findall(r"^(?:FAILED|ERROR) .*", text, re.MULTILINE), f"more: {log}", sep="\n", flush=True)
    return works


def main(wanted: list[str]) -> int:
    LOGS.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    chosen = [name for name in MACHINES if not wanted or any(part in name for part in wanted)]
    works = [test(name) for name in chosen]
    return 0 if all(works) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
