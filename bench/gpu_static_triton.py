"""Triton's side of the table "GPU code": `gpu_static.py` runs this in a Python with Triton.

For each line of the input, `[fields of an anchor, samples]`, it prints a line: PTX, TTGIR, shared and scratch memory,
and the least seconds from source to cubin of so many compilations: by the clock, and of CPU time, ptxas included.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, compile

BENCH = Path(__file__).parent
FILES = (BENCH / "gpu_static_kernels.py", *sorted((BENCH / "gpu_library").glob("*.py")))


def library(folder: Path) -> Any:
    """The package `gpu_library` with all kernels, written for Triton."""
    for source in FILES:
        file = folder / source.relative_to(BENCH)
        file.parent.mkdir(exist_ok=True)
        file.write_text(source.read_text().replace("tilewright", "triton"))
    sys.path[0] = str(folder)  # in place of this script's folder, which has the same names
    return importlib.import_module("gpu_library")


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def compiled(module: Any, anchor: Any) -> tuple[Any, float, float]:
    """A kernel, and the seconds that it took: by the clock, and of CPU time."""
    signature = {**anchor.types, **dict.fromkeys(anchor.constants, "constexpr")}
    attributes = {(list(anchor.types).index(name),): [["tt.divisibility", 16]] for name in anchor.aligned}
    start, cpu = time.perf_counter(), cpu_seconds()
    source = ASTSource(module.function(anchor.kernel), signature, anchor.constants, attributes)
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages}
    kernel = compile(source, target=GPUTarget("cuda", anchor.capability, 32), options=options)
    return kernel, time.perf_counter() - start, cpu_seconds() - cpu


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRITON_CACHE_DIR": folder, "TRITON_ALWAYS_COMPILE": "1"}
        module = library(Path(folder))
        for line in sys.stdin:
            fields, samples = json.loads(line)
            anchor = module.Anchor(*fields)
            results = [compiled(module, anchor) for _ in range(samples)]
            kernel = results[0][0]
            answer = {
                "ptx": kernel.asm["ptx"],
                "ttgir": kernel.asm["ttgir"],
                "shared": kernel.metadata.shared,
                "scratch": kernel.metadata.global_scratch_size,
                "seconds": min(seconds for _, seconds, _ in results),
                "cpu": min(cpu for *_, cpu in results),
            }
            print(json.dumps(answer), flush=True)


main()
