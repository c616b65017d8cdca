"""Launches on a simulated GPU: what is copied, what aliases, and what is an error."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import gluon
from tilewright.backends.ptxsim import DeviceMemory, SimulationError
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import TensorMemoryLayout, allocate_tensor_memory
from tilewright.runtime.arrays import view_of
from tilewright.runtime.drivers.simulated.gpu import Regions, simulated_gpu


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.fixture
def gpu() -> Iterator[Any]:
    with tw.simulate("cuda:90") as device:
        yield device


@tw.jit
def shift(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


def test_only_what_the_kernel_stores_is_copied_back(gpu: Any) -> None:
    x, out = np.arange(100, dtype=np.float32), np.full(100, -1, np.float32)
    shift[(1,)](x, out, 70, BLOCK=128)
    assert out.tolist() == [*range(1, 71), *[-1] * 30]


def test_arrays_that_overlap_do_so_on_the_device(gpu: Any) -> None:
    base = np.arange(64, dtype=np.float32)
    shift[(1,)](base, base, 64, BLOCK=64)
    assert base.tolist() == list(range(1, 65))
    shift[(1,)](base[:32], base[16:48], 16, BLOCK=16)
    assert base[16:32].tolist() == [n + 2 for n in range(16)]
    assert base[32:].tolist() == list(range(33, 65))


@pytest.mark.slow
@pytest.mark.needs_torch
def test_tensors_of_the_cpu_are_copied_as_arrays_are(gpu: Any) -> None:
    import torch

    x, out = torch.arange(32, dtype=torch.float32), torch.zeros(32)
    shift[(1,)](x, out, 32, BLOCK=32)
    assert out.tolist() == list(range(1, 33))


def test_an_access_outside_of_an_array_names_array_line_and_thread(gpu: Any) -> None:
    with pytest.raises(SimulationError) as caught:
        shift[(1,)](np.zeros(40, np.float32), np.zeros(64, np.float32), 64, BLOCK=64)
    error = caught.value
    assert error.kind == "out of bounds"
    assert "`x_ptr`, which has 160 bytes" in error.text
    assert error.cta == (0, 0, 0)
    assert error.source is not None
    assert error.source.file == __file__
    assert error.source.line == shift.fn.__code__.co_firstlineno + 3


@tw.jit(debug=True)
def checked(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    tl.device_assert(x > 0, "wants positive numbers")
    tl.store(out_ptr + tl.program_id(0), x)


@pytest.mark.slow
def test_kernels_may_use_the_rest_of_an_allocation_if_they_are_told_so() -> None:
    padded, x = np.zeros(128, np.float32), np.arange(128, dtype=np.float32)
    with tw.simulate("cuda:90"), pytest.raises(SimulationError, match="out of bounds") as raised:
        shift[(1,)](x, padded[:100], 128, BLOCK=128)
    assert raised.value.__notes__ == [
        'help: parts of larger allocations are `out_ptr`; simulate(…, bounds="storage") has all of these'
    ]
    with tw.simulate("cuda:90", bounds="storage"):
        shift[(1,)](x, padded[:100], 128, BLOCK=128)
        assert padded.tolist() == list(range(1, 129))
        with pytest.raises(SimulationError, match="out of bounds"):
            shift[(2,)](x, padded[:100], 256, BLOCK=128)
    with pytest.raises(ValueError, match="`bounds` is 'array' or 'storage', not 'page'"), tw.simulate(bounds="page"):
        pass


@tw.jit
def add_to_each(table_ptr, BLOCK: tl.constexpr):
    """The arrays that a table of pointers names, plus 1."""
    array = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(array + i, tl.load(array + i) + 1)


def test_a_table_of_pointers_leads_to_reachable_arrays() -> None:
    first, second = np.zeros(32, np.float32), np.arange(96, dtype=np.float32)
    table = np.array([first.ctypes.data, second[32:64].ctypes.data])
    with tw.simulate("cuda:90", reachable=[first, second]):
        add_to_each[(2,)](table, BLOCK=32)
    assert first.tolist() == [1] * 32
    assert second.tolist() == [n + (32 <= n < 64) for n in range(96)]


def test_an_address_of_no_array_is_an_error_that_names_the_remedy() -> None:
    first, second = np.zeros(32, np.float32), np.zeros(32, np.float32)
    table = np.array([first.ctypes.data, second.ctypes.data])
    with tw.simulate("cuda:90", reachable=[first]), pytest.raises(SimulationError) as raised:
        add_to_each[(2,)](table, BLOCK=32)
    assert f"{second.ctypes.data:#x}, where the simulated device has no memory" in raised.value.text
    assert "reachable=" in raised.value.__notes__[0]
    assert second.tolist() == [0] * 32
    with pytest.raises(tw.ArgumentError, match="a int is no array"), tw.simulate(reachable=[first, 3]):
        pass


def test_a_reachable_array_that_ends_has_bounds() -> None:
    first = np.zeros(48, np.float32)
    with tw.simulate("cuda:90", reachable=[first[:16]]), pytest.raises(SimulationError, match="out of bounds"):
        add_to_each[(1,)](np.array([first.ctypes.data]), BLOCK=32)
    with tw.simulate("cuda:90"), pytest.raises(SimulationError, match="no memory"):
        add_to_each[(1,)](np.array([first.ctypes.data]), BLOCK=32)


@tw.jit
def copy_by_descriptor(table_ptr, out_ptr):
    array = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    rows = tl.make_tensor_descriptor(array, [8, 32], [32, 1], [8, 32])
    place = tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)
    tl.store(out_ptr + place, rows.load([0, 0]))


def test_descriptors_lead_to_reachable_arrays() -> None:
    x, out = np.arange(320, dtype=np.float32), np.zeros((8, 32), np.float32)
    x = x[-x.ctypes.data // 4 % 4 :][:256]
    with tw.simulate("cuda:90", reachable=[x]):
        copy_by_descriptor[(1,)](np.array([x.ctypes.data]), out)
    assert out.ravel().tolist() == x.tolist()


def test_assertions_raise_what_they_raise_on_the_cpu(gpu: Any) -> None:
    x = np.array([1, 2, 0, 4], np.int32)
    with pytest.raises(tw.DeviceAssertError, match="wants positive numbers") as caught:
        checked[(4,)](x, np.zeros(4, np.int32), debug=True)
    assert caught.value.program == (2, 0, 0)
    assert caught.value.span is not None
    assert caught.value.span.line == checked.fn.__code__.co_firstlineno + 3


@tw.jit
def prints(x_ptr):
    tl.device_print("x", tl.load(x_ptr + tl.program_id(0)))


@pytest.mark.slow
def test_prints_go_to_the_output_of_this_process(gpu: Any, capsys: pytest.CaptureFixture[str]) -> None:
    prints[(2,)](np.array([7, -8], np.int32))
    text = capsys.readouterr().out
    assert "pid (0, 0, 0)" in text
    assert "7\n" in text
    assert "-8\n" in text


@pytest.mark.quick
@pytest.mark.parametrize("target", ["cuda", "cuda:sm90", "hip:90", "cuda:35"])
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(ValueError, match=r"a simulated target is|no code generation for cuda:35"), tw.simulate(target):
        pass


@gluon.jit
def copy_of_what_nobody_stored(out, TENSOR: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 32], [32, 1], [4, 1], [0, 1])
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 32, layout=gl.SliceLayout(0, layout))[None, :]
    if TENSOR:
        buffer = allocate_tensor_memory(gl.float32, [128, 32], TensorMemoryLayout((128, 32), col_stride=1))
    else:
        buffer = gl.allocate_shared_memory(gl.float32, [128, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    gl.store(out + rows * 32 + columns, buffer.load(layout))


def test_reads_of_what_nobody_stored_are_reported_or_nans() -> None:
    out = np.zeros((128, 32), np.float32)
    with tw.simulate("cuda:90"), pytest.raises(SimulationError, match="uninitialised memory"):
        copy_of_what_nobody_stored[(1,)](out, TENSOR=False)
    with tw.simulate("cuda:90", uninitialized="nan"):
        copy_of_what_nobody_stored[(1,)](out, TENSOR=False)
    assert np.isnan(out).all()


def test_tensor_memory_that_nobody_stored_is_nans() -> None:
    out = np.zeros((128, 32), np.float32)
    with tw.simulate("cuda:100"):
        copy_of_what_nobody_stored[(1,)](out, TENSOR=True)
    assert np.isnan(out).all()
    assert np.isnan(out.view(np.float16)).all()


def test_other_ways_to_meet_such_reads_are_refused() -> None:
    with pytest.raises(ValueError, match="'report' or 'nan', not 'zero'"), tw.simulate(uninitialized="zero"):
        pass


def test_a_kernel_that_wants_too_much_is_not_launched() -> None:
    facts = SimpleNamespace(shared=240_000, num_warps=4)
    with pytest.raises(tw.OutOfResources):
        simulated_gpu(90).load(SimpleNamespace(metadata=facts))


def test_the_autotuner_passes_over_more_threads_than_a_gpu_launches(gpu: Any) -> None:
    seen: list[str] = []
    tuned = tw.autotune(
        configs=[tw.Config({}, num_warps=128), tw.Config({}, num_warps=4)],
        key=["n"],
        post_hook=lambda *_, exception: seen.append(str(exception)),
    )(shift)
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    tuned[(1,)](x, out, 32, BLOCK=32)
    assert out.tolist() == list(range(1, 33))
    assert tuned.best_config.num_warps == 4
    assert seen[0] == "out of resource: threads, Required: 4096, Hardware limit: 1024."
    with pytest.raises(tw.OutOfResources, match=r"threads, Required: 2048"):
        shift[(1,)](x, out, 32, BLOCK=32, num_warps=64)


def test_pieces_keep_distances_and_alignment() -> None:
    base = np.zeros((8, 10), np.int16)
    other = np.zeros(4, np.int64)
    views = {"rows": view_of(base[::2]), "columns": view_of(base[:, 3:]), "other": view_of(other)}
    regions = Regions(DeviceMemory(), list(views.items()), "array")
    places = {name: regions.address_of(view) for name, view in views.items()}
    assert len(regions.regions) == 2
    assert places["columns"] - places["rows"] == 6
    assert all(places[name] % 256 == view.address % 256 for name, view in views.items())
