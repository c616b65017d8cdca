"""Reductions of floats: our code for a GPU and Triton's, run by the simulator, give the same bits.

`TRITON_PYTHON` names an interpreter with Triton 3.9.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_tritons_gpu_text import version

from tilewright.backends.base import GPUTarget
from tilewright.backends.ptxsim import DeviceMemory, Launch, load
from tilewright.runtime.compile import ASTSource, compile

KERNELS = """
import {library}
import {library}.language as tl

@{library}.jit
def row(out, x, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.sum(v, 0))
    tl.store(out + 1, tl.max(v, 0))
    tl.store(out + 2, tl.argmin(v, 0).to(v.dtype))

@{library}.jit
def tile(out, x, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    v = tl.load(x + tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :])
    tl.store(out + tl.arange(0, C if AXIS == 0 else B), tl.sum(v, AXIS))
"""
COMPILE = """
import json, sys, kernels
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
for line in sys.stdin:
    name, signature, constants, capability, warps = json.loads(line)
    source = ASTSource(getattr(kernels, name), signature, constants)
    made = compile(source, target=GPUTarget("cuda", capability, 32), options=dict(num_warps=warps))
    print(json.dumps((made.asm["ptx"], made.metadata.shared)))
"""
CASES: list[tuple[str, dict[str, int], int, str]] = [
    *(("row", {"B": 1024}, warps, "fp32") for warps in (1, 2, 4, 8, 16)),
    ("row", {"B": 512}, 4, "fp16"),
    *(("tile", {"B": 64, "C": 64, "AXIS": axis}, 4, "fp32") for axis in (0, 1)),
    *(("tile", {"B": 16, "C": 256, "AXIS": axis}, 8, "fp32") for axis in (0, 1)),
    ("tile", {"B": 32, "C": 32, "AXIS": 1}, 1, "fp32"),
]


def signature(constants: dict[str, int], element: str) -> dict[str, str]:
    return {"out": f"*{element}", "x": f"*{element}", **dict.fromkeys(constants, "constexpr")}


def results(ptx: str, shared: int, warps: int, x: np.ndarray[Any, Any]) -> bytes:
    memory = DeviceMemory()
    out, given = memory.copy_in(np.zeros_like(x)), memory.copy_in(x)
    Launch(load(ptx), threads=32 * warps, shared=shared).run(memory, [out, given, 0, 0])
    return memory.copy_out(out, x.shape, x.dtype).tobytes()


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90, 100, 120])
def test_sums_are_tritons_to_the_bit(capability: int, tmp_path: Path) -> None:
    if version() != "3.9":
        pytest.skip("TRITON_PYTHON is not Triton 3.9")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/kernels.py").write_text(KERNELS.format(library="triton"))
    ours = tmp_path / "our_kernels.py"
    ours.write_text(KERNELS.format(library="tilewright"))
    requests = [
        (name, signature(constants, element), constants, capability, w) for name, constants, w, element in CASES
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "theirs"), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [os.environ["TRITON_PYTHON"], "-c", COMPILE],
        input="\n".join(map(json.dumps, requests)),
        env=environment,
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    spec = importlib.util.spec_from_file_location("our_kernels", ours)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for (name, types, constants, _, warps), line in zip(requests, done.stdout.splitlines(), strict=True):
        source = ASTSource(getattr(module, name), types, constants)
        made = compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
        size = constants["B"] * constants.get("C", 1)
        x = np.random.default_rng(0).standard_normal(size).astype({"*fp32": "f4", "*fp16": "f2"}[types["x"]])
        expected = results(*json.loads(line), warps, x)
        assert results(str(made.asm["ptx"]), made.metadata.shared, warps, x) == expected, (name, constants, warps)
