"""One process of a table "Run": prints a JSON line per row. `run.py` starts it and sets its environment.

python bench/measure_run.py --threads 1 --seconds 1 --only matmul
"""

from __future__ import annotations

import argparse
import json
import os
import re
from functools import partial
from typing import Any

import numpy as np
import peers
from contests import CONTESTS, NotPossibleError, Row
from fma_peak import Peak
from run import ratio
from timing import clock_for, fast, race

import tilewright as tw
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.runtime.drivers.cpu.native.structs import TABLE
from tilewright.runtime.drivers.cpu.process import native_runtime
from tilewright.support import knobs

THREADS_BAR = 1.85
"""The speed-up that two threads should have over one where computing bounds, as a ratio."""
DISPATCH, DISPATCH_LIMIT, DISPATCHES = "dispatch, 2 empty programs", 1.5e-6, 1000


def measure(row: Row, threads: int, seconds: float, target: Target) -> dict[str, Any]:
    """Hold one contest; times are seconds."""
    contest = row.make()
    contest.check()
    functions = {"ours": partial(contest.launch, contest.out, threads), **contest.peers}
    if contest.making & functions.keys():
        functions["ours, anew"] = partial(contest.anew, threads)
    if threads > 1:
        functions["ours, 1 thread"] = partial(contest.launch, contest.out, 1)
    rates: list[float] = []
    if contest.operations and threads == 1:
        peak = Peak(target)
        functions["peak"] = lambda: rates.extend(peak.sample(contest.peak) for _ in range(5))
    times = race(functions, seconds=seconds, clock=clock_for(threads), threads=threads)
    times.pop("peak", None)
    rate = contest.operations / times["ours"]
    return judge(row, times, contest.making, threads, target) | shares(row, rate, rates, target)


@tw.jit
def empty_kernel(x: Any) -> None:
    pass


def dispatch() -> dict[str, Any]:
    """Seconds for a launch of two empty programs handed to a thread that is awake, as it never is by itself.

    The other number is the same launch alone.
    """
    native, x = native_runtime(), np.zeros(1, np.float32)
    assert native, "there is a native launcher"
    empty_kernel[(2,)](x)
    usual = {field: TABLE.read(native.table, field) for field in ("hot_ticks", "cold_ticks")}

    def launches(is_shared: bool) -> None:
        for field, ticks in usual.items():
            native.set(field, -1 if is_shared else ticks)
        for _ in range(DISPATCHES):
            empty_kernel[(2,)](x)

    functions = {"ours": partial(launches, True), "alone": partial(launches, False)}
    times = race(functions, seconds=1.0, clock=clock_for(2), threads=2)
    for field, ticks in usual.items():
        native.set(field, ticks)
    ours, alone = (times[name] / DISPATCHES for name in functions)
    return {"row": DISPATCH, "ours": ours, "peers": {"alone": alone}, "limit": DISPATCH_LIMIT}


def judge(row: Row, times: dict[str, float], making: frozenset[str], threads: int, target: Target) -> dict[str, Any]:
    """The row as run.py prints it. Beside peers that make their results in each call, our time is that of doing so."""
    others = {name: time for name, time in times.items() if not name.startswith("ours")}
    ours, alone = times["ours"], times.get("ours, 1 thread")
    bar, against = (row.bar, row.against) if is_wide(target) else row.narrow or (None, row.against)
    judged: dict[str, Any] = {"row": row.name, "ours": ours, "peers": others, "bar": bar}
    if "ours, anew" in times:
        judged |= {"anew": times["ours, anew"], "making": sorted(making & others.keys())}
    judged["against"] = min((name for name in against if name in others), key=partial(ratio, judged), default=None)
    if alone:
        judged |= {"speedup": alone / ours, "speedup_bar": THREADS_BAR if row.scales and threads == 2 else None}
    return judged


def shares(row: Row, rate: float, rates: list[float], target: Target) -> dict[str, Any]:
    """The share of the multiply-add peak that a dot reached."""
    if not rates:
        return {}
    bar = row.peak_bar if is_wide(target) else None
    peak = 1 / fast([1 / found for found in rates])
    return {"peak": peak, "share": rate / peak, "share_bar": bar}


def is_wide(target: Target) -> bool:
    """Whether vectors have 512 bits."""
    return target.lanes(32) >= 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="per row")
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-arguments.threads :])
    peers.limit_threads(arguments.threads)
    target = host_target(knobs.tilewright.cpu)
    if arguments.threads == 2 and re.search(arguments.only, DISPATCH):
        print(json.dumps(dispatch()), flush=True)
    for row in CONTESTS:
        if not re.search(arguments.only, row.name):
            continue
        try:
            found = measure(row, arguments.threads, arguments.seconds, target)
        except NotPossibleError as reason:
            found = {"row": row.name, "skipped": str(reason)}
        except Exception as error:  # noqa: BLE001 - one broken row must not hide the others
            found = {"row": row.name, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
