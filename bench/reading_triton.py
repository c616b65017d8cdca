"""The inputs of Triton's `make_ir` for the matrix product: `measure_reading.py` runs this in a Python with Triton.

For each line of the input it prints the CPU seconds of one reading, the least of some.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend

KERNELS = Path(__file__).with_name("reading_kernels.py")
SAMPLES = 5


def kernels(folder: Path) -> Any:
    """The kernels, written for Triton."""
    file = folder / "kernels.py"
    file.write_text(KERNELS.read_text().replace("import tilewright", "import triton"))
    spec = importlib.util.spec_from_file_location("kernels", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        module = kernels(Path(folder))
        signature = {**module.RUN_TIME, **dict.fromkeys(module.CONSTANTS, "constexpr")}
        attributes = {(number,): [["tt.divisibility", 16]] for number in range(len(module.RUN_TIME))}
        source = ASTSource(module.matmul, signature, module.CONSTANTS, attributes)
        target = GPUTarget("cuda", 80, 32)
        backend = make_backend(target)
        options = backend.parse_options({})
        rest = backend.get_codegen_implementation(options), backend.get_module_map()

        def read() -> float:
            context = ir.context()
            ir.load_dialects(context)
            backend.load_dialects(context)
            start = time.thread_time()
            source.make_ir(target, options, *rest, context)
            return time.thread_time() - start

        read()
        gc.disable()
        for _ in sys.stdin:
            print(min(read() for _ in range(SAMPLES)), flush=True)


if __name__ == "__main__":
    main()
