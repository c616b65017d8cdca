"""The demo: a row is faster than NumPy, or says what the limit is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = """
import demo
demo.bandwidth = lambda megabytes: 50e9
demo.operations_per_second = lambda kind: {"fp32": 100e9, "int8": 400e9}[kind]
case = demo.Case("a case", None, None, megabytes=10, operations=1)
print(demo.limit(case, 0.25e-3, 0.2e-3))
case = demo.Case("a case", None, None, megabytes=1, operations=400, kind="int8")
print(demo.limit(case, 2e-3, 4e-3))
demo.best_seconds = lambda ours, numpy: [1.0, 2.0]
(case, *_) = demo.cases()
print(demo.compare(case))
demo.best_seconds = lambda ours, numpy: [2.0, 1.0]
print(demo.compare(case))
"""


def test_rows() -> None:
    command = [sys.executable, "-c", ROWS]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    of_memory, of_operations, faster, slower = done.stdout.splitlines()
    assert of_memory == "limit: 10 MB at 50 GB/s take 0.200 ms; this reaches 80% of that, NumPy 100%"
    assert of_operations == (
        "limit: 400 million operations at 400 billion per second take 1.000 ms; this reaches 50% of that, NumPy 25%"
    )
    assert re.fullmatch(r"vector add, 1 000 003 +0\.0e\+00 +[\d.]+ ms +1000\.000 ms +2000\.000 ms +2\.00", faster)
    assert re.search(r" 0\.50  limit: 12 MB at 50 GB/s take 0\.240 ms; this reaches 0% of that, NumPy 0%$", slower)
