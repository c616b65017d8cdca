"""One process of the table "Hard kernels": prints a JSON line per row. `run.py` starts it.

CPU time from source to machine code, in a process that has compiled before; see `hard_kernels.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time

import hard_kernels
import peers

BAR = 1.0
"""Seconds."""
ROUNDS = 3


def compile_seconds(case: hard_kernels.Case) -> float:
    """The least of some compilations."""
    costs = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        case.compile()
        costs.append(time.thread_time() - start)
    return min(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    only = parser.parse_args().only
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    peers.limit_threads(1)
    hard_kernels.CASES[0].compile()
    for case in hard_kernels.CASES:
        row = f"compile {case.name}"
        if re.search(only, row):
            print(json.dumps({"row": row, "ours": compile_seconds(case), "limit": BAR}), flush=True)


if __name__ == "__main__":
    main()
