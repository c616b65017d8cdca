"""Triton's own tests on the NVIDIA GPU of this machine: their results become a part of docs/hardware.md.

    python tests/conformance/hardware.py ~/triton/python --out build/gpu/tritons.json --jobs 16 --seconds 240
    python tests/conformance/hardware.py ~/triton/python --out some.json --groups gluon -k wgmma
    python bench/gpu/page.py docs/hardware build/gpu/tritons.json

The first argument is the folder `python` of a checkout of Triton; nothing of it is in this repository. It needs what
those tests need: pytest, scipy, expecttest and a torch that sees the GPU. Each process runs every so-manieth test, one
case of each function before the second of any: what there is time for is a sample of all. A test that crashes, hangs
or spoils its context ends its process, and the next one goes on behind it. (`hardware_plugin.py` is in each of them.)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[2] / "bench" / "gpu"))

from driver import CudaError, Device
from gluon_tutorials import MEASURES

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
QUIET_SECONDS = 75.0
"""Seconds without a new line in its log after which a process counts as hung."""
UNIT = ("unit/language", "unit/runtime", "unit/cuda", "unit/test_debug.py", "unit/tools/test_linear_layout.py")
Outcome = dict[str, Any]


class Group(NamedTuple):
    """Tests that one call of pytest runs.

    Attributes:
        folder: of `python`, where pytest starts.
        paths: in it.
        share: of the time.
        only: as pytest's -k.
    """

    folder: str
    paths: tuple[str, ...]
    share: float
    only: str = ""


GROUPS = {
    "gluon": Group("test", tuple(f"gluon/test_{name}.py" for name in ("core", "lowerings", "layout_format_view")), 0.3),
    "tutorials": Group("tutorials/gluon", (), 0.1),
    "unit": Group("test", UNIT, 0.6, "not downcast and not clamping and not 8192"),
}
"""The groups in their order; downcasts take 2³² numbers each, products of 8192³ minutes in torch's reference."""


REASONS = {
    "test_subprocess.py::test_print*": "wants a scalar once per thread; here it is printed once per program",
    "test_core.py::test_pointer_arguments[[]cpu]*": "expects that a kernel refuses tensors on the CPU",
    "test_driver.py::test_is_lazy*": "reloads a module, and wants the driver forgotten",
    "test_line_info.py::test_line_info[[]call_noinline]*": "wants the line of a call, and here it is inlined",
    "test_line_info.py::test_line_info[[]dot_combine]*": "wants the line of a sum that is part of the product here",
    "test_line_info.py::test_line_info_env*": "sets a knob, and wants the environment to win",
    "test_launch.py::test_launch_with_options*": "wants a file of Triton's sources",
    "test_no_torch_dispatch.py::*": "takes the GPU's memory through Triton's native module",
    "test_reproducer.py::*": "asks for a reproducer as MLIR writes it",
    "test_tensor_descriptor_cuda.py::test_specialization_after_host*": "types of descriptors as 3.7 wrote them",
}
"""Reasons by what matches `file::test[parameters]: message`, ahead of those of reasons.toml."""


class Shard(NamedTuple):
    """The part of a group that one process runs.

    Attributes:
        folder: where pytest starts.
        group: what it runs.
        only: as pytest's -k; "" for the group's own.
        number: of the shard.
        jobs: of all shards.
        log: gets a line of JSON for each test, and one when it begins.
        end: by `time.time()`.
    """

    folder: Path
    group: Group
    only: str
    number: int
    jobs: int
    log: Path
    end: float


def prepared(triton: Path, folder: Path) -> Path:
    """A copy of the tests, whose tutorials measure nothing when they are imported."""
    for name in ("test/unit", "test/gluon", "tutorials/gluon"):
        shutil.copytree(triton / name, folder / name)
    shutil.copy(triton / "test" / "conftest.py", folder / "test")
    for path in (folder / "tutorials" / "gluon").glob("*.py"):
        path.write_text(MEASURES.sub("", path.read_text()))
    return folder


def run_shard(shard: Shard) -> None:
    """Run what is left of a shard, in one process after the other."""
    while time.time() < shard.end and _process(shard) not in (0, 1, 2, 5):
        pass


def _process(shard: Shard) -> int | None:
    """The exit status of a process that runs what is left; None if it was ended from here."""
    command = [sys.executable, "-m", "tilewright", "run", "-m", "pytest", "-q", "-p", "hardware_plugin"]
    command += ["-p", "no:cacheprovider", "--continue-on-collection-errors", "--tb=short"]
    command += ["-k", shard.only or shard.group.only]
    command += [*(shard.group.paths or sorted(path.name for path in shard.folder.glob("[0-9]*.py")))]
    with tempfile.TemporaryDirectory() as cache, (shard.log.with_suffix(".out")).open("ab") as out:
        variables = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(HERE), str(SOURCE), os.environ.get("PYTHONPATH", "")]),
            "HARDWARE_LOG": str(shard.log),
            "HARDWARE_SHARD": f"{shard.number}/{shard.jobs}",
            "HARDWARE_END": str(shard.end),
            "TRITON_CACHE_DIR": cache,
            "OMP_NUM_THREADS": "1",
        }
        with subprocess.Popen(command, cwd=shard.folder, env=variables, stdout=out, stderr=out) as process:
            while (status := process.poll()) is None:
                time.sleep(0.2)
                if time.time() > shard.end + 5 or _quiet(shard.log) > QUIET_SECONDS:
                    process.kill()
                    return None
            return status


def _quiet(log: Path) -> float:
    """Seconds since the last line of a log."""
    return time.time() - log.stat().st_mtime if log.exists() else 0.0


def outcomes(logs: Sequence[Path]) -> dict[str, Outcome]:
    """The last word on each test, by its name."""
    lines = [json.loads(line) for log in logs if log.exists() for line in log.read_text().splitlines()]
    return {line["test"]: line for line in lines}


def file_of(test: str) -> str:
    return test.partition("::")[0]


def rows_of(found: Iterable[Outcome], collected: dict[str, int]) -> list[Outcome]:
    """A row for each file."""
    counts = {file: Counter[str]() for file in sorted(collected)}
    for outcome in found:
        counts.setdefault(file_of(outcome["test"]), Counter())[outcome["outcome"]] += 1
    return [
        {"name": file, **{kind: of[kind] for kind in ("passed", "failed", "skipped")}, "all": collected.get(file, 0)}
        for file, of in counts.items()
    ]


def failures_of(found: Iterable[Outcome]) -> list[Outcome]:
    """A row for each function that fails, and each reason."""
    counts = Counter(
        (outcome["test"].partition("[")[0], reason_of(outcome)) for outcome in found if outcome["outcome"] == "failed"
    )
    return [{"test": test, "reason": reason, "cases": count} for (test, reason), count in counts.items()]


def reason_of(outcome: Outcome) -> str:
    """The reason that REASONS or reasons.toml has, or else what the test said."""
    known = REASONS | tomllib.loads((HERE / "reasons.toml").read_text())["reasons"]
    for pattern, reason in known.items():
        if fnmatch(f"/{outcome['test']}: {outcome['message']}", f"*/{pattern.removeprefix('*')}"):
            return str(reason)
    said = re.findall(r"^E +(.*)", outcome["message"], re.MULTILINE)
    return f"not explained yet: {(said or ['the process ended, or took too long'])[0][:160]}"


def run_group(name: str, root: Path, logs: Path, asked: argparse.Namespace) -> tuple[list[Outcome], list[Outcome]]:
    """Run a group in so many processes; rows of its files, and of what fails."""
    group, began = GROUPS[name], time.time()
    shares = sum(GROUPS[other].share for other in asked.groups)
    end = began + asked.seconds * group.share / shares
    shards = [
        Shard(root / group.folder, group, asked.only, number, asked.jobs, logs / f"{name}{number}.jsonl", end)
        for number in range(asked.jobs)
    ]
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(run_shard, shards))
    found = outcomes([shard.log for shard in shards])
    collected = json.loads(found.pop("", {"message": "{}"})["message"])
    counts = dict(Counter(outcome["outcome"] for outcome in found.values()))
    print(f"{name}: {counts} of {sum(collected.values())}, {time.time() - began:.0f} s", flush=True)
    for outcome in found.values():
        if outcome["outcome"] == "begun":  # it made its process end, if that was not stopped because time was up
            outcome["outcome"] = "failed" if time.time() < end else "not reached"
    return rows_of(found.values(), collected), failures_of(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("triton", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a file for the JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("-k", dest="only", default="", help="only tests that match, as pytest -k")
    parser.add_argument("--logs", type=Path, help="a folder for what the processes print")
    asked = parser.parse_args()
    try:
        facts = Device().facts
    except CudaError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        logs = asked.logs or Path(name) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        root = prepared(asked.triton, Path(name) / "python")
        groups = [run_group(group, root, logs, asked) for group in asked.groups]
    rows, failures = ([row for group in groups for row in group[part]] for part in (0, 1))
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    head = {"part": "tritons", "date": date, "commit": commit(), **facts}
    asked.out.write_text(json.dumps({**head, "rows": rows, "failures": failures}, indent=1) + "\n")
    return int(bool(failures))


def commit() -> str:
    """The commit of this checkout, or `unknown`."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
