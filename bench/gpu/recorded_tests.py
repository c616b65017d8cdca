"""Launches that the language's tests make, written down while they run on a simulated GPU.

    launches, left_out = recorded_file("lowering_memory", 90, folder)

The tests run in a process of their own, with pytest, in which `agreement.agree` does nothing but launch. A test that is
skipped for GPUs, or fails, is left out, with the reason.

    python bench/gpu/recorded_tests.py lowering_memory 90 folder ptx    # what that process runs
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))
sys.path.extend(str(Path(__file__).parents[2] / "tests" / name) for name in ("kernels", "oracle"))

import agreement
from launches import Launch
from recording import recorded

TESTS = Path(__file__).parents[2] / "tests"
FILES = {
    **{
        path.stem.removeprefix("test_"): path
        for path in sorted((TESTS / "oracle").glob("test_lowering_*.py"))
        if path.stem != "test_lowering_on_gpus"  # which runs the others
    },
    **{
        name: TESTS / "language" / f"test_{name}.py"
        for name in (
            *("aggregates", "bessel", "fp8e4b15", "language_numerics", "lgamma", "packed_matrices"),
            "pointer_offsets",
        )
    },
}
"""The files of tests that launch kernels and are not about what only a CPU does, by how their launches are called."""


def recorded_file(
    name: str, capability: int, folder: Path, *, keeps_ptx: bool = True
) -> tuple[list[Launch], dict[str, str]]:
    """The launches of a file's tests, and the reasons of those that are left out."""
    command = [sys.executable, __file__, name, str(capability), str(folder), *(["ptx"] if keeps_ptx else [])]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    answer = done.stdout.rpartition(ANSWER)[2]
    if done.returncode or not answer:
        return [], {f"{name}_{capability}": f"the tests ended with status {done.returncode}: {done.stderr[-200:]}"}
    found = json.loads(answer)
    return [Launch(**fields) for fields in found["launches"]], found["left_out"]


ANSWER = "\nrecorded: "


class Recorder:
    """A plugin of pytest: each test's launches are of a simulated GPU, and written down.

    Attributes:
        launches, left_out: so far.
    """

    def __init__(self, file: str, capability: int, folder: Path, *, keeps_ptx: bool = True) -> None:
        self._file, self._capability, self._folder, self._keeps_ptx = file, capability, folder, keeps_ptx
        self._names, self._counts = dict[str, str](), Counter[str]()
        self.launches: list[Launch] = []
        self.left_out: dict[str, str] = {}

    def _name(self, node: str) -> str:
        """The name of a test: `lowering_memory.a_test_i8_7`; another one for each test."""
        if node not in self._names:
            plain = re.sub(r"\W+", "_", node.partition("::")[2]).strip("_").removeprefix("test_")
            self._counts[plain] += 1
            number = f"_{self._counts[plain]}" if self._counts[plain] > 1 else ""
            self._names[node] = f"{self._file}.{plain}{number}"
        return self._names[node]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[Any]:
        name, keeps_ptx = self._name(item.nodeid), self._keeps_ptx
        with recorded(self._capability, self._folder, name, "tests", keeps_ptx=keeps_ptx) as launches:
            try:
                return (yield)
            finally:
                self.launches += launches

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome != "passed":
            self.left_out[f"{self._name(report.nodeid)}_{self._capability}"] = reason_of(report)


def reason_of(report: Any) -> str:
    """The reason why a test was skipped, or its failure."""
    if report.skipped:
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"the test fails on a simulated GPU: {crash.message if crash else report.longrepr}".splitlines()[0]


def launched(
    kernel: Any, *arguments: Any, grid: Sequence[int] = (1,), rtol: Any = None, eager: bool = True, **named: Any
) -> list[Any]:
    """Launch in place of `agreement.agree`; gives the arguments behind the launch, which are copies."""
    copies = agreement.copied(arguments)
    kernel[tuple(grid)](*copies, **named, **agreement.ON_GPU)
    return copies


def main() -> int:
    name, capability, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    agreement.agree = launched
    recorder = Recorder(name, capability, folder, keeps_ptx="ptx" in sys.argv[4:])
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow", f"--gpu={capability}", f"--rootdir={TESTS.parent}"]
    status = pytest.main([*options, str(FILES[name])], plugins=[recorder])
    launches = [launch._asdict() for launch in recorder.launches]
    print(ANSWER + json.dumps({"launches": launches, "left_out": recorder.left_out}))
    return 0 if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(status)


if __name__ == "__main__":
    sys.exit(main())
