"""Tensor descriptors made on the host, as arguments of kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.registry import make_backend
from tilewright.runtime.parameters import kernel_params
from tilewright.runtime.specialize import specialize


class Descriptor:
    """The attributes that a kernel asks of a descriptor, whatever its class."""

    def __init__(self, base: Any, block_shape: tuple[int, ...], padding: str = "zero") -> None:
        self.base, self.shape, self.block_shape, self.padding = base, base.shape, block_shape, padding
        self.strides = [stride // base.itemsize for stride in base.strides]


def doubled(x, out, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    out.store([row, 0], 2 * x.load([row, 0]))


def padded(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, x.load([0]))


@pytest.mark.parametrize("interpret", [False, True])
def test_kernels_read_and_write_blocks_of_the_tensor(interpret: bool) -> None:
    x = np.arange(40 * 16, dtype=np.float32).reshape(40, 16)
    out = np.zeros((44, 16), np.float32)

    tw.jit(doubled, interpret=interpret)[(3,)](Descriptor(x, (16, 16)), Descriptor(out[:40], (16, 16)), 16)

    assert (out[:40] == 2 * x).all()
    assert (out[40:] == 0).all()


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_padding_is_what_the_descriptor_says(padding: str) -> None:
    out = np.ones(8, np.float32)

    tw.jit(padded)[(1,)](Descriptor(np.ones(5, np.float32), (8,), padding), out, 8)

    assert (out[:5] == 1).all()
    assert np.isnan(out[5:]).all() if padding == "nan" else (out[5:] == 0).all()


def window(x, out):
    tl.store(out + tl.arange(0, 32)[:, None] * 16 + tl.arange(0, 16)[None, :], x.load([0, 0]).to(tl.float64))


def made_by_each_program(x, out, n):
    row = 8 * (tl.program_id(0) + tl.program_id(1) + tl.program_id(2))
    source = tl.make_tensor_descriptor(x, (n, 16), (16, 1), (8, 16))
    target = tl.make_tensor_descriptor(out, (n, 16), (16, 1), (8, 16))
    target.store([row, 0], source.load([row, 0]) + 1)


@pytest.mark.parametrize("grid", [(6,), (1, 6), (1, 1, 6)])
def test_each_program_on_a_gpu_has_scratch_memory_of_its_own(grid: tuple[int, ...]) -> None:
    x, out = np.arange(48 * 16, dtype=np.float32).reshape(48, 16), np.zeros((48, 16), np.float32)
    with tw.simulate("cuda:90"):
        tw.jit(made_by_each_program)[grid](x, out, 48)
    np.testing.assert_array_equal(out, x + 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.float8_e5m2])
def test_a_gpu_pads_with_nan_whatever_its_engine_knows(dtype: Any) -> None:
    """The engine has a NaN of 16 and of 32 bits; other elements are loaded one by one."""
    out = np.zeros((32, 16), np.float64)
    with tw.simulate("cuda:90"):
        made = tw.jit(window)[(1,)](Descriptor(np.ones((20, 16), dtype), (32, 16), "nan"), out)
    assert (out[:20] == 1).all()
    assert np.isnan(out[20:]).all()
    assert ("cp.async.bulk.tensor" in made.asm["ptx"]) == (dtype in (np.float16, np.float32))


def rows_there_and_back(x, rows, out, back):
    places = tl.load(rows + tl.arange(0, 8))
    found = x.gather(places, 16)
    tl.store(out + tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)[None, :], found)
    back.scatter(found, places, 16)


DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.int32, np.uint64)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_rows_by_index(dtype: Any, interpret: bool) -> None:
    x = (np.arange(20 * 40) % 13).astype(dtype).reshape(20, 40)
    rows = np.array([3, 19, 0, 25, 7, -1, 18, 1], np.int32)
    out, back = np.ones((8, 32), dtype), np.zeros_like(x)

    kernel = tw.jit(rows_there_and_back, interpret=interpret)
    kernel[(1,)](Descriptor(x, (1, 32)), rows, out, Descriptor(back, (1, 32)))

    there = (rows >= 0) & (rows < 20)
    assert (out[there, :24] == x[rows[there], 16:]).all()
    assert (out[~there] == 0).all()
    assert (out[:, 24:] == 0).all()
    assert (back[rows[there], 16:] == x[rows[there], 16:]).all()
    assert (back[:, :16] == 0).all()
    assert (back[[2, 4, 5]] == 0).all()


def combined(x, total, least, bits):
    start = tl.program_id(0) * 8
    value = x.load([start, 0])
    total.atomic_add([0, 0], value)
    least.atomic_min([0, 0], value)
    bits.atomic_xor([0, 0], value)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.uint64], ids=lambda dtype: np.dtype(dtype).name)
def test_blocks_combined_in_memory(dtype: Any, interpret: bool) -> None:
    x = np.random.default_rng(0).integers(0, 100, (24, 16)).astype(dtype)
    total, least, bits = (np.full((6, 12), 50, dtype) for _ in range(3))

    results = [Descriptor(array, (8, 16)) for array in (total, least, bits)]
    tw.jit(combined, interpret=interpret)[(3,)](Descriptor(x, (8, 16)), *results)

    blocks = x.reshape(3, 8, 16)[:, :6, :12]
    assert (total == 50 + blocks.sum(0)).all()
    assert (least == np.minimum(50, blocks.min(0))).all()
    assert (bits == 50 ^ np.bitwise_xor.reduce(blocks)).all()


def deep(x, out):
    place = (tl.program_id(0), 0, 0, 0, 0)
    out.store(place, x.load(place))


@pytest.mark.parametrize("interpret", [False, True])
def test_five_axes_and_stores_that_convert(interpret: bool) -> None:
    x = (np.arange(3 * 2 * 2 * 3 * 20) % 100).astype(np.int32).reshape(3, 2, 2, 3, 20)
    out = np.zeros(x.shape, np.float16)
    block = (1, 2, 2, 4, 32)

    tw.jit(deep, interpret=interpret)[(3,)](Descriptor(x, block), Descriptor(out, block))

    assert (out == x).all()


def test_one_kernel_serves_all_shapes_of_a_kind() -> None:
    kernel = tw.jit(padded)
    out = np.ones(8, np.float32)

    made = [kernel[(1,)](Descriptor(np.ones(n, np.float32), (8,)), out, 8) for n in (5, 6, 7)]
    other = kernel[(1,)](Descriptor(np.ones(5, np.float32), (8,), "nan"), out, 8)

    assert len(set(map(id, made))) == 1
    assert other is not made[0]


def test_type_is_tritons() -> None:
    found = specialize(Descriptor(np.ones((4, 64), np.float16), (4, 64)), kernel_params(doubled)[0])

    assert found.as_triton() == ("tensordesc<fp16[4, 64]>", None)


def test_ptx_from_the_cache_is_text_where_nothing_assembles_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tilewright.backends.nvidia.backend.find_ptxas", lambda capability: None)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    make_backend.cache_clear()
    for _ in range(2):  # compiled, then from the disk
        x, out = np.arange(48 * 16, dtype=np.float32).reshape(48, 16), np.zeros((48, 16), np.float32)
        with tw.simulate("cuda:90"):
            tw.jit(made_by_each_program)[(6,)](x, out, 48)
        np.testing.assert_array_equal(out, x + 1)
    make_backend.cache_clear()


@pytest.mark.parametrize("place", ["cpu", "cuda:90"])
def test_descriptors_of_numpy_arrays(place: str) -> None:
    """`from_tensor` asked for the `stride()` that only tensors of torch's have."""
    x = np.arange(48 * 32, dtype=np.float32).reshape(48, 32)[:40, :16]
    out = np.zeros((40, 16), np.float32)
    given = [tw.TensorDescriptor.from_tensor(array, [16, 16]) for array in (x, out)]
    if place == "cpu":
        tw.jit(doubled)[(3,)](*given, 16)
    else:
        with tw.simulate(place):
            tw.jit(doubled)[(3,)](*given, 16)
    np.testing.assert_array_equal(out, 2 * x)
    with pytest.raises(AssertionError, match=r"^the last axis .* of \[40, 8\] with strides \[32, 2\]$"):
        tw.TensorDescriptor.from_tensor(x[:, ::2], [16, 8])
