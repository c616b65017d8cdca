"""Objects are what a linker of the system takes: into a shared library, without relocations in the code."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from pass_kernels import CALLS, ttir_of

from tilewright.backends.base import GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.compiler.compile import compile_kernel

CC = shutil.which("cc")
STRICT = ("-shared", "-Wl,-z,defs", "-Wl,-z,text", "-Wl,--fatal-warnings")


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.skipif(platform.system() != "Linux", reason="objects are ELF")
@pytest.mark.parametrize("name", CALLS)
def test_shared_library(name: str, tmp_path: Path) -> None:
    backend = CpuBackend(GPUTarget("cpu", platform.machine(), 0))
    origin, options = ("ttir", ttir_of(name)), backend.parse_options({})
    made = compile_kernel(origin, name=name, signature=(), digest="", backend=backend, options=options)
    (tmp_path / "kernel.o").write_bytes(made.binary)
    linked = subprocess.run(
        [str(CC), *STRICT, "kernel.o", "-o", "kernel.so"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (linked.returncode, linked.stderr) == (0, "")
