"""Triton's times for kernels of Gluon: `measure_gluon.py` runs this in a Python with Triton.

    gluon_triton.py 3                   three compilations of each kernel for its first compute capability
    gluon_triton.py 3 everywhere        for all that it compiles for

It prints, by kernel and compute capability, the least CPU seconds of some compilations from the source to TTGIR, and on
to PTX, that PTX and the bytes of shared memory.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gluon"))
import gluon_programs as programs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import make_backend
from triton.experimental.gluon._runtime import GluonASTSource

ELEMENTS = {32: "fp32", 16: "fp16"}
SAMPLES, EVERYWHERE = int(sys.argv[1]), "everywhere" in sys.argv


def source_of(name: str) -> GluonASTSource:
    _, types, constants, descriptors = programs.CASES[name]
    kernel = getattr(programs, name)
    maps = {
        key: f"tensordesc<{ELEMENTS[layout.element_bitwidth]}{block},{layout!r}>"
        for key, (block, layout) in descriptors.items()
    }
    signature = {key: {**types, **maps}.get(key, "constexpr") for key in kernel.arg_names}
    constexprs = {(kernel.arg_names.index(key),): value for key, value in constants.items()}
    pointers = [number for number, kind in enumerate(signature.values()) if kind.startswith("*")]
    return GluonASTSource(kernel, signature, constexprs, {(n,): [["tt.divisibility", 16]] for n in pointers})


def compiled(name: str, capability: int) -> dict[str, Any]:
    target = GPUTarget("cuda", capability, 32)
    backend: Any = make_backend(target)
    options = backend.parse_options({"num_warps": 4, "num_ctas": programs.CTAS.get(name, 1)})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.GLUON)
    rest = backend.get_codegen_implementation(options), backend.get_module_map()
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = source_of(name)
    metadata: dict[str, Any] = {}
    start = time.thread_time()
    module = stages["ttgir"](source.make_ir(target, options, *rest, context), metadata)
    first = time.thread_time() - start
    start = time.thread_time()
    ptx = stages["ptx"](stages["llir"](module, metadata), metadata)
    both = first, first + time.thread_time() - start
    return {"seconds": both, "ptx": ptx, "shared": metadata["shared"]}


def main() -> None:
    gc.disable()
    found = {}
    for name in programs.CASES:
        for capability in programs.capabilities_of(name)[: None if EVERYWHERE else 1]:
            samples = [compiled(name, capability) for _ in range(SAMPLES)]
            least = [min(costs) for costs in zip(*(sample["seconds"] for sample in samples), strict=True)]
            found[f"{name} {capability}"] = {**samples[0], "seconds": least}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
