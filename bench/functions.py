"""Kernels that apply one function of the math library, for `beside.py`: 64 programs of 1,024 elements of fp32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice

COUNT, BLOCK = 1 << 16, 1024


@tw.jit
def function_kernel(x_ptr, out_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    if FUNCTION == "tanh":
        y = libdevice.tanh(x)
    elif FUNCTION == "exp":
        y = tl.exp(x)
    elif FUNCTION == "log":
        y = tl.log(x)
    elif FUNCTION == "erf":
        y = tl.erf(x)
    elif FUNCTION == "sin":
        y = tl.sin(x)
    else:
        y = tl.cos(x)
    tl.store(out_ptr + offsets, y, mask=offsets < n)


def function_works(threads: int) -> Iterator[tuple[str, Callable[[], Callable[[], object]]]]:
    """Names of rows, and what makes each ready."""
    for name in ("tanh", "exp", "log", "erf", "sin", "cos"):
        yield f"function {name}", partial(_work, name, threads)


def _work(name: str, threads: int) -> Callable[[], Any]:
    x = np.random.default_rng(0).uniform(0.1, 4, COUNT).astype(np.float32)
    launch = function_kernel[(COUNT // BLOCK,)]
    return partial(launch, x, np.empty_like(x), COUNT, FUNCTION=name, BLOCK=BLOCK, num_threads=threads)
