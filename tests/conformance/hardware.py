"""Triton's own tests on the NVIDIA GPU of this machine: their results become a part of docs/hardware.md.

    python tests/conformance/hardware.py ~/triton/python --out build/gpu/tritons.json --jobs 16 --seconds 240
    python tests/conformance/hardware.py ~/triton/python --out some.json --groups gluon -k wgmma

The first argument is the folder `python` of a checkout of Triton; nothing of it is in this repository. It needs what
those tests need: pytest, scipy, expecttest and a torch that sees the GPU. Each process runs every so-manieth test, one
case of each function before the second of any: what there is time for is a sample of all. A test that crashes, hangs
or spoils its context ends its process, and the next one goes on behind it. (`hardware_plugin.py` is in each of them.)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

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


def as_row(name: str, found: Mapping[str, Outcome], collected: int) -> Outcome:
    """The row of a group or file, for the page."""
    counts = Counter(outcome["outcome"] for outcome in found.values())
    failed = [outcome for outcome in found.values() if outcome["outcome"] in ("failed", "begun")]
    return {"name": name, "counts": dict(counts), "collected": collected, "failed": failed}


def run_group(name: str, root: Path, logs: Path, asked: argparse.Namespace) -> Outcome:
    """Run a group in so many processes; its row."""
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
    collected = next((int(line["message"]) for key, line in found.items() if key == ""), 0)
    row = as_row(name, {key: line for key, line in found.items() if key}, collected)
    print(f"{name}: {row['counts']} of {collected}, {time.time() - began:.0f} s", flush=True)
    return row


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
    with tempfile.TemporaryDirectory() as name:
        logs = asked.logs or Path(name) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        root = prepared(asked.triton, Path(name) / "python")
        rows = [run_group(group, root, logs, asked) for group in asked.groups]
    asked.out.write_text(json.dumps({"part": "tritons", "rows": rows}, indent=1) + "\n")
    return int(any(row["failed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
