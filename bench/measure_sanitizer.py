"""The table "Sanitizer": how much slower the ten examples run when they check themselves. `run.py` starts it.

Prints a JSON line per row. `ours` is with all checks, the peer is the same without, so the bar of ten times is a
ratio of a tenth. The problems are those of examples/demo.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from batched_gemm import batched_matmul
from conv2d import conv2d
from dropout import dropout
from flash_attention import attention
from histogram import histogram
from layer_norm import layer_norm, layer_norm_backward
from matmul import matmul
from prefix_sum import prefix_sum
from softmax import softmax
from timing import race
from vector_add import add

BAR = 0.1
CHECKS = "bounds,races,uninit"
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def problems() -> dict[str, Callable[..., Any]]:
    """The measured kernels, each a function that takes launch options."""
    rows, weight, bias, gradient = normal(1023, 1000), normal(1000), normal(1000), normal(1023, 1000)
    _, mean, scale = layer_norm(rows, weight, bias)
    values = RNG.integers(0, 256, 1_000_003, np.int32)
    long = normal(1_000_003)
    return {
        "vector add, 1 000 003": partial(add, long, normal(1_000_003)),
        "softmax, 1023×1000": partial(softmax, rows),
        "matmul fp32, 500×700×600": partial(matmul, normal(500, 700), normal(700, 600)),
        "batched matmul, 20 of 100×80×90": partial(batched_matmul, normal(20, 100, 80), normal(20, 80, 90)),
        "layer norm, 1023×1000": partial(layer_norm, rows, weight, bias),
        "its gradients": partial(layer_norm_backward, rows, gradient, weight, mean, scale),
        "attention, 4 heads of 500×64": partial(attention, *normal(3, 4, 500, 64)),
        "conv2d 3×3, 4×16×40×50 → 32": partial(conv2d, normal(4, 16, 40, 50), normal(32, 16, 3, 3), padding=1),
        "histogram of 1 000 003": partial(histogram, values, 256),
        "prefix sum of 1 000 003": partial(prefix_sum, values),
        "dropout of 1 000 003": partial(dropout, long, 0.3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    only = parser.parse_args().only
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    for name, problem in problems().items():
        row = f"sanitizer: {name}"
        if re.search(only, row):
            ways = {"ours": partial(problem, sanitize=CHECKS), "off": problem}
            times = race(ways, seconds=0.6, clock=time.process_time)
            print(json.dumps({"row": row, "ours": times.pop("ours"), "peers": times, "bar": BAR, "against": "off"}))


if __name__ == "__main__":
    main()
