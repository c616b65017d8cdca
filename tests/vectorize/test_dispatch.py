"""Arrays that compute by themselves get a vectorized function as they get NumPy's ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optional_peers
import tilewright as tw
from tilewright.vectorizing.dispatch import AsUfunc, Fold


@tw.vectorize
def add(a, b):
    """Not what its name says."""
    return a * 2 + b


@tw.vectorize
def quotient(a, b):
    return a // b


class Recorder:
    """An array that notes what it is asked, in the manner of NumPy's protocol."""

    dtype = np.dtype(np.float32)

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        self.asked.append((ufunc, method, inputs, keywords))
        return self.answer


class NotAlone(np.ndarray[Any, Any]):
    """NumPy's arrays, and classes derived from them, have elements that the function reads itself."""


def test_the_protocol_is_numpys() -> None:
    first, second = Recorder(NotImplemented), Recorder("the answer")
    assert add(first, second, where=second) == "the answer"
    ((ufunc, method, inputs, keywords),) = second.asked
    assert (method, inputs, keywords) == ("__call__", (first, second), {"where": second})
    assert (ufunc.nin, ufunc.nout, ufunc.signature, ufunc.__doc__) == (2, 1, None, "Not what its name says.")
    np.testing.assert_array_equal(ufunc(np.arange(3), 1), [1, 3, 5])
    assert len(first.asked) == 1
    out = Recorder("out")
    assert add(1, np.arange(3), out=out) == add(1, np.arange(3), out=(out,)) == "out"
    assert out.asked[0][3] == out.asked[1][3] == {"out": (out,)}


def test_the_name_is_none_that_means_something() -> None:
    """Pandas takes a ufunc that is called `add` for its own operator."""
    assert AsUfunc(add).__name__ == "vectorized_add"


def test_equal_functions_have_equal_tokens_and_others_have_not() -> None:
    """Dask names the parts of a graph by them; a fold along other axes is another one."""
    made = [AsUfunc(add), AsUfunc(quotient), Fold(add, (0,)), Fold(add, (1,)), Fold(quotient, (0,))]
    assert len({each.__dask_tokenize__() for each in made}) == len(made)
    assert Fold(add, (0,)).__dask_tokenize__() == Fold(add, (0,)).__dask_tokenize__()
    assert Fold(add, (0,)).__name__ == "add_reduce"
    np.testing.assert_array_equal(Fold(add, (0,))(np.ones((2, 3), np.int64), 5), [23, 23, 23])


def test_a_ufunc_is_pickled_and_shown_as_its_function() -> None:
    made, arguments = AsUfunc(add).__reduce__()
    assert made(*arguments).function is add
    assert repr(AsUfunc(add)) == repr(add)


def test_nobody_takes_it() -> None:
    with pytest.raises(TypeError, match="none of Recorder takes the vectorized function add"):
        add(Recorder(NotImplemented), 1)


def test_arrays_of_numpy_are_read_as_ever() -> None:
    x = np.arange(3).view(NotAlone)
    np.testing.assert_array_equal(add(x, 1), [1, 3, 5])
    assert type(add(x, 1)) is np.ndarray


def test_a_fold_is_refused() -> None:
    with pytest.raises(tw.ArgumentError, match=r"add.reduce does not take a test_dispatch Recorder: compute it first"):
        add.reduce(Recorder(1))


@pytest.mark.needs_torch
def test_a_tensor_beside_such_an_array() -> None:
    torch = optional_peers.module("torch")
    with pytest.raises(tw.ArgumentError, match="argument 1 is a tensor beside a Recorder"):
        add(Recorder(1), torch.zeros(3))


@pytest.mark.needs_matplotlib
def test_pandas() -> None:
    import pandas as pd

    series = pd.Series([1.0, 2.0, 4.0], index=list("abc"))
    pd.testing.assert_series_equal(add(series, 1), pd.Series([3.0, 5.0, 9.0], index=list("abc")))


@pytest.mark.needs_xarray
def test_xarray() -> None:
    import xarray as xr

    labelled = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("row", "column"))
    found = add(labelled, xr.DataArray([1.0, 2.0, 3.0], dims="column"))
    assert found.dims == ("row", "column")
    np.testing.assert_array_equal(found.values, np.arange(6.0).reshape(2, 3) * 2 + [1, 2, 3])


# Dask


@pytest.mark.needs_dask
class TestDask:
    """Results are lazy, chunk by chunk, and those of the same arrays in NumPy."""

    @pytest.fixture(autouse=True)
    def here(self) -> Any:
        import dask

        with dask.config.set(scheduler="synchronous"):
            yield

    @pytest.mark.parametrize("left", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
    @pytest.mark.parametrize("right", ["uint8", "float32", bool, int, float])
    def test_dtypes_are_known_without_running(self, left: str, right: Any) -> None:
        import dask.array as da

        x = np.arange(7).astype(left)
        other = np.ones(7, right) if isinstance(right, str) else right(1)
        lazy = add(da.from_array(x, chunks=3), da.from_array(other, chunks=2) if isinstance(right, str) else other)
        expected = add(x, other)
        assert isinstance(lazy, da.Array)
        assert (lazy.dtype, lazy.shape) == (expected.dtype, expected.shape)
        found = lazy.compute()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize(
        "shapes", [((5, 4), (4,)), ((5, 1), (1, 4)), ((3, 5, 4), (5, 1)), ((0, 4), (4,)), ((), (4,))]
    )
    @pytest.mark.parametrize("is_both", [True, False])
    def test_broadcasting(self, shapes: Any, is_both: bool) -> None:
        import dask.array as da

        x, y = (np.random.default_rng(1).random(shape).astype(np.float32) for shape in shapes)
        lazy = add(da.from_array(x, chunks=2), da.from_array(y, chunks=3) if is_both else y)
        np.testing.assert_array_equal(lazy.compute(), add(x, y))
        assert lazy.shape == np.broadcast_shapes(*shapes)

    def test_nothing_runs_before(self) -> None:
        import dask.array as da

        def fail(block: Any) -> Any:
            raise AssertionError("a block was computed")

        x = da.ones(6, chunks=2).map_blocks(fail, meta=np.empty(0))
        lazy = add(add(x, 2), x[::-1])
        assert (lazy.shape, lazy.dtype, lazy.numblocks) == ((6,), np.float64, (3,))
        with pytest.raises(AssertionError, match="a block was computed"):
            lazy.compute()

    @pytest.mark.parametrize("chunks", [(5, 7, 3), (2, 3, 2), ((1, 0, 4), (7,), (0, 3)), (1, 1, 1)])
    @pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (2, 1), None, ()])
    @pytest.mark.parametrize("dtype", ["int8", "float32", "bool"])
    def test_folds_are_those_of_the_whole_array(self, dtype: str, axis: Any, chunks: Any) -> None:
        """A reduction by a function for which the order counts, also over several axes."""
        import dask.array as da

        x = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 9, (5, 7, 3)).astype(dtype)
        lazy = da.from_array(x, chunks=chunks)
        for keywords in ({}, {"initial": 3}, {"keepdims": True}):
            expected = add.reduce(x, axis, **keywords)
            found = add.reduce(lazy, axis, **keywords)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            computed = found.compute()
            assert computed.dtype == expected.dtype
            np.testing.assert_array_equal(computed, expected)

    def test_a_fold_is_lazy(self) -> None:
        import dask.array as da

        def fail(block: Any) -> Any:
            raise AssertionError("a block was computed")

        lazy = add.reduce(da.ones((6, 4), chunks=2).map_blocks(fail, meta=np.empty((0, 0))))
        assert (lazy.shape, lazy.dtype, lazy.numblocks) == ((4,), np.float64, (2,))
        assert add.reduce(da.ones(6, chunks=2)).name == add.reduce(da.ones(6, chunks=2)).name
        assert add.reduce(da.ones(6, chunks=2)).name != quotient.reduce(da.ones(6, chunks=2)).name

    def test_folds_that_cannot_be(self) -> None:
        import dask.array as da

        x = da.ones((6, 0), chunks=2)
        assert add.reduce(x).compute().shape == (0,)
        np.testing.assert_array_equal(add.reduce(x, 1, initial=2).compute(), np.full(6, 2.0))
        with pytest.raises(ValueError, match="no identity"):
            add.reduce(x, 1)
        with pytest.raises(tw.ArgumentError, match=r"add.reduce with out= does not take a dask Array"):
            add.reduce(da.ones(3), out=da.ones(()))
        with pytest.raises(tw.ArgumentError, match=r"compute_chunk_sizes"):
            add.reduce(da.ones(3)[da.ones(3) > 0])
        with pytest.raises(ValueError, match="two arguments"):
            tw.vectorize(lambda a: a).reduce(da.ones(3))
        with pytest.raises(np.exceptions.AxisError):
            add.reduce(da.ones(3), 1)

    def test_equal_graphs_have_equal_names(self) -> None:
        import dask.array as da

        x = da.ones(6, chunks=2)
        assert add(x, 1).name == add(x, 1).name != quotient(x, 1).name
        assert add(x, 1).name != add(x, 2).name

    def test_out_and_where(self) -> None:
        import dask.array as da

        x = np.arange(6, dtype=np.float32)
        lazy, out = da.from_array(x, chunks=4), da.full(6, 9, dtype="float32", chunks=4)
        assert add(lazy, 1, out=out, where=lazy > 2) is out
        np.testing.assert_array_equal(out.compute(), [9, 9, 9, 7, 9, 11])
        with pytest.raises(tw.ArgumentError, match=r"out= has the dtype float64, the result float32"):
            add(lazy, 1, out=da.zeros(6, chunks=4))
        with pytest.raises(NotImplementedError, match="out"):
            add(lazy, 1, out=np.zeros(6, np.float32))

    def test_warnings_come_when_it_runs(self, recwarn: pytest.WarningsRecorder) -> None:
        import dask.array as da

        lazy = quotient(da.ones(3, dtype=int, chunks=3), da.zeros(3, dtype=int, chunks=3))
        assert not recwarn.list
        with pytest.warns(RuntimeWarning, match="divi"):
            np.testing.assert_array_equal(lazy.compute(), [0, 0, 0])

    def test_what_has_no_elements_is_refused_at_once(self) -> None:
        import dask.array as da

        with pytest.raises(tw.ArgumentError, match="argument 0 is an array of complex128"):
            add(da.ones(3, dtype=complex, chunks=3), 1)
        with pytest.raises(ValueError, match="broadcast"):
            add(da.ones(3, chunks=3), da.ones(4, chunks=4))
