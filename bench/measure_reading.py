"""One process of the table "Reading": the three front ends on the tutorial's matrix product, and Triton's `make_ir`.

CPU time from a function that nobody has read to its TTIR; the library's functions that it calls are known, as they are
after the first kernel. TRITON_PYTHON names a Python that has Triton 3.9; it takes turns with us.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import reading_kernels as kernels

import tilewright.language as tl
from tilewright.frontends import EvaluateOptions, Parameter
from tilewright.frontends.choice import make_ttir

ROUNDS, SAMPLES = 8, 5
LIMITS = {"ast": 5e-3, "bytecode": 5e-3, "trace": 3e-3}
MULTIPLE = 16


def matmul_with_functions(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    """The same product with its loop as a function, for tracing."""
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)

    def turn(k, carried):
        accumulator, a_ptrs, b_ptrs = carried
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        return tl.dot(a, b, accumulator), a_ptrs + BLOCK_K, b_ptrs + BLOCK_K * stride_bk

    start = (
        tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32),
        a_ptr + (offs_m[:, None] * stride_am + offs_k[None, :]),
        b_ptr + (offs_k[:, None] * stride_bk + offs_n[None, :]),
    )
    accumulator, _, _ = tl.fori_loop(0, tl.cdiv(K, BLOCK_K), turn, start)
    if ACTIVATION == "leaky_relu":
        accumulator = kernels.leaky_relu(accumulator)
    c = accumulator.to(tl.float16)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


def parameters() -> list[Parameter]:
    run_time = (Parameter(n, tl.str_to_ty(kind), divisibility=MULTIPLE) for n, kind in kernels.RUN_TIME.items())
    return [*run_time, *(Parameter(name, constant=value) for name, value in kernels.CONSTANTS.items())]


def unread(python: FunctionType) -> FunctionType:
    """The same function, which no reader has seen."""
    made = FunctionType(python.__code__, python.__globals__, python.__name__, python.__defaults__, python.__closure__)
    made.__annotations__ = python.__annotations__
    return made


def seconds_of(frontend: str, given: list[Parameter]) -> float:
    """The least of some readings."""
    python = matmul_with_functions if frontend == "trace" else kernels.matmul.fn
    costs = []
    for _ in range(SAMPLES):
        function = unread(python)
        start = time.thread_time()
        make_ttir(function, given, name="matmul", options=EvaluateOptions(), frontend=frontend)
        costs.append(time.thread_time() - start)
    return min(costs)


def reading() -> Iterator[dict[str, Any]]:
    triton = _triton()
    given = parameters()
    costs: dict[str, list[float]] = {name: [] for name in LIMITS}
    theirs = []
    gc.disable()
    for _ in range(ROUNDS):
        for frontend, found in costs.items():
            found.append(seconds_of(frontend, given))
        if triton is not None:
            theirs.append(_asked(triton))
        gc.collect()
    if triton is not None:
        triton.communicate()
    for frontend, found in costs.items():
        row: dict[str, Any] = {"row": f"read matmul, {frontend}", "ours": min(found), "limit": LIMITS[frontend]}
        if theirs:
            row |= {"peers": {"triton": min(theirs)}, "against": "triton", "bar": 1.0}
        yield row


def _triton() -> subprocess.Popen[str] | None:
    python = os.environ.get("TRITON_PYTHON")
    if not python:
        return None
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "TRITON"))}
    command = [python, str(Path(__file__).with_name("reading_triton.py"))]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _asked(triton: subprocess.Popen[str]) -> float:
    assert triton.stdin, "a pipe"
    assert triton.stdout, "a pipe"
    triton.stdin.write("\n")
    triton.stdin.flush()
    return float(triton.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    only = parser.parse_args().only
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    if not any(re.search(only, f"read matmul, {name}") for name in LIMITS):
        return
    try:
        for row in reading():
            if re.search(only, row["row"]):
                print(json.dumps(row), flush=True)
    except Exception as error:  # noqa: BLE001 - one broken row must not hide the others
        print(json.dumps({"row": "read matmul", "error": f"{type(error).__name__}: {error}"}), flush=True)
        sys.exit(0)


if __name__ == "__main__":
    main()
