"""The conformance sample: a fixed list of launches through the language, as docs/conformance.md has files of tests.

    SAMPLE["core.add_i8"]()         # launches on the current device

The names begin with the file of those whose subject they share; kernels and arrays are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import sample_kernels as kernels

import tilewright.language as tl

N = 128
TYPES: dict[str, Any] = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "fp64": np.float64,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
}
Array = np.ndarray[Any, Any]
Run = Callable[[], Any]


def draw(kind: str, *shape: int, seed: int = 0, low: float = -9, high: float = 9, special: bool = False) -> Array:
    """Numbers of a type, the same each time; `special` mixes in zeros, infinities and NaN, or the largest integers."""
    random, dtype = np.random.default_rng([seed, *shape]), np.dtype(TYPES[kind])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        found = random.integers(max(int(low), limits.min), int(high), shape, endpoint=True).astype(dtype)
        extremes: list[Any] = [limits.min, limits.max]
    else:
        found = random.uniform(low, high, shape).astype(dtype)
        extremes = [0.0, -0.0, np.inf, -np.inf, np.nan]
    if special:
        with np.errstate(invalid="ignore"):  # 8-bit floats without infinities
            found.reshape(-1)[3 : 3 + len(extremes)] = np.array(extremes).astype(dtype)
    return found


def empty(kind: str, *shape: int) -> Array:
    """An array that a kernel writes to, filled with 3, which kernels seldom write."""
    return np.full(shape, 3, TYPES[kind])


# --- core: operators, functions, conversions ------------------------------------------------------------------


INTEGERS, SIGNED, FLOATS = ("i8", "u8", "i32", "u32", "i64"), ("i16", "i32", "i64"), ("fp16", "bf16", "fp32", "fp64")
OPERATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "subtract", "multiply"), (*INTEGERS, *FLOATS)),
    "divide": ("fp32", "fp64"),
    **dict.fromkeys(("floor divide", "remainder"), ("i32", "u32", "i64")),
    **dict.fromkeys(("bits", "shifts"), ("i8", "u16", "i32", "u64")),
    "high bits": ("u32", "u64"),
    "rounded divide": ("fp32",),
    "fma": ("fp16", "fp32", "fp64"),
}
COMPARISONS: dict[str, tuple[str, ...]] = {
    "compare": ("i8", "u32", "fp16", "fp32"),
    "extremes": ("fp16", "fp32", "fp64"),
    "propagating extremes": ("fp16", "fp32"),
}
EXACTLY_DIVIDED = ("divide", "floor divide", "remainder", "rounded divide")


def _two(operation: str, kind: str) -> None:
    divides = operation in EXACTLY_DIVIDED
    y = draw(kind, N, seed=1, low=1) if divides else draw(kind, N, seed=1, special=operation != "shifts")
    x = draw(kind, N, special=not divides)
    if operation == "high bits":
        x, y = x << (x.itemsize * 8 - 5), y << (y.itemsize * 8 - 6)
    kernels.two_operands[(1,)](x, y, empty(kind, N), OPERATION=operation, N=N)


def _compared(operation: str, kind: str) -> None:
    arrays = draw(kind, N, special=True), draw(kind, N, seed=1, special=True)
    out = empty("i32" if operation == "compare" else kind, N)
    kernels.two_compared[(1,)](*arrays, out, OPERATION=operation, N=N)


FUNCTIONS: dict[str, tuple[Any, float, float]] = {
    **{name: (getattr(tl, name), 0.1, 60.0) for name in ("log", "log2", "sqrt", "rsqrt", "sqrt_rn")},
    **{name: (getattr(tl, name), -9.0, 9.0) for name in ("exp", "exp2", "sin", "cos", "erf", "floor", "ceil", "abs")},
    "sigmoid": (tl.sigmoid, -9.0, 9.0),
}
"""Functions, and between which numbers."""


def _one(name: str, kind: str) -> None:
    function, low, high = FUNCTIONS[name]
    kernels.one_operand[(1,)](draw(kind, N, low=low, high=high), empty(kind, N), FUNCTION=function, N=N)


CONVERSIONS = (
    *(("i32", "i8"), ("u8", "i64"), ("i64", "fp32"), ("u32", "fp16"), ("i8", "bf16"), ("fp32", "i32"), ("fp16", "i8")),
    *(("fp32", "fp16"), ("fp32", "bf16"), ("fp64", "fp32"), ("fp16", "fp32"), ("bf16", "fp64"), ("fp64", "i64")),
    *(("fp32", "fp8e5"), ("fp16", "fp8e5"), ("fp8e5", "fp16"), ("fp8e5", "fp32"), ("bf16", "fp8e5")),
    *(("fp32", "fp8e4nv"), ("fp8e4nv", "fp16"), ("fp8e4nv", "fp32"), ("fp16", "fp8e4nv")),
)


def _converted(source: str, target: str) -> None:
    special = TYPES[target] not in (np.int8, np.int32, np.int64)  # integers of what they cannot hold are not defined
    kernels.converted[(1,)](draw(source, N, special=special), empty(target, N), N=N)


CORE: dict[str, Run] = {
    **{
        f"core.{operation.replace(' ', '_')}_{kind}": partial(run, operation, kind)
        for run, operations in ((_two, OPERATIONS), (_compared, COMPARISONS))
        for operation, kinds in operations.items()
        for kind in kinds
    },
    **{
        f"core.{name}_{kind}": partial(_one, name, kind)
        for name in FUNCTIONS
        for kind in (("fp32",) if name == "sqrt_rn" else ("fp32", "fp64"))
    },
    **{f"conversions.{source}_{target}": partial(_converted, source, target) for source, target in CONVERSIONS},
    "core.same_bits": lambda: kernels.same_bits[(1,)](draw("fp32", N, special=True), empty("i32", N), N=N),
    "core.programs": lambda: kernels.programs[(3, 4, 2)](empty("i32", 2, 4, 3)),
    "core.control": lambda: kernels.control[(8,)](np.array([27, -1, 0, 1, 6, 7, 97, -5], np.int32), empty("i32", 8), 7),
    "core.hints": lambda: kernels.hints[(1,)](draw("fp32", N), empty("fp32", N), 96, N=N),
    "core.assembly": lambda: kernels.assembled[(1,)](draw("i32", N), draw("i32", N, seed=1), empty("i32", N), N=N),
    "libdevice.functions": lambda: kernels.from_library[(1,)](
        draw("fp32", N, low=-4, high=4), draw("fp32", N, seed=1, low=-4, high=4), empty("fp32", 4, N), N=N
    ),
    "libdevice.functions_fp64": lambda: kernels.from_library[(1,)](
        draw("fp64", N, low=-4, high=4), draw("fp64", N, seed=1, low=-4, high=4), empty("fp64", 4, N), N=N
    ),
    "tuple.pairs": lambda: kernels.tuples[(1,)](draw("i32", N), empty("i32", N), (3, 5, 7), N=N),
    "random.numbers": lambda: kernels.random_numbers[(1,)](empty("fp32", 3, N), 2**31 + 7, N=N),
}


# --- memory ---------------------------------------------------------------------------------------------------


def _masked(cache: str, eviction: str) -> None:
    kernels.masked[(3,)](draw("i32", 100), empty("i32", 3 * 64), 97, CACHE=cache, EVICTION=eviction, N=64)


def _scattered() -> None:
    places = np.random.default_rng(5).permutation(N).astype(np.int32)
    kernels.gathered_and_scattered[(1,)](draw("fp32", N), places, empty("fp32", N), N=N)


ATOMICS: dict[str, tuple[str, ...]] = {
    "add": ("i32", "u64", "fp16", "fp32", "fp64"),
    **dict.fromkeys(("max", "min"), ("i32", "u32", "i64", "fp32")),
    **dict.fromkeys(("and", "or"), ("i32", "u64")),
    "exchange": ("i32", "i64", "fp32"),
}


def _atomic(operation: str, kind: str, sem: str) -> None:
    x = draw(kind, 4 * 32, low=-8, high=8).round().astype(TYPES[kind])  # whole: the order of sums does not matter
    kernels.added_atomically[(4,)](x, empty(kind, 4 * 32), OPERATION=operation, SEM=sem, N=32)


def _swapped() -> None:
    x = draw("i32", 64, low=0, high=2)
    kernels.swapped_if_equal[(1,)](x, draw("i32", 64, seed=1, low=0, high=2), empty("i32", 64), N=64)


MEMORY: dict[str, Run] = {
    **{
        f"core.masks{cache.replace('.', '_')}{eviction.replace('evict', '')}": partial(_masked, cache, eviction)
        for cache, eviction in (("", ""), (".ca", ""), (".cg", "evict_first"), ("", "evict_last"))
    },
    "core.scatter": _scattered,
    **{
        f"core.atomic_{operation}_{kind}": partial(_atomic, operation, kind, "acq_rel" if kind[0] == "i" else "relaxed")
        for operation, kinds in ATOMICS.items()
        for kind in kinds
    },
    "core.atomic_cas": _swapped,
    "block_pointer.advance": lambda: kernels.block_pointers[(3,)](
        draw("fp16", 40, 50), empty("fp16", 40, 50), 40, 50, ROWS=16, COLUMNS=32
    ),
    "tensor_descriptor.load_store": lambda: kernels.described[(3, 2)](
        draw("fp32", 40, 48), empty("fp32", 40, 48), 40, 48, ROWS=16, COLUMNS=32
    ),
    "tensor_descriptor.load_store_i8": lambda: kernels.described[(3, 2)](
        draw("i8", 40, 48), empty("i8", 40, 48), 40, 48, ROWS=16, COLUMNS=32
    ),
}


# --- tiles ----------------------------------------------------------------------------------------------------


REDUCTIONS: dict[str, tuple[str, ...]] = {
    "sum": ("i8", "i32", "fp16", "fp32"),
    **dict.fromkeys(("max", "min"), ("i32", "u32", "bf16", "fp32")),
    **dict.fromkeys(("argmax", "argmin"), ("i32", "fp32")),
    **dict.fromkeys(("xor", "both"), ("i32",)),
    "largest size": ("fp32", "i64"),
}


def _reduced(operation: str, kind: str, axis: int) -> None:
    out = empty("i32" if operation.startswith("arg") or kind == "i8" else kind, 64)
    kernels.reduced[(1,)](draw(kind, 16, 64), out, OPERATION=operation, AXIS=axis, A=16, B=64)


def _scanned(operation: str, axis: int, reverse: bool) -> None:
    arrays = draw("i32", 32, 16, low=-2, high=2), empty("i32", 32, 16)
    kernels.scanned[(1,)](*arrays, OPERATION=operation, AXIS=axis, REVERSE=reverse, A=32, B=16)


def _ordered(operation: str, kind: str) -> None:
    kernels.ordered[(1,)](draw(kind, 4, 32), empty(kind, 4, 32), OPERATION=operation, A=4, B=32)


def _picked(axis: int) -> None:
    places = draw("i32", 16, 32, low=0, high=(15, 31)[axis])
    kernels.picked[(1,)](draw("fp32", 16, 32), places, empty("fp32", 16, 32), AXIS=axis, A=16, B=32)


TILES: dict[str, Run] = {
    **{
        f"core.{operation.replace(' ', '_')}_of_axis_{axis}_{kind}": partial(_reduced, operation, kind, axis)
        for operation, kinds in REDUCTIONS.items()
        for kind in kinds
        for axis in (0, 1)
    },
    "core.reduce_to_one": lambda: kernels.reduced_to_one[(1,)](draw("i32", 4, 8, 16), empty("i32", 33), A=4, B=8, C=16),
    **{
        f"core.scan_{operation}_{axis}{'_reverse' * reverse}": partial(_scanned, operation, axis, reverse)
        for operation in ("sum", "product", "affine")
        for axis in (0, 1)
        for reverse in (False, True)
    },
    **{
        f"standard.{operation.replace(' ', '_')}_{kind}": partial(_ordered, operation, kind)
        for operation in ("sort", "sort down", "flip", "topk")
        for kind in ("i32", "fp16")
    },
    "core.histogram": lambda: kernels.counted[(1,)](draw("i32", 256, low=0, high=31), empty("i32", 32), N=256, BINS=32),
    **{f"core.gather_{axis}": partial(_picked, axis) for axis in (0, 1)},
    **{
        f"core.{operation}": partial(
            lambda operation: kernels.shaped[(1,)](draw("i32", N), empty("i32", N), OPERATION=operation, N=N), operation
        )
        for operation in ("transpose", "permute", "split", "join", "broadcast", "expand")
    },
}


# --- products -------------------------------------------------------------------------------------------------


DOTS: dict[str, tuple[str, str, str, int]] = {
    "fp16": ("fp16", "ieee", "fp32", 32),
    "fp16_sums_of_fp16": ("fp16", "ieee", "fp16", 16),
    "bf16": ("bf16", "ieee", "fp32", 64),
    "fp32_ieee": ("fp32", "ieee", "fp32", 16),
    "fp32_tf32": ("fp32", "tf32", "fp32", 32),
    "fp32_tf32x3": ("fp32", "tf32x3", "fp32", 32),
    "fp64": ("fp64", "ieee", "fp64", 16),
    "i8": ("i8", "ieee", "i32", 64),
    "fp8e5": ("fp8e5", "ieee", "fp32", 32),
}
SUMS = {"fp16": tl.float16, "fp32": tl.float32, "fp64": tl.float64, "i32": tl.int32}


def _dot(name: str, m: int, warps: int) -> None:
    kind, precision, sums, k = DOTS[name]
    a, b = draw(kind, m, k, low=-3, high=3), draw(kind, k, 32, seed=1, low=-3, high=3)
    shape = {"M": m, "N": 32, "K": k, "num_warps": warps}
    kernels.multiplied[(1,)](a, b, empty(sums, m, 32), PRECISION=precision, SUMS=SUMS[sums], **shape)


def _scaled(form: str, kind: str, packed: int) -> None:
    random, size, k = np.random.default_rng(7), 32, 64
    if packed == 2:
        a, b = (random.integers(0, 256, shape).astype(np.uint8) for shape in ((size, k // 2), (k // 2, size)))
    else:
        a, b = draw(kind, size, k), draw(kind, k, size, seed=1)
    a_scale, b_scale = (random.integers(124, 131, (size, k // 32)).astype(np.uint8) for _ in range(2))
    out = empty("fp32", size, size)
    kernels.multiplied_scaled[(1,)](a, a_scale, b, b_scale, out, FORMAT=form, PACKED=packed, N=size, K=k)


def _pipelined(stages: int) -> None:
    factors = (draw("fp16", 6, 32, 32, seed=seed, low=-2, high=2).round().astype(np.float16) for seed in (0, 1))
    kernels.pipelined[(1,)](*factors, empty("fp32", 32, 32), 6, STAGES=stages, N=32)


PRODUCTS: dict[str, Run] = {
    **{f"core.dot_{name}": partial(_dot, name, 32, 4) for name in DOTS},
    **{f"matmul.dot_64_{name}": partial(_dot, name, 64, 4) for name in ("fp16", "bf16", "fp32_tf32", "i8")},
    "core.dot_in_batches": lambda: kernels.multiplied_in_batches[(1,)](
        draw("fp16", 2, 16, 16), draw("fp16", 2, 16, 16, seed=1), empty("fp32", 2, 16, 16), BATCH=2, N=16
    ),
    **{
        f"mxfp.{form}": partial(_scaled, form, kind, packed)
        for form, kind, packed in (("e5m2", "fp8e5", 1), ("e4m3", "fp8e4nv", 1), ("e2m1", "", 2))
    },
    **{f"pipeliner.stages_{stages}": partial(_pipelined, stages) for stages in (1, 2, 3, 4)},
}

SAMPLE: dict[str, Run] = CORE | MEMORY | TILES | PRODUCTS
