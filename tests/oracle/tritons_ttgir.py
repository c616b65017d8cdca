"""Run by the interpreter of an environment with Triton: reads TTIR as JSON, writes the TTGIR that Triton makes of it.

Input, a line for each module: `[text, capability, warps, stages]`. Output, a line for each: the text.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend


def ttgir(path: Path, capability: int, warps: int, stages: int) -> str:
    backend: Any = make_backend(GPUTarget("cuda", capability, 32))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module: Any = ir.parse_mlir_module(str(path), context)
    module.context = context
    options = backend.parse_options({"num_warps": warps, "num_stages": stages})
    metadata: dict[str, Any] = {}
    module = backend.make_ttir(module, metadata, options, capability)
    return str(backend.make_ttgir(module, metadata, options, capability).str_nodebug())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ttir"
        for line in sys.stdin:
            text, capability, warps, stages = json.loads(line)
            path.write_text(text)
            sys.stdout.write(json.dumps(ttgir(path, capability, warps, stages)) + "\n")


main()
