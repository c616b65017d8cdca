"""Benchmarks against every installed peer (NumPy, torch, Numba, JAX): `python bench/run.py`, or `make bench`.

    python bench/run.py --quick              # one thread only, shorter
    python bench/run.py --only 'matmul|flash' --json results.json
    python bench/run.py --quick --tables 'others, in L1, 1' # kernels of others, in arrays that fit L1

Each table is measured by a process of its own, whose environment keeps all libraries to the table's number of threads
and which is pinned to as many CPUs. `ratio` is the peer's time over ours, in one run, in turns, on the same arrays;
`peak` is the share of the multiply-add peak that was measured between the samples of that row, or for kernels of others
of the speed of memory, whichever takes longer. A peer with a star makes its result in each call, as it cannot be given
an array for it: beside it we make ours in each call, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PEERS = ("numpy", "torch", "numba", "numexpr", "jax")


@dataclass(frozen=True)
class Table:
    """Rows that one process measures.

    Attributes:
        title: printed above them.
        script: measures them.
        arguments: further ones of the script.
        threads: of every library.
        environment: further variables.
        is_quick: measured with `--quick` too.
    """

    title: str
    script: str
    arguments: tuple[str, ...] = ()
    threads: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    is_quick: bool = False


TABLES = (
    Table("Compile, load, launch", "measure_start.py", environment={"TRITON_ALWAYS_COMPILE": "1"}, is_quick=True),
    Table("Hard kernels", "measure_hard.py", environment={"TRITON_ALWAYS_COMPILE": "1"}),
    Table("Reading", "measure_reading.py", is_quick=True),
    Table("Passes, beside Triton", "measure_passes.py"),
    Table("Gluon, beside Triton", "measure_gluon.py"),
    Table("Run, one thread", "measure_run.py", is_quick=True),
    Table("Tuning", "measure_tuning.py"),
    Table("Sanitizer", "measure_sanitizer.py"),
    Table("Vectorized functions, one thread", "measure_vectorize.py", is_quick=True),
    Table("Vectorized functions, two threads", "measure_vectorize.py", threads=2),
    Table("Run, two threads", "measure_run.py", threads=2),
    Table("Run, one thread, AVX2 only", "measure_run.py", environment={"TILEWRIGHT_CPU": "x86-64-v3"}),
    *(
        Table(f"Kernels of others, in {size}, {threads} thread{'s'[threads == 1 :]}", "measure_foreign.py",
              ("--size", size), threads, is_quick=threads == 1 and size == "L2 or L3")
        for threads in (1, 2)
        for size in ("L1", "L2 or L3", "memory")
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one thread and this CPU only, shorter samples")
    parser.add_argument("--tables", default="", metavar="PATTERN", help="tables whose title matches this one")
    parser.add_argument("--only", default="", metavar="PATTERN", help="rows whose name matches this regular expression")
    parser.add_argument("--seconds", type=float, metavar="S", help="per row; default 1, with --quick 0.3")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured there")
    arguments = parser.parse_args()
    print("peers:", ", ".join(f"{name} {version}" for name, version in installed_peers().items()))
    seconds = arguments.seconds or (0.3 if arguments.quick else 1.0)
    results: dict[str, list[dict[str, Any]]] = {}
    for table in TABLES:
        if is_wanted(table, arguments):
            rows = results[table.title] = []
            for row in measured(table, arguments.only, seconds):
                if not rows:
                    print(f"\n{table.title}\n{HEADER}")
                rows.append(row)
                print(line(row), flush=True)
    misses = sum(verdict(row) != "ok" for rows in results.values() for row in rows if verdict(row))
    print(f"\n{misses} of {sum(map(len, results.values()))} rows miss their bar")
    if arguments.json:
        report = {"peers": installed_peers(), "tables": results}
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False))


def is_wanted(table: Table, arguments: argparse.Namespace) -> bool:
    """Whether this run measures it: a table that is asked for by its title need not be quick."""
    is_chosen = bool(re.search(arguments.tables, table.title))
    is_short = table.is_quick or not arguments.quick or bool(arguments.tables)
    return is_chosen and is_short and table.threads <= len(os.sched_getaffinity(0))


def installed_peers() -> dict[str, str]:
    """Versions of the peers that are there."""
    names = {distribution.name.lower() for distribution in metadata.distributions()}
    return {name: metadata.version(name) for name in PEERS if name in names}


def measured(table: Table, only: str, seconds: float) -> Iterator[dict[str, Any]]:
    """The rows, each as soon as it is measured."""
    command = [sys.executable, str(HERE / table.script), "--only", only, *table.arguments]
    if table.script in ("measure_run.py", "measure_vectorize.py", "measure_foreign.py"):
        command += ["--threads", str(table.threads), "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, **limits(table.threads), **table.environment, "TRITON_CACHE_DIR": cache}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout, "the output is piped"
            for text in process.stdout:
                yield json.loads(text)
    if process.returncode:
        yield {"row": table.title, "error": f"the process ended with {process.returncode}"}


def limits(threads: int) -> dict[str, str]:
    """Environment variables that keep libraries to so many threads, and let them find the examples.

    Python keeps what it compiles, as it does for users: otherwise each import of this package would compile it.
    """
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    eigen = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    paths = [str(HERE.parent / "examples"), os.environ.get("PYTHONPATH", "")]
    return {
        **{f"{name}_NUM_THREADS": str(threads) for name in names},
        "PYTHONDONTWRITEBYTECODE": "",
        "XLA_FLAGS": eigen,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


HEADER = f"{'problem':38}{'ours':>8}   {'peer':14}{'ratio':>7}  {'bar':9}      {'peak':>5}  other peers"


def line(row: dict[str, Any]) -> str:
    """A row of the table as text."""
    if "ours" not in row:
        return f"{row['row']:38}{'skipped: ' + row['skipped'] if 'skipped' in row else 'FAILED: ' + row['error']}"
    peers = dict(row.get("peers", {}))
    name = row.get("against") or min(peers, key=lambda peer: peers[peer], default=None)
    peer = f"{name}{star(row, name)} {duration(peers.pop(name))}" if name else "-"
    reached = f"{ratio(row, name):.2f}" if name else ""
    others = ", ".join(f"{other}{star(row, other)} {ratio(row, other):.2f}" for other in peers)
    share = f"{row['share']:.0%}" if "share" in row else ""
    if "speedup" in row:
        share = f"×{row['speedup']:.2f}"
    left = f"{row['row']:38}{duration(ours_beside(row, name)):>8}   {peer:14}{reached:>7}"
    return f"{left}  {bar_text(row):9} {verdict(row):4} {share:>5}  {others}".rstrip()


def ours_beside(row: dict[str, Any], peer: str | None) -> float:
    """Our time on the terms of a peer: with the result made in the call, if the peer does so."""
    return float(row["anew"] if peer in row.get("making", ()) else row["ours"])


def ratio(row: dict[str, Any], peer: str) -> float:
    """The time of a peer as a multiple of ours."""
    return float(row["peers"][peer] / ours_beside(row, peer))


def star(row: dict[str, Any], peer: str) -> str:
    """The mark of a peer that makes its result in each call."""
    return "*" if peer in row.get("making", ()) else ""


def bar_text(row: dict[str, Any]) -> str:
    if "limit" in row:
        return f"≤ {duration(row['limit'])}"
    return f"≥ {row['bar']:.2f}" if row.get("bar") else ""


def verdict(row: dict[str, Any]) -> str:
    """ "ok", "MISS", or nothing where there is no bar."""
    if "error" in row:
        return "MISS"
    checks = []
    if "limit" in row:
        checks.append(row["ours"] <= row["limit"])
    if row.get("bar") and row.get("against"):
        checks.append(ratio(row, row["against"]) >= row["bar"])
    for reached, bar in (("share", "share_bar"), ("speedup", "speedup_bar")):
        if row.get(bar):
            checks.append(row[reached] >= row[bar])
    return "" if not checks else "ok" if all(checks) else "MISS"


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


if __name__ == "__main__":
    main()
