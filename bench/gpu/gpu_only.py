"""Small uses of what only GPUs have: copies that run beside the program, tensor maps, clusters, dependent launches.

`NEEDS` says from which capability on; `SHOWS` which instruction of PTX is what the program is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright.compat.tensor_descriptor import TensorDescriptor

SIDE = 64


@tw.jit
def product(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in tl.range(0, K, BLOCK, num_stages=3):
        a = tl.load(a_ptr + rows * K + start + columns)
        b = tl.load(b_ptr + (start + rows) * BLOCK + columns)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows * BLOCK + columns, total)


@tw.jit
def moved_by_engine(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    out.store([row, column], x.load([row, column]) * 2)


@tw.jit
def column_sums(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out_ptr + tl.program_id(0) * COLUMNS + columns, tl.sum(x, axis=0))


@tw.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


@tw.jit
def meet(count_ptr, x_ptr, out_ptr):
    program, programs = tl.program_id(0), tl.num_programs(0)
    tl.store(x_ptr + program, program + 1)
    tl.debug_barrier()
    tl.atomic_add(count_ptr, 1, sem="acq_rel")
    while tl.atomic_add(count_ptr, 0, sem="acq_rel") < programs:
        pass
    tl.store(out_ptr + program, tl.load(x_ptr + (program + 1) % programs, volatile=True))


@tw.jit
def combine(x_ptr, sums_ptr, most_ptr, bits_ptr, first_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(sums_ptr + offsets % 7, x, mask=offsets < n)
    tl.atomic_max(most_ptr + offsets % 7, x, mask=offsets < n)
    tl.atomic_xor(bits_ptr + offsets % 7, x, mask=offsets < n)
    tl.atomic_cas(first_ptr, 0, 41)


def whole(*shape: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(list(shape)).integers(-4, 5, shape).astype(dtype)


def _product(side: int, **options: Any) -> None:
    depth = 4 * side
    product[(1,)](whole(side, depth), whole(depth, side), np.zeros((side, side), np.float32), depth, side, **options)


class Tensor(np.ndarray[Any, Any]):
    """An array with as much of a tensor as a descriptor asks for."""

    def element_size(self) -> int:
        return self.itemsize

    def data_ptr(self) -> int:
        return int(self.ctypes.data)


def _engine() -> None:
    arrays = whole(70, 96).view(Tensor), np.zeros((70, 96), np.float16).view(Tensor)
    moved_by_engine[(3, 2)](*(TensorDescriptor(array, [70, 96], [96, 1], [32, 64]) for array in arrays), 32, 64)


def _added(n: int, **options: Any) -> None:
    x = whole(n, dtype=np.int32)
    for _ in range(2):
        add_one[(4,)](x, n, BLOCK=256, **options)


def _combined() -> None:
    arrays = [np.zeros(7, np.int32) for _ in range(3)]
    combine[(4,)](whole(1000, dtype=np.int32), *arrays, np.zeros(1, np.int32), 1000, BLOCK=256)


RUNS: dict[str, Callable[[], None]] = {
    "async_copies": lambda: _product(32),
    "tensor_maps": _engine,
    "warp_group_products": lambda: _product(SIDE),
    "clusters": lambda: column_sums[(2,)](
        whole(128, 64, dtype=np.int32), np.zeros((2, 64), np.int32), 64, 64, num_ctas=2
    ),
    "dependent_launches": lambda: _added(1000, launch_pdl=True),
    "cooperative_launch": lambda: meet[(8,)](
        np.zeros(1, np.int32), np.zeros(8, np.int32), np.zeros(8, np.int32), launch_cooperative_grid=True
    ),
    "atomics": _combined,
}
SHOWS = {
    "async_copies": r"cp\.async\.(cg|ca)",
    "tensor_maps": r"cp\.async\.bulk\.tensor",
    "warp_group_products": r"wgmma\.mma_async",
    "clusters": r"barrier\.cluster|mapa|shared::cluster",
    "atomics": r"(atom|red)\.",
}
NEEDS = {"tensor_maps": 90, "warp_group_products": 90, "clusters": 90, "dependent_launches": 90}
