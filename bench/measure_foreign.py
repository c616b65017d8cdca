"""One process of a table "Kernels of others": prints a JSON line per row. `run.py` starts it and sets its environment.

python bench/measure_foreign.py --size L1 --threads 1 --seconds 1 --only sort

Every row has the same bar: as fast as the fastest peer, on equal terms. Where that peer takes no longer than bytes
take to be copied, or multiply-adds to be done, as measured between the samples of the row, the bar is that limit, but
at least LEAST; `share` is the share of the limit that ours reaches.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from functools import partial
from typing import Any

import peers
from fma_peak import Peak
from foreign import ROWS
from foreign.problem import SIZES, Row
from timing import clock_for, fast, race

from tilewright.backends.llvm.machine import host_target
from tilewright.support import knobs

BAR, LEAST = 1.0, 0.9
"""The ratio to reach, and the least one: one way of copying is measured, and a peer's may be better."""
SHARE = 0.4
"""The part of the time for a row that one takes here, as there are so many."""


def measure(row: Row, size: str, threads: int, seconds: float, peak: Peak) -> dict[str, Any]:
    """Check one problem, then let everybody run it in turns; times are in seconds."""
    problem = row.make(*row.shapes[SIZES.index(size)])
    works = problem.works()
    making = problem.check(works)
    stream, dispatch = problem.stream()
    functions = {"ours": partial(problem.launch, problem.out, threads), **works, "stream": stream, "dispatch": dispatch}
    if making:
        functions["ours, anew"] = partial(problem.anew, threads)
    rates: list[float] = []
    if problem.operations:
        functions["peak"] = lambda: rates.extend(peak.sample(problem.peak) for _ in range(5))
    times = race(functions, seconds=SHARE * seconds, clock=clock_for(threads), threads=threads)
    times.pop("peak", None)
    limits = [max(0.0, times.pop("stream") - times.pop("dispatch"))]
    if rates:
        limits.append(problem.operations * fast([1 / rate for rate in rates]) / threads)
    return judge(row.name, times, making, max(limits))


def judge(name: str, times: dict[str, float], making: frozenset[str], limit: float) -> dict[str, Any]:
    """The row as run.py prints it; `share` is of the limit."""
    ours, anew = times.pop("ours"), times.pop("ours, anew", None)
    judged: dict[str, Any] = {"row": name, "ours": ours, "anew": anew, "peers": times, "making": sorted(making)}
    judged["share"] = limit / ours
    if not times:
        return judged | {"limit": limit}
    against = min(times, key=lambda peer: times[peer] / (anew if anew and peer in making else ours))
    reachable = times[against] / limit if limit else BAR
    return judged | {"against": against, "bar": min(BAR, max(LEAST, reachable))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default=SIZES[0], help="what the arrays fit into")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="per row")
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-arguments.threads :])
    peers.limit_threads(arguments.threads)
    peak = Peak(host_target(knobs.tilewright.cpu))
    for row in ROWS:
        if not re.search(arguments.only, row.name):
            continue
        try:
            found = measure(row, arguments.size, arguments.threads, arguments.seconds, peak)
        except Exception as error:  # noqa: BLE001 - one broken row must not hide the others
            found = {"row": row.name, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
