"""Kernels against others on a GPU: what is launched, on a simulated GPU and with a stand-in for torch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpu_static_kernels as kernels
import numpy as np
import pytest
import rivals
from bundle import shapes
from cases import LARGE, Case
from parts import speed
from peaks import peaks

import tilewright as tw

SMALL = {"elements": 2048, "softmax rows": 3, "side": 256, "heads": 2, "rows": 128}


class Event:
    """Of the stand-in for torch: its clock goes on by a millisecond each time that somebody looks."""

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
    """As much of a tensor as is asked for."""

    def data_ptr(self) -> int:
        return int(self.ctypes.data)

    def cuda(self) -> Tensor:
        return self


TORCH = SimpleNamespace(
    cuda=SimpleNamespace(Event=Event, get_device_name=lambda: "NVIDIA H200", synchronize=lambda: None),
    from_numpy=lambda array: array.view(Tensor),
    zeros=lambda n, device: np.zeros(n, np.float32),
    add=lambda a, b, out: np.add(a, b, out=out),
    softmax=lambda x, axis: x,
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARM", "LAUNCHES", "SAMPLES"):
        monkeypatch.setattr(rivals, name, 1)
    monkeypatch.setattr("cases.SIZES", SMALL)
    monkeypatch.setattr("rivals.SIZES", SMALL)


def shape(name: str) -> Any:
    return next(anchor for anchor in shapes() if anchor.name.startswith(name))


def test_a_row_of_an_anchor() -> None:
    """The simulator runs the kernel; Triton is ourselves once more."""
    with tw.simulate("cuda:90"):
        row = rivals.anchor_row(TORCH, shape("add1024_w4"), kernels)
    moved = 12 * 2048 / 1e-3 / 1e9
    assert row == {
        "good": True,
        "Triton / ours": 1.0,
        "torch / ours": 1.0,
        "microseconds": 1000.0,
        "GB/s": round(moved, 1),
        "of bandwidth": "0%",
    }


def test_a_launch_gives_the_result() -> None:
    anchor = shape("add1024_w4")
    case: Case = LARGE["add"](anchor)
    with tw.simulate("cuda:90"):
        rivals.launcher(kernels, anchor, case, case.arguments)()
    assert (case.arguments[2] == 2).all()


@pytest.mark.parametrize(
    ("theirs", "bar", "good"), [(0.97, 0.97, True), (0.96, 0.97, False), (2.0, 1 / 0.6, True), (1.5, 1 / 0.6, False)]
)
def test_bars_are_against_triton(theirs: float, bar: float, good: bool) -> None:
    row = rivals.compared(1.0, {"Triton": theirs, "torch": 0.1}, bar)
    assert row == {"good": good, "Triton / ours": theirs, "torch / ours": 0.1}
    assert rivals.compared(1.0, {"torch": 0.1}, bar)["good"], "nothing is asked of us where there is no Triton"


def test_what_there_are_rows_for() -> None:
    names = list(rivals.rows())
    assert names[:2] == ["launch", "matmul, tuned"]
    assert len(names) == 2 + sum(anchor.kernel in LARGE for anchor in shapes())
    assert len({str(config) for config in rivals.configurations()}) == 20


@pytest.mark.needs_triton
def test_triton_reads_the_same_kernels(tmp_path: Path) -> None:
    assert type(rivals.for_triton(tmp_path).matmul).__module__.partition(".")[0] == "triton"


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rivals.find_spec", lambda name: None)
    assert rivals.row_of("launch") == {"skipped": "torch is not installed"}
    assert rivals.for_triton(Path()) is None


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("NVIDIA H200", (989.0, 4800.0)),
        ("NVIDIA H100 PCIe", (756.0, 2039.0)),
        ("NVIDIA H100 80GB HBM3", (989.0, 3352.0)),
        ("NVIDIA A100-SXM4-80GB", (312.0, 2039.0)),
        ("NVIDIA A100-SXM4-40GB", (312.0, 1555.0)),
        ("NVIDIA L4", (121.0, 300.0)),
        ("NVIDIA L40", (0.0, 700.0)),
    ],
)
def test_peaks(device: str, found: tuple[float, float]) -> None:
    assert peaks({"device": device, "gigabytes per second": 700.0}) == found


def test_shares() -> None:
    row = speed(1e-3, 494.5e9, 2.4e9, {"device": "NVIDIA H200"})
    assert row == {"microseconds": 1000.0, "TFLOP/s": 494.5, "of peak": "50%", "GB/s": 2400.0, "of bandwidth": "50%"}
