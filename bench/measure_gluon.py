"""One process of the table "Gluon, beside Triton": kernels of Gluon from their source to TTGIR, and on to PTX.

CPU time, from a function that nobody has read; the library's functions that it calls are known, as they are after the
first kernel. The kernels are those whose TTGIR the tests compare with Triton's. TRITON_PYTHON names a Python that has
Triton 3.9; without it there are no rows. Each row is a median over the kernels, the best of several each.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import FunctionType
from typing import Any

from timing import median_row

from tilewright import gluon
from tilewright.backends.base import GPUTarget, Language
from tilewright.backends.registry import make_backend
from tilewright.compat.filecheck import run_parser

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "gluon"))
import gluon_programs as programs  # noqa: E402 - it lies with the tests
from gluon_arguments import arguments_of  # noqa: E402 - so does this

SAMPLES = 7
ROWS = {"Gluon to TTGIR": 0, "Gluon to PTX": 1}


def unread(kernel: Any) -> Any:
    """The same kernel, which no reader has seen."""
    python = kernel.fn
    made = FunctionType(python.__code__, python.__globals__, python.__name__, python.__defaults__, python.__closure__)
    made.__annotations__ = python.__annotations__
    return gluon.jit(made)


def compiled(row: str) -> dict[str, Any]:
    """The PTX of a row such as `copy 80`, its bytes of shared memory, and the seconds to TTGIR, and to PTX."""
    name, capability = row.split()
    target = GPUTarget("cuda", int(capability), 32)
    backend = make_backend(target)
    stages: dict[str, Any] = {}
    options = backend.parse_options({"num_warps": 4, "num_ctas": programs.CTAS.get(name, 1)})
    backend.add_stages(stages, options, Language.GLUON)
    arguments, kernel, metadata = arguments_of(name), unread(getattr(programs, name)), {"name": name}
    start = time.thread_time()
    module = stages["ttgir"](run_parser(kernel, kwargs=arguments, target=target).op, metadata)
    first = time.thread_time() - start
    ptx = stages["ptx"](stages["llir"](module, metadata), metadata)
    return {"seconds": (first, time.thread_time() - start), "ptx": ptx, "shared": metadata["shared"]}


def theirs(python: str, samples: int = SAMPLES, *others: str) -> dict[str, dict[str, Any]]:
    """The results of `compiled` by Triton, with the least seconds of some samples; of all devices with `everywhere`."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "TRITON"))}
    command = [python, str(HERE / "gluon_triton.py"), str(samples), *others]
    leaks = subprocess.DEVNULL  # Triton lists what it has not freed when its process ends
    text = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=leaks, text=True, check=True).stdout
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    only = parser.parse_args().only
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    python, wanted = os.environ.get("TRITON_PYTHON"), [name for name in ROWS if re.search(only, name)]
    if not python or not wanted:
        return
    triton = theirs(python)
    gc.disable()
    samples = {row: [compiled(row)["seconds"] for _ in range(SAMPLES)] for row in triton}
    ours = {row: [min(costs) for costs in zip(*own, strict=True)] for row, own in samples.items()}
    for name in wanted:
        stage = ROWS[name]
        both = [costs[stage] for costs in ours.values()], [each["seconds"][stage] for each in triton.values()]
        print(json.dumps(median_row(name, *both, bar=1.0)), flush=True)


if __name__ == "__main__":
    main()
