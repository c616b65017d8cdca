"""The programs whose launches `make gpu` repeats on hardware: examples, what only GPUs have, a sample of the language.

PROGRAMS["examples"]["softmax"]()       # launches on the current device
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent))
sys.path.extend(
    str(Path(__file__).parents[2] / name) for name in ("examples", "tests/kernels", "tests/oracle", "tests/fuzz")
)

import gpu_only
from batched_gemm import batched_matmul
from conformance_sample import SAMPLE
from conv2d import conv2d
from dropout import dropout
from flash_attention import attention
from histogram import histogram
from layer_norm import layer_norm, layer_norm_backward
from matmul import matmul
from prefix_sum import prefix_sum
from softmax import softmax
from statements import Program, program
from test_kernels_agree import CASES
from vector_add import add
from ways_to_run import Arguments, module_of

ROOT = Path(__file__).parents[2]
Run = Callable[[], Any]


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    """The same for the same shape."""
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(dtype)


def whole(*shape: int, dtype: Any = np.int32, low: int = -9, high: int = 10) -> Any:
    """Whole numbers, so that sums are exact in any order."""
    return np.random.default_rng(list(shape)).integers(low, high, shape).astype(dtype)


def _layer_norm_backward() -> None:
    x, grad, weight = numbers(11, 113), numbers(11, 113), numbers(113)
    _, mean, scale = layer_norm(x, weight, weight)
    layer_norm_backward(x, grad, weight, mean, scale, groups=3)


EXAMPLES: dict[str, Run] = {
    "vector_add": lambda: add(numbers(2003), numbers(2003)),
    "softmax": lambda: softmax(numbers(5, 781)),
    "dropout": lambda: dropout(np.ones(2003, np.float32), 0.3, 7),
    "histogram": lambda: histogram(whole(2003, low=-3, high=103), 100, steps=4),
    "prefix_sum": lambda: prefix_sum(whole(1777), block=256),
    "layer_norm": _layer_norm_backward,
    "matmul_fp32": lambda: matmul(numbers(70, 45), numbers(45, 90)),
    "matmul_fp16": lambda: matmul(numbers(70, 45, dtype=np.float16), numbers(45, 90, dtype=np.float16)),
    "matmul_fp16_whole": lambda: matmul(whole(70, 45, dtype=np.float16), whole(45, 90, dtype=np.float16)),
    "matmul_fp64": lambda: matmul(
        numbers(70, 45, dtype=np.float64), numbers(45, 90, dtype=np.float64), tile=(32, 32, 16)
    ),
    "matmul_int8": lambda: matmul(whole(70, 45, dtype=np.int8), whole(45, 90, dtype=np.int8)),
    "batched_gemm": lambda: batched_matmul(numbers(2, 40, 45), numbers(2, 45, 50)),
    "conv2d": lambda: conv2d(numbers(1, 3, 7, 19), numbers(37, 3, 3, 3), stride=2, padding=1),
    "attention": lambda: attention(*(numbers(2, 70, 32) + part for part in range(3))),
    "attention_causal": lambda: attention(*(numbers(1, 70, 64) + part for part in range(3)), is_causal=True),
}
"""Every one of examples/, with extents that fill no tile."""


def _language(number: int) -> None:
    kernel, arguments, options = CASES[number]
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    kernel[options.get("grid", (1,))](*copies, **{name: value for name, value in options.items() if name != "grid"})


def generated(seed: int) -> Program:
    """The drawn program of a seed."""
    return program(Random(seed), gpu=True, size=6)


def _generated(seed: int) -> None:
    drawn = generated(seed)
    with tempfile.TemporaryDirectory() as folder:
        kernel = module_of(drawn.text, Path(folder)).kernel
        arguments = Arguments(drawn)
        for array in arguments.arrays.values():
            array[:] = np.resize(array[:REPEATED], array.shape)  # so that it takes little room in a bundle
        kernel[drawn.grid](**arguments.named(), **drawn.options, enable_fp_fusion=False)


GENERATED, REPEATED = 300, 127
WHOLE = {"matmul_fp16_whole", "async_copies", "warp_group_products", "tensor_maps"}
"""Programs on small whole numbers, which floats hold exactly whatever the order of sums."""
PROGRAMS: dict[str, dict[str, Run]] = {
    "examples": EXAMPLES,
    "gpu_only": gpu_only.RUNS,
    "language": {f"{case[0].__name__}_{number}": partial(_language, number) for number, case in enumerate(CASES)},
    "conformance": SAMPLE,
    "generated": {f"seed_{seed}": partial(_generated, seed) for seed in range(GENERATED)},
}
