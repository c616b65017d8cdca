"""Triton's side of the table "GPU code": `gpu_static.py` runs this in a Python with Triton.

For each line of the input, `[name of an anchor, samples]`, it prints a line: PTX, TTGIR, shared and scratch memory, and
the least seconds from source to cubin of so many compilations.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, compile

KERNELS = Path(__file__).with_name("gpu_static_kernels.py")


def kernels(folder: Path) -> Any:
    """The kernels, written for Triton."""
    file = folder / "kernels.py"
    file.write_text(KERNELS.read_text().replace("tilewright", "triton"))
    spec = importlib.util.spec_from_file_location("kernels", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernels"] = module
    spec.loader.exec_module(module)
    return module


def compiled(module: Any, anchor: Any) -> tuple[Any, float]:
    """A kernel, and the seconds that it took."""
    signature = {**anchor.types, **dict.fromkeys(anchor.constants, "constexpr")}
    attributes = {(list(anchor.types).index(name),): [["tt.divisibility", 16]] for name in anchor.aligned}
    start = time.perf_counter()
    source = ASTSource(getattr(module, anchor.kernel), signature, anchor.constants, attributes)
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages}
    kernel = compile(source, target=GPUTarget("cuda", anchor.capability, 32), options=options)
    return kernel, time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRITON_CACHE_DIR": folder, "TRITON_ALWAYS_COMPILE": "1"}
        module = kernels(Path(folder))
        anchors = {anchor.name: anchor for anchor in module.ANCHORS}
        for line in sys.stdin:
            name, samples = json.loads(line)
            results = [compiled(module, anchors[name]) for _ in range(samples)]
            kernel = results[0][0]
            answer = {
                "ptx": kernel.asm["ptx"],
                "ttgir": kernel.asm["ttgir"],
                "shared": kernel.metadata.shared,
                "scratch": kernel.metadata.global_scratch_size,
                "seconds": min(seconds for _, seconds in results),
            }
            print(json.dumps(answer), flush=True)


main()
