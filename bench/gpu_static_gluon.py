"""The table "GPU code" of kernels of Gluon: registers, spills, shared memory and instructions beside Triton's.

    TRITON_PYTHON=…/bin/python python bench/gpu_static_gluon.py

The kernels are those of `measure_gluon.py`. PTX of both compilers goes through one assembler.
"""

from __future__ import annotations

import os
import sys

import gpu_static
from gpu_static import Code, code_of
from measure_gluon import compiled, programs, theirs

SAMPLES = 3


def codes(name: str, triton: dict[str, object]) -> tuple[Code, Code]:
    """The counts of our code, and of Triton's."""
    samples = [compiled(name) for _ in range(SAMPLES)]
    ours = {**samples[0], "seconds": min(sample["seconds"] for sample in samples)}
    capability = programs.CASES[name][0]
    first, second = (code_of(capability, one["ptx"], one["shared"], one["seconds"][1]) for one in (ours, triton))
    return first, second


def main() -> None:
    python = os.environ.get("TRITON_PYTHON")
    if not python:
        sys.exit("TRITON_PYTHON must name a Python that has Triton 3.9")
    gpu_static.use_assembler_of(python)
    print(gpu_static.HEAD.replace("cubin", "PTX  "))
    pairs = {name: codes(name, triton) for name, triton in theirs(python, SAMPLES).items()}
    for name, (ours, triton) in pairs.items():
        print(gpu_static.row(name, ours, triton), flush=True)
    print(*gpu_static.summary([*pairs.values()]), sep="\n")


if __name__ == "__main__":
    main()
