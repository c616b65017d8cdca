"""Run by the interpreter of an environment with Triton: reads TTIR as JSON, writes the TTGIR that Triton makes of it.

Input, a line for each module: `[text, capability, warps, stages, repeat]`. Output, a line for each: the text, and the
seconds that its passes take, best of `repeat`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend


def ttgir(path: Path, capability: int, warps: int, stages: int) -> tuple[str, float]:
    backend: Any = make_backend(GPUTarget("cuda", capability, 32))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module: Any = ir.parse_mlir_module(str(path), context)
    module.context = context
    options = backend.parse_options({"num_warps": warps, "num_stages": stages})
    metadata: dict[str, Any] = {}
    module = backend.make_ttir(module, metadata, options, capability)
    start = time.thread_time()
    module = backend.make_ttgir(module, metadata, options, capability)
    seconds = time.thread_time() - start
    return str(module.str_nodebug()), seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ttir"
        for line in sys.stdin:
            text, capability, warps, stages, repeat = json.loads(line)
            path.write_text(text)
            results = [ttgir(path, capability, warps, stages) for _ in range(repeat)]
            sys.stdout.write(json.dumps([results[0][0], min(seconds for _, seconds in results)]) + "\n")


main()
