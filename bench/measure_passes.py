"""One process of the table "Passes": prints a JSON line per row. `run.py` starts it.

TRITON_PYTHON names a Python that has Triton 3.9; without it there are no rows. Each row is a median over the kernels
whose TTIR the tests have; both sides verify after every pass and are measured in one run, the best of several each.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import peers
from timing import median_row

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.transforms.gpu.pipeline import TtgirOptions, ttgir_passes
from tilewright.transforms.pipeline import device_passes, optimize_ttir

if not tilewright.dialects.__all__:
    raise ImportError("the parser needs declared ops")
TESTS = Path(__file__).resolve().parents[1] / "tests"
FOLDERS = {"transforms/modules": "*.ttir", "ir/triton_text": "*.source"}
KERNELS = [path for folder, pattern in FOLDERS.items() for path in sorted((TESTS / folder).glob(pattern))]
REPEAT = 15
CAPABILITIES = (80, 90)
WARPS, STAGES = 4, 3


def beside_triton(measure: Callable[[str], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The results of `measure` in a Python with Triton, where there is one."""
    python = os.environ.get("TRITON_PYTHON")
    if python:
        yield measure(python)


def ttir_row(python: str) -> dict[str, Any]:
    """The passes on TTIR, beside `make_ttir` of Triton's back end for NVIDIA."""
    texts = [print_op(parse_module(text), triton="3.9") for text in kernels()]
    requests = [{"module": text, "capability": c, "repeat": REPEAT} for text in texts for c in CAPABILITIES]
    theirs = [answer["seconds"] for answer in answers(python, "tritons_ttir.py", requests)]
    ours = [best(text, device_passes(capability)) for text in texts for capability in CAPABILITIES]
    return median_row("TTIR passes", ours, theirs, bar=1.0)


def ttgir_row(python: str) -> dict[str, Any]:
    """The passes from TTIR to TTGIR, beside `make_ttgir` of Triton's back end for NVIDIA."""
    texts = [print_op(module, triton="3.9") for module in optimized_modules()]
    requests = [[text, c, WARPS, STAGES, REPEAT] for text in texts for c in CAPABILITIES]
    theirs = [seconds for _, seconds in answers(python, "tritons_ttgir.py", requests)]
    ours = [best(text, ttgir_passes(TtgirOptions(c, WARPS, num_stages=STAGES))) for text in texts for c in CAPABILITIES]
    return median_row("TTGIR passes", ours, theirs, bar=0.5)


def answers(python: str, script: str, requests: Sequence[object]) -> list[Any]:
    """The answers of Triton, in a process of its own, to each of `requests`."""
    command = [python, str(TESTS / "oracle" / script)]
    lines = "\n".join(map(json.dumps, requests))
    said = subprocess.run(command, input=lines, text=True, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in said.splitlines()]


def optimized_modules() -> list[Op]:
    """The kernels as Triton's passes on TTIR leave them."""
    return [optimize_ttir(parse_module(text)) for text in kernels()]


def kernels() -> list[str]:
    """The TTIR of kernels that Triton 3.9 reads, too: it has no block pointers."""
    return [text for text in (path.read_text() for path in KERNELS) if "tt.make_tensor_ptr" not in text]


def text_rows() -> Iterator[dict[str, Any]]:
    """Reading and printing TTIR and TTGIR, per op; the bar is in microseconds."""
    modules = optimized_modules()
    for module in list(modules):
        modules.append(parse_module(print_op(module)))
        run_passes(modules[-1], ttgir_passes(TtgirOptions(80)))
    ops = sum(1 for module in modules for _ in module.walk())
    texts = [print_op(module) for module in modules]
    for name, work in (
        ("parse, per op", lambda: [parse_module(text) for text in texts]),
        ("print, per op", lambda: [print_op(module) for module in modules]),
    ):
        yield {"row": name, "ours": min(seconds_of(work) for _ in range(REPEAT)) / ops, "limit": 30e-6}


def seconds_of(work: Callable[[], Any]) -> float:
    """The seconds that `work` takes."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def best(text: str, passes: Any) -> float:
    """The seconds that passes take on a module, verification included."""
    return min(timed(parse_module(text), passes) for _ in range(REPEAT))


def timed(module: Op, passes: Any) -> float:
    start = time.thread_time()
    run_passes(module, passes)
    return time.thread_time() - start


ROWS: tuple[tuple[str, Callable[[], Iterator[dict[str, Any]]]], ...] = (
    ("TTIR passes", partial(beside_triton, ttir_row)),
    ("TTGIR passes", partial(beside_triton, ttgir_row)),
    ("text", text_rows),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    only = parser.parse_args().only
    peers.limit_threads(1)
    for name, measure in ROWS:
        if re.search(only, name):
            for row in measure():
                print(json.dumps(row), flush=True)


main()
