"""The kernels of `bench/gpu_library` give on simulated GPUs, with all checks, what they give on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import getsource
from itertools import cycle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from long_runs import LONG

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import gpu_library

TYPES = {
    "*bf16": ml_dtypes.bfloat16,
    "*fp16": np.float16,
    "*fp32": np.float32,
    "*i32": np.int32,
    "*i64": np.int64,
    "*i8": np.int8,
}
DEVICES = ("cuda:80", "cuda:90")
ELEMENTS = 1 << 16
GRID = (2, 1)
NUMBERS = {
    "stride": 144,
    "n": 100,
    "rows": 5,
    "columns": 70,
    "M": 40,
    "N": 48,
    "K": 72,
    "width": 80,
    "size": 100,
    "channels": 16,
    "groups": 4,
    "batch": 2,
    "height": 5,
    "filters": 20,
    "length": 70,
    "heads": 2,
    "pages": 3,
    "splits": 3,
    "top": 2,
    "seed": 3,
    "ignored": -100,
    "eps": 1e-5,
    "p": 0.25,
    "smoothing": 0.1,
    "scale": 0.2,
    "base": 10000.0,
    "rate": 0.01,
    "beta1": 0.9,
    "beta2": 0.99,
    "decay": 0.1,
    "step": 3.0,
}
"""Values of arguments by name: ragged sizes for the most part."""
NUMBERS_OF = {
    "linear_attention": {"length": 128},
    "rotary": {"stride": 256},
    "route": {"rows": 32},  # rows of NaN have no order in which all threads agree
    "rotary_computed": {"stride": 256},
    "product_int4": {"K": 128, "N": 64},
    "product_int8": {"M": 64, "N": 64},
    "product_weights8": {"N": 32, "K": 304},
}
"""The same for kernels that leave out masks where sizes are multiples of their blocks."""
INDICES = {
    "token_ptr": np.arange,
    "padded": lambda count: np.full(count, 100),
    "length_ptr": lambda count: 40 + np.arange(count),
}


def array(name: str, kind: str, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Numbers for a pointer: floats near 1, and indices of few rows."""
    dtype = np.dtype(TYPES[kind])
    if name in INDICES:
        return INDICES[name](ELEMENTS).astype(dtype)
    if dtype.kind == "i":
        return random.integers(0, 4, ELEMENTS).astype(dtype)
    return random.uniform(0.1, 1, ELEMENTS).astype(np.float32).astype(dtype)


def results(row: Any, arguments: list[Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays after a launch, as float32."""
    given = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    gpu_library.function(row.kernel)[GRID](*given, **row.constants, num_warps=row.warps, num_stages=row.stages)
    return [value.astype(np.float32) for value in given if isinstance(value, np.ndarray)]


def on_devices() -> Iterator[Any]:
    """The kernels with the devices that they run on: those with products on both, the others by turns."""
    turns = cycle(DEVICES)
    for row in gpu_library.ROWS:
        chosen = DEVICES if ".dot(" in getsource(gpu_library.function(row.kernel).fn) else (next(turns),)
        for device in DEVICES:
            marks = () if device in chosen else LONG
            yield pytest.param(row, device, marks=marks, id=f"{row.name}-{device}")


@pytest.mark.slow
@pytest.mark.parametrize(("row", "device"), list(on_devices()))
def test_simulated_gpus_give_what_cpus_give(row: Any, device: str) -> None:
    random = np.random.default_rng(5)
    numbers = NUMBERS | NUMBERS_OF.get(row.name, {})
    arguments = [array(name, kind, random) if kind[0] == "*" else numbers[name] for name, kind in row.types.items()]
    wanted = results(row, arguments)
    with tw.simulate(device):
        found = results(row, arguments)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2)
