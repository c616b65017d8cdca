"""The table "GPU code" of kernels of Gluon: registers, spills, shared memory and instructions beside Triton's.

    TRITON_PYTHON=…/bin/python python bench/gpu_static_gluon.py

The kernels are those of `measure_gluon.py`, for all compute capabilities among 80, 90, 100 and 120 that have what they
need. PTX of both compilers goes through one assembler.
"""

from __future__ import annotations

import os
import sys

import gpu_static
from gpu_static import Code, code_of
from measure_gluon import compiled, theirs

SAMPLES = 3


def codes(row: str, triton: dict[str, object]) -> tuple[Code, Code]:
    """The counts of our code, and of Triton's."""
    samples = [compiled(row) for _ in range(SAMPLES)]
    ours = {**samples[0], "seconds": min(sample["seconds"] for sample in samples)}
    capability = int(row.split()[1])
    first, second = (code_of(capability, one["ptx"], one["shared"], one["seconds"][1]) for one in (ours, triton))
    return first, second


def main() -> None:
    python = os.environ.get("TRITON_PYTHON")
    if not python:
        sys.exit("TRITON_PYTHON must name a Python that has Triton 3.9")
    gpu_static.use_assembler_of(python)
    print(gpu_static.HEAD.replace("cubin", "PTX  "))
    pairs = {row: codes(row, triton) for row, triton in theirs(python, SAMPLES, "everywhere").items()}
    for row, (ours, triton) in pairs.items():
        print(gpu_static.row(row, ours, triton), flush=True)
    print(*gpu_static.summary([*pairs.values()]), sep="\n")


if __name__ == "__main__":
    main()
