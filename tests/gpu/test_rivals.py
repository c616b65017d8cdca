"""Kernels against others on a GPU: what is launched, on a simulated GPU and with a stand-in for torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpu_static_kernels as kernels
import numpy as np
import pytest
import rivals
from case_basics import SIZES, Case
from cases import LARGE
from entries import Entry, read
from parts import Contest, contests, speed
from peaks import PEAKS, UNKNOWN, peak_of
from simulator import Simulated
from timed import TIMED

import tilewright as tw

pytestmark = pytest.mark.quick

SMALL = {"elements": 2048, "softmax rows": 3, "side": 256, "heads": 2, "rows": 128, "normalized rows": 3}


class Event:
    """An event of the shim for torch, whose clock goes on by a millisecond each time that somebody looks."""

    clock = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        Event.clock += 1
        self.time = Event.clock

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: Event) -> float:
        return end.time - self.time


class Tensor(np.ndarray[Any, Any]):
    """A stand-in with as much of a tensor as is asked for."""

    def data_ptr(self) -> int:
        return int(self.ctypes.data)

    def cuda(self) -> Tensor:
        return self


TORCH = SimpleNamespace(
    cuda=SimpleNamespace(Event=Event, get_device_name=lambda: "NVIDIA H200", synchronize=lambda: None),
    nn=SimpleNamespace(functional=SimpleNamespace(layer_norm=lambda x, shape, weight, bias: x)),
    from_numpy=lambda array: array.view(Tensor),
    zeros=lambda n, device: np.zeros(n, np.float32),
    add=lambda a, b, out: np.add(a, b, out=out),
    softmax=lambda x, axis: x,
)


class GpuOfTheBundle(Simulated):
    """A simulated GPU that launches what a bundle has, with arrays of others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(90)
        self.facts = {"device": "NVIDIA H200", "multiprocessors": 4}
        self.folder = folder

    def load(self, entry: Entry, code: bytes) -> Any:
        assert code
        return super().load(entry, entry.text(self.folder, "ptx"))

    @contextmanager
    def bound(self, kernel: Any, grid: Sequence[int], arguments: Sequence[Any]) -> Iterator[Any]:
        def launch() -> None:
            arrays = [value for value in arguments if isinstance(value, np.ndarray)]
            for array, result in zip(arrays, self.run(kernel, grid, arguments), strict=True):
                array[...] = result

        yield launch


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARM", "LAUNCHES", "SAMPLES"):
        monkeypatch.setattr(rivals, name, 1)
    for name, size in SMALL.items():
        monkeypatch.setitem(SIZES, name, size)


@pytest.fixture
def gpu(bundle: Path) -> GpuOfTheBundle:
    return GpuOfTheBundle(bundle)


def row_of_bundle(bundle: Path, name: str) -> Contest:
    entries = [entry for entry in read(bundle).entries if entry.capability == 90]
    alone = [Contest(entry.name, 90, [entry]) for entry in entries if not entry.row]
    return next(row for row in (*alone, *contests(entries)) if row.name == name)


def test_a_row_of_an_anchor(gpu: GpuOfTheBundle, bundle: Path) -> None:
    """The simulator runs the kernel; Triton is ourselves once more."""
    with tw.simulate("cuda:90"):
        row = rivals.row_against_others(TORCH, row_of_bundle(bundle, "add1024_w4_90"), vars(kernels), gpu, bundle)
    moved = 12 * 2048 / 1e-3 / 1e9
    assert row == {
        "good": True,
        "torch / ours": 1.0,
        "Triton / ours": 1.0,
        "microseconds": 1000.0,
        "GB/s": round(moved, 1),
        "of bandwidth": "0%",
        "chosen": "1024, 4 warps, 3 stages",
    }


def test_a_row_that_is_tuned(gpu: GpuOfTheBundle, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faster one of two configurations counts, ours and Triton's each by itself."""
    monkeypatch.setattr(rivals, "_ours", lambda torch, entry, *_: {4: 3.0, 8: 2.0}[entry.warps])
    monkeypatch.setattr(rivals, "_triton", lambda torch, entry, *_: {4: 1.5, 8: float("inf")}[entry.warps])
    row = rivals.row_against_others(TORCH, row_of_bundle(bundle, "layer norm fp16"), {"layer_norm": None}, gpu, bundle)
    assert (row["good"], row["Triton / ours"], row["microseconds"]) == (False, 0.75, 2e6)
    assert row["chosen"] == "4096, 8 warps, 1 stages"


def test_what_triton_cannot_compile_is_not_chosen(gpu: GpuOfTheBundle, bundle: Path) -> None:
    (entry,) = row_of_bundle(bundle, "add1024_w4_90").entries
    assert rivals._triton(TORCH, entry, {}, gpu.facts, []) == float("inf")


def test_a_launch_gives_the_result(bundle: Path) -> None:
    (entry,) = row_of_bundle(bundle, "add1024_w4_90").entries
    case: Case = LARGE["add"](entry)
    with tw.simulate("cuda:90"):
        rivals.launcher(kernels.add, entry, case, {}, case.arguments)()
    assert (case.arguments[2] == 2).all()


@pytest.mark.parametrize(
    ("theirs", "bar", "good"), [(0.97, 0.97, True), (0.96, 0.97, False), (2.0, 1 / 0.6, True), (1.5, 1 / 0.6, False)]
)
def test_bars_are_against_triton(theirs: float, bar: float, good: bool) -> None:
    row = rivals.compared(1.0, {"Triton": theirs, "torch": 0.1}, bar)
    assert row == {"good": good, "Triton / ours": theirs, "torch / ours": 0.1}
    assert rivals.compared(1.0, {"torch": 0.1}, bar)["good"], "nothing is asked of us where there is no Triton"


def test_what_there_are_rows_for(bundle: Path) -> None:
    names = list(rivals.rows(bundle, 90))
    assert names == [
        *("launch", "autotune"),
        *(f"{name} against others" for name in ("add1024_w4_90", "softmax1024_w4_90", "layer norm fp16")),
    ]
    assert len({str(config) for config in rivals.configurations()}) == 20


def test_torch_has_a_rival_for_every_row() -> None:
    """One kernel of each row has a rival, so that a row of several has one, too."""
    rivals_of = {name for names in rivals.RIVALS for name in names}
    for row in {timed.row for timed in TIMED}:
        assert len({timed.kernel for timed in TIMED if timed.row == row} & rivals_of) == 1
    assert {"add", "softmax", "matmul", "matmul_by_descriptors", "attention"} <= rivals_of


@pytest.mark.slow
@pytest.mark.needs_torch
@pytest.mark.parametrize("name", ["matmul fp16", "grouped matmul fp16", "attention backward d64", "layer norm fp16"])
def test_torch_is_given_what_a_row_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch on this CPU: the shapes fit, and products are those of the row."""
    import torch

    for size, value in {"groups": 3, "grouped rows": 512, "grouped side": 64}.items():
        monkeypatch.setitem(SIZES, size, value)
    for kernel in (timed for timed in TIMED if timed.row == name):
        constants = kernel.constants | kernel.configurations[0].constants
        entry: Any = SimpleNamespace(kernel=kernel.kernel, types=kernel.types, constants=constants)
        case = LARGE[kernel.kernel](entry)
        tensors = [torch.from_numpy(value) for value in case.arguments if isinstance(value, np.ndarray)]
        launch = rivals.library(torch, Contest(name, 90, [entry]), case, tensors)
        if launch:
            launch()
        if "matmul" in name:
            a, b, c, *starts = (tensor.float() for tensor in tensors)
            last = a[int(starts[0][-2]) :] @ b[-1] if starts else a @ b
            torch.testing.assert_close(c[-len(last) :], last, atol=0.2, rtol=4e-3)


@pytest.mark.needs_triton
def test_triton_reads_the_same_kernels(tmp_path: Path) -> None:
    found = rivals.for_triton(tmp_path)
    for name in ("matmul", *(timed.kernel for timed in TIMED)):
        assert type(found[name]).__module__.partition(".")[0] == "triton"


def test_without_torch(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rivals.find_spec", lambda name: None)
    assert rivals.row_of("launch", bundle) == {"skipped": "torch is not installed"}
    assert rivals.for_triton(Path()) == {}
    monkeypatch.setattr("rivals.find_spec", lambda name: name == "torch")
    assert rivals.row_of("launch", bundle) == {"skipped": "Tilewright is not installed"}


def test_kernels_are_read_with_another_package_in_place_of_ours(tmp_path: Path) -> None:
    """Kernels are read in a bundle as in the repository; here the other package is ourselves."""
    found = rivals.kernels_of(tmp_path, "tilewright")
    assert found["attention_keys"].fn.__code__.co_filename == str(tmp_path / "timed_kernels_for_tilewright.py")
    assert found["add"].fn.__name__ == "add"


@pytest.mark.parametrize(
    ("device", "fp16", "fp8", "bandwidth"),
    [
        ("NVIDIA H200", 989.5, 1979.0, 4800.0),
        ("NVIDIA H100 PCIe", 756.5, 1513.0, 2000.0),
        ("NVIDIA A100-SXM4-80GB", 312.0, 0.0, 2039.0),
        ("NVIDIA L4", 121.0, 242.5, 300.0),
    ],
)
def test_peaks(device: str, fp16: float, fp8: float, bandwidth: float) -> None:
    peak = peak_of({"device": device})
    assert (peak.of("fp16"), peak.of("bf16"), peak.of("fp8e4nv"), peak.of("fp32")) == (fp16, fp16, fp8, 0)
    assert peak.bandwidth == bandwidth


OTHERS = (
    *("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H20", "NVIDIA L4000", "NVIDIA GeForce RTX 4090 D", "simulator"),
    *("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GH200 480GB"),
)


@pytest.mark.parametrize("device", OTHERS)
def test_of_other_devices_nothing_is_known(device: str) -> None:
    assert peak_of({"device": device}) == UNKNOWN
    row = speed(1e-3, WORK, "fp16", {"device": device})
    assert row == {"microseconds": 1000.0, "TFLOP/s": 494.8, "GB/s": 2400.0}


def test_fp8_is_twice_as_fast_as_fp16() -> None:
    """On every device that has units for it; a row where it is not is a slip of the pen."""
    for peak in PEAKS.values():
        assert peak.fp8 == 0 or 1.99 < peak.fp8 / peak.fp16 < 2.03
        assert 100 < peak.bandwidth < 10000


WORK = Case((1,), [], {}, operations=494.75e9, moved=2.4e9)


def test_shares() -> None:
    row = speed(1e-3, WORK, "fp16", {"device": "NVIDIA H200"})
    assert row == {"microseconds": 1000.0, "TFLOP/s": 494.8, "of peak": "50%", "GB/s": 2400.0, "of bandwidth": "50%"}
    assert speed(1e-3, WORK, "fp8e4nv", {"device": "NVIDIA H200"})["of peak"] == "25%"
    assert "of peak" not in speed(1e-3, WORK, "fp32", {"device": "NVIDIA H200"})
