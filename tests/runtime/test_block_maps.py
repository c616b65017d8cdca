"""`map_blocks`: kernels on the blocks of Dask arrays, beside the same on the whole array in NumPy."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import optional_peers
import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.block_maps import BlockLaunch

CHUNKS = [4, 3, 7, (2, 5)]
BLOCK = 16


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n), mask=at < n)


@tw.jit
def mean_of_five(x_ptr, out_ptr, rows, columns, stride, BLOCK: tl.constexpr):
    """The block with a halo of one element, row by row."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < columns
    middle = x_ptr + (row + 1) * stride + at + 1
    total = tl.load(middle, mask=inside) + tl.load(middle - 1, mask=inside) + tl.load(middle + 1, mask=inside)
    total += tl.load(middle - stride, mask=inside) + tl.load(middle + stride, mask=inside)
    tl.store(out_ptr + row * columns + at, total / 5, mask=inside)


@tw.jit
def indices(x_ptr, out_ptr, first, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, first + at, mask=at < n)


@tw.jit
def sum_of_pairs(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + 2 * at, mask=at < n) + tl.load(x_ptr + 2 * at + 1, mask=at < n), mask=at < n)


@tw.jit
def spoil(x_ptr, out_ptr):
    tl.store(x_ptr, 0.0)


def size(block: Any) -> int:
    return int(block.out.size)


def grid(meta: Any) -> tuple[int]:
    return (tw.cdiv(meta["n"], BLOCK),)


def added(x: Any, y: Any, **options: Any) -> Any:
    return tw.map_blocks(add, x, y, tw.OUT, size, grid=grid, BLOCK=BLOCK, **options)


def smoothed(x: Any, **options: Any) -> Any:
    return tw.map_blocks(
        mean_of_five,
        x,
        tw.OUT,
        lambda block: block.out.shape[0],
        lambda block: block.out.shape[1],
        lambda block: block.inputs[0].shape[1],
        grid=lambda meta: (meta["rows"],),
        BLOCK=BLOCK,
        **options,
    )


@pytest.mark.needs_dask
class TestWithDask:
    @pytest.fixture(autouse=True)
    def here(self) -> Iterator[None]:
        import dask

        with dask.config.set(scheduler="synchronous"):
            yield

    @pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float32", "float64"])
    @pytest.mark.parametrize("chunks", CHUNKS)
    def test_blocks_of_any_size(self, dtype: str, chunks: Any) -> None:
        da = optional_peers.module("dask.array")
        x, y = np.arange(7).astype(dtype), np.arange(7)[::-1].astype(dtype)
        chunked = (chunks,) if isinstance(chunks, tuple) else chunks
        lazy = added(da.from_array(x, chunks=chunked), da.from_array(y, chunks=2))
        assert (lazy.dtype, lazy.shape) == (x.dtype, x.shape)
        found = lazy.compute()
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x + y)

    def test_blocks_of_slices_are_copied_where_they_have_strides(self) -> None:
        da = optional_peers.module("dask.array")
        x = np.arange(60, dtype=np.float32).reshape(6, 10)
        whole = da.from_array(x, chunks=(3, 10))
        found = added(whole[:, ::2].T, whole[:, 1::2].T).compute()
        np.testing.assert_array_equal(found, x[:, ::2].T + x[:, 1::2].T)

    @pytest.mark.parametrize("boundary", [("periodic", "nearest"), {0: "periodic", 1: "nearest"}])
    def test_each_axis_has_its_boundary(self, boundary: Any) -> None:
        import dask.array as da

        x = np.random.default_rng(3).standard_normal((12, 10)).astype(np.float32)
        wide = np.pad(np.pad(x, ((1, 1), (0, 0)), mode="wrap"), ((0, 0), (1, 1)), mode="edge")
        middle = wide[1:-1, 1:-1]
        expected = (middle + wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]) / 5
        lazy = smoothed(da.from_array(x, chunks=(4, 5)), depth=1, boundary=boundary)
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("boundary", ["reflect", "periodic", "nearest", 0, 2.5])
    @pytest.mark.parametrize("chunks", [(8, 9), (3, 4), (2, 9)])
    def test_halos(self, boundary: Any, chunks: Any) -> None:
        da = optional_peers.module("dask.array")
        x = np.random.default_rng(1).random((8, 9)).astype(np.float32)
        modes: dict[Any, dict[str, Any]] = {"reflect": {"mode": "symmetric"}, "periodic": {"mode": "wrap"}}
        modes["nearest"] = {"mode": "edge"}
        wide = np.pad(x, 1, **modes.get(boundary, {"constant_values": boundary}))
        expected = wide[1:-1, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
        lazy = smoothed(da.from_array(x, chunks=chunks), depth=1, boundary=boundary)
        assert lazy.shape == x.shape
        np.testing.assert_allclose(lazy.compute(), expected / 5, rtol=1e-6)

    def test_where_a_block_is_and_another_dtype(self) -> None:
        da = optional_peers.module("dask.array")
        x = da.zeros(11, chunks=4)
        options: dict[str, Any] = {"grid": (1,), "dtype": np.int16, "BLOCK": 16}
        lazy = tw.map_blocks(indices, x, tw.OUT, lambda block: block.begin[0] + 100 * block.number[0], size, **options)
        assert lazy.dtype == np.int16
        np.testing.assert_array_equal(lazy.compute(), np.arange(11) + 100 * (np.arange(11) // 4))

    def test_a_result_with_other_blocks(self) -> None:
        da = optional_peers.module("dask.array")
        x = np.arange(20, dtype=np.float32)
        chunked = da.from_array(x, chunks=8)
        lazy = tw.map_blocks(sum_of_pairs, chunked, tw.OUT, size, grid=(1,), chunks=((4, 4, 2),), BLOCK=16)
        np.testing.assert_array_equal(lazy.compute(), x[::2] + x[1::2])
        with pytest.raises(tw.ArgumentError, match="chunks= has to give 3 blocks"):
            tw.map_blocks(sum_of_pairs, chunked, tw.OUT, size, grid=(1,), chunks=((8, 2),), BLOCK=16)

    def test_blocks_are_broadcast_and_whole_arrays_passed_on(self) -> None:
        da = optional_peers.module("dask.array")
        x = np.arange(6.0)
        assert added(da.from_array(x, chunks=3), x[:3].copy()).compute().tolist() == [0, 2, 4, 3, 5, 7]

    def test_nothing_runs_before_and_names_are_deterministic(self) -> None:
        da = optional_peers.module("dask.array")

        def fail(block: Any) -> Any:
            raise AssertionError("a block was computed")

        x = da.ones(6, chunks=2).map_blocks(fail, meta=np.empty(0))
        lazy = added(x, x)
        assert lazy.name == added(x, x).name != added(x, x, dtype=np.float32).name
        with pytest.raises(AssertionError, match="a block was computed"):
            lazy.compute()

    def test_blocks_without_elements(self) -> None:
        da = optional_peers.module("dask.array")
        assert added(da.zeros(0, chunks=1), da.zeros(0, chunks=1)).compute().shape == (0,)

    def test_an_autotuned_kernel(self) -> None:
        da = optional_peers.module("dask.array")
        tuned = tw.autotune([tw.Config({"BLOCK": 16}), tw.Config({"BLOCK": 32})], key=["n"])(add)
        x = np.arange(100, dtype=np.float32)
        chunked = da.from_array(x, chunks=40)
        tuned_grid = lambda meta: (tw.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731 - a lambda is what is tested
        whole = tw.map_blocks(tuned, chunked, chunked, tw.OUT, size, grid=tuned_grid)
        np.testing.assert_array_equal(whole.compute(), 2 * x)

    def test_a_kernel_that_writes_to_what_it_is_given(self) -> None:
        da = optional_peers.module("dask.array")
        with pytest.raises(tw.ReadOnlyError, match="x_ptr"):
            tw.map_blocks(spoil, da.ones(4, chunks=4), tw.OUT, grid=(1,)).compute()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"depth": 1}, "depth= needs a boundary: 'reflect', 'periodic', 'nearest' or a number"),
            ({"depth": 1, "boundary": "none"}, "not 'none'"),
            ({"boundary": 0}, "and depth= is 0"),
            ({"depth": 1, "boundary": (0, 0)}, "boundary= is one for all, or one for each of 1 axes"),
            ({"depth": 1, "boundary": {1: 0}}, "depth= needs a boundary: .* not None"),
            ({"depth": 3, "boundary": 0}, "depth 3 is more than the 2 elements of a block along axis 0"),
            ({"depth": (1, 2), "boundary": 0}, "or one for each of 1 axes"),
            ({"depth": -1, "boundary": 0}, "depth= is a number of elements"),
        ],
    )
    def test_what_is_refused(self, options: Any, message: str) -> None:
        da = optional_peers.module("dask.array")
        x = da.zeros(6, chunks=2)
        with pytest.raises(tw.ArgumentError, match=message):
            added(x, x, **options)

    def test_arrays_that_are_refused(self) -> None:
        da = optional_peers.module("dask.array")
        x = da.zeros(6, chunks=2)
        with pytest.raises(tw.ArgumentError, match="a Array cannot be passed to a kernel; map_blocks launches kernels"):
            spoil[(1,)](x, x)
        with pytest.raises(tw.ArgumentError, match="needs a Dask array among the arguments"):
            added(np.zeros(3), np.zeros(3))
        with pytest.raises(tw.ArgumentError, match="compute_chunk_sizes"):
            added(x[x > 0], x)
        with pytest.raises(ValueError, match=r"Chunks do not add up|broadcast"):
            added(x, da.zeros(7, chunks=2))


@pytest.mark.parametrize("arguments", [(1, 2), (1, tw.OUT, tw.OUT)])
def test_there_is_one_result(arguments: Any) -> None:
    with pytest.raises(tw.ArgumentError, match="needs OUT once"):
        tw.map_blocks(add, *arguments, grid=(1,))


def test_out_is_itself_in_other_processes() -> None:
    assert pickle.loads(pickle.dumps(tw.OUT)) is tw.OUT
    assert repr(tw.OUT) == "OUT"


def test_a_kernel_with_another_source_on_the_worker() -> None:
    launch = BlockLaunch(add, [tw.OUT], (1,), np.dtype(np.float32), {})
    launch._text = "another"
    with pytest.raises(tw.ArgumentError, match="the kernel test_block_maps:add has another source on this worker"):
        launch(block_info={None: {"chunk-shape": (1,), "array-location": [(0, 1)], "chunk-location": (0,)}})


def test_blocks_that_are_no_arrays_of_numpy() -> None:
    launch = BlockLaunch(add, [tw.OUT], (1,), np.dtype(np.float32), {})
    with pytest.raises(tw.ArgumentError, match="a block for add is a list"):
        launch([1], block_info={None: {"chunk-shape": (1,), "array-location": [(0, 1)], "chunk-location": (0,)}})


def test_without_dask_the_error_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['dask.array'] = None\n"
    program = f"{hidden}import tilewright as tw\ntw.map_blocks(None, tw.OUT, grid=(1,))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: map_blocks needs Dask: pip install 'tilewright[dask]'" in done.stderr
