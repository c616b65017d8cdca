"""The table "Tuning": how long the first launch of an autotuned matmul takes. `run.py` starts it.

24 configurations, nothing cached; once compiled by one process and once by one for each CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import product

ROW = "autotune 24 matmul configurations"
ROUNDS = 3


def tune() -> float:
    """Seconds of the first launch in this process."""
    import matmul
    import numpy as np

    import tilewright as tw

    tiles = [
        tw.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8})
        for m, n, k in product((16, 32, 64, 128), (32, 64, 128), (32, 64))
    ]
    kernel = tw.autotune(tiles, key=["M", "N", "K"])(matmul.matmul_kernel)
    a, b, c = (np.ones((256, 256), np.float32) for _ in range(3))
    strides = (256, 1) * 3

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (tw.cdiv(256, meta["BLOCK_M"]) * tw.cdiv(256, meta["BLOCK_N"]),)

    start = time.perf_counter()
    kernel[grid](a, b, c, 256, 256, 256, *strides, ACCUMULATOR=matmul.tl.float32)
    return time.perf_counter() - start


def measured(workers: int) -> float:
    """Seconds in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_CACHE_DIR": cache, "TILEWRIGHT_COMPILE_WORKERS": str(workers)}
        command = [sys.executable, __file__, "--tune"]
        return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--tune", action="store_true")
    arguments = parser.parse_args()
    if arguments.tune:
        print(tune())
        return
    if not re.search(arguments.only, ROW):
        return
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        print(json.dumps({"row": ROW, "skipped": "needs two CPUs"}))
        return
    times = [(measured(1), measured(2)) for _ in range(ROUNDS)]
    alone, shared = (min(column) for column in zip(*times, strict=True))
    row = {"row": ROW, "ours": shared, "limit": 3.0, "peers": {"one worker": alone}}
    print(json.dumps({**row, "against": "one worker", "bar": 1.7}))


if __name__ == "__main__":
    main()
