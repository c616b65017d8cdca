"""The parts of `make gpu`, on simulated GPUs and against the fake driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle import compiled, shapes
from cases import LARGE, Case, case_of, largest_error
from driver import CudaError, Device
from entries import Entry, read
from parts import fitting, measured
from simulator import Simulated


class SimulatedText(Simulated):
    """Runs the PTX of a bundle, whatever it is given."""

    def __init__(self, capability: int, folder: Path) -> None:
        super().__init__(capability)
        self.folder = folder

    def load(self, entry: Any, code: bytes) -> Any:
        return super().load(entry, (self.folder / f"{entry.name}.ptx").read_bytes())

    def repeat(self, launch: Any, code: bytes, memory: Any) -> Any:
        return super().repeat(launch, launch.stored(self.folder, "ptx").tobytes(), memory)

    def seconds(self, kernel: Any, grid: Any, arguments: Any, *, launches: int) -> float:
        return 0.5


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("part", ["right", "agrees"])
def test_a_simulated_gpu_is_right(bundle: Path, part: str, capability: int) -> None:
    found = measured(part, SimulatedText(capability, bundle), bundle)
    assert all(row["good"] for row in found["rows"])
    assert len(found["rows"]) == {80: 4 + 4, 90: 4 + 6}[capability]
    assert (found["part"], found["capability"]) == (part, capability)
    assert {row["name"].rpartition("_")[2] for row in found["rows"]} == {str(capability)}


def test_speed_is_work_by_time(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(entry: Any) -> Case:
        return case_of(entry)._replace(operations=3e12, moved=5e9)

    monkeypatch.setattr("parts.LARGE", {"add": small})
    (row,) = measured("fast", SimulatedText(90, bundle), bundle)["rows"]
    assert row == {"name": "add1024_w4_90", "good": True, "microseconds": 5e5, "TFLOP/s": 6.0, "GB/s": 10.0}


SMALL = {"elements": 4096, "softmax rows": 4, "side": 256, "heads": 2, "rows": 128}


@pytest.mark.parametrize(
    "name",
    [
        *("add1024_w4", "softmax4096_w8"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("mm64x64x32_w4s3", "fa128x64d64_w4s3")),
    ],
)
def test_timed_launches_stay_within_their_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator checks every address; all elements are written, with what NumPy says of some of them."""
    monkeypatch.setattr("cases.SIZES", SMALL)
    entry, codes = compiled(next(shape for shape in shapes() if shape.name.startswith(name)), 80)
    case, simulator = LARGE[entry.kernel](entry), Simulated(80)
    results = simulator.run(simulator.load(entry, codes["ptx"].encode()), case.grid, case.arguments)
    a, b, *_ = (value for value in case.arguments if isinstance(value, np.ndarray))
    if entry.kernel == "add":
        assert (results[2] == 2).all()
    elif entry.kernel == "softmax":
        np.testing.assert_allclose(results[0], 1 / b.shape[1], rtol=1e-5)
    elif entry.kernel == "matmul":
        np.testing.assert_allclose(results[2], a.astype(float) @ b.astype(float), atol=0.06, rtol=2e-3)
    else:
        assert np.isfinite(results[3]).all()
        assert results[3].any(axis=-1).all()


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.name)
def test_every_argument_is_given(shape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cases.SIZES", SMALL)
    for case in (case_of(shape), *([LARGE[shape.kernel](shape)] if shape.kernel in LARGE else [])):
        assert [isinstance(value, np.ndarray) for value in case.arguments] == [
            kind.startswith("*") for kind in shape.types.values()
        ]


def test_time_runs_out(bundle: Path) -> None:
    rows = measured("right", SimulatedText(90, bundle), bundle, seconds=-1)["rows"]
    assert all("skipped" in row and "good" not in row for row in rows)


def test_an_error_of_the_driver_is_a_row(bundle: Path, fake: Any) -> None:
    device = Device()
    fake.fail("cuLaunchKernelEx", 700)
    rows = measured("right", device, bundle)["rows"]
    assert {row["problem"] for row in rows} == {"cuLaunchKernelEx: CUDA_ERROR_ILLEGAL_ADDRESS (700)"}
    assert not any(row["good"] for row in rows)


def test_a_gpu_that_computes_nothing_is_wrong(bundle: Path, fake: Any) -> None:
    for part in ("right", "agrees"):
        assert not any(row["good"] for row in measured(part, Device(), bundle)["rows"])


def test_a_launch(bundle: Path, fake: Any) -> None:
    """Grid, threads and parameters are those of the kernel; all memory is given back."""
    device = Device()
    entry = next(entry for entry in read(bundle).entries if entry.name == "add1024_w4_90")
    case = case_of(entry)
    fake.expect(8, 8, 8, 4, 8, 8)
    results = device.run(device.load(entry, entry.code(bundle)), case.grid, case.arguments)
    (launch,) = fake.launches()
    assert (launch.grid, launch.block, launch.shared) == ((2, 1, 1), (128, 1, 1), 0)
    assert int.from_bytes(launch.parameters[3], "little") == 2000
    allocated = [int.from_bytes(value, "little") for value in launch.parameters[:3]]
    assert sorted(place for _, place in fake.calls("cuMemFree_v2")) == sorted(allocated)
    np.testing.assert_array_equal(results[0], case.arguments[0])


def test_facts_of_a_gpu(fake: Any) -> None:
    facts = Device().facts
    assert (facts["capability"], facts["multiprocessors"]) == (90, 132)
    assert facts["gigabytes per second"] == pytest.approx(2 * ATTRIBUTES[36] * ATTRIBUTES[37] / 8e6, rel=1e-3)


ATTRIBUTES = {36: 3201000, 37: 6144}


def test_no_gpu(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.state.device_count = 0
    with pytest.raises(CudaError, match="no GPU 0: 0 found"):
        Device()
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", "/nowhere")
    with pytest.raises(CudaError, match="there is no driver"):
        Device()


@pytest.mark.parametrize(
    ("capability", "chosen"), [(80, 80), (86, 80), (89, 80), (75, None), (90, 90), (91, None), (100, None)]
)
def test_architectures(capability: int, chosen: int | None) -> None:
    """Code runs on newer devices of the same generation; from 9.0 on it is for the very device."""
    entries = [Entry("add", "add", {}, {}, known, "add", 0, 4, 1, 0, True) for known in (80, 90)]
    assert [entry.capability for entry in fitting(entries, capability)] == ([chosen] if chosen else [])


def test_errors() -> None:
    case = Case((1,), [], {0: np.array([1.0, np.nan, np.inf])}, 0.1)
    assert largest_error(case, [np.array([1.0, np.nan, np.inf])]) == 0
    assert 0.9 < largest_error(case, [np.array([1.1, np.nan, np.inf])]) < 1
    assert largest_error(case, [np.array([1.3, np.nan, np.inf])]) > 1
    assert largest_error(case, [np.array([1.0, 5.0, np.inf])]) == np.inf
    assert largest_error(case, [np.array([np.nan, np.nan, np.inf])]) == np.inf


def test_cases_are_the_same_again(bundle: Path) -> None:
    entry = read(bundle).entries[0]
    first, second = case_of(entry), case_of(entry)
    np.testing.assert_array_equal(first.arguments[0], second.arguments[0])
