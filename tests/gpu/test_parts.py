"""The parts of `make gpu`, on simulated GPUs and against the fake driver."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bundle import Wanted, compiled, shapes, wanted_kernels
from case_basics import SIZES, Case, largest_error, numbers, widened
from cases import LARGE, case_of
from driver import CudaError, Device
from entries import read
from parts import NOT_SIMULATED, Contest, chosen, fitting, measured, summary
from simulator import Simulated


class SimulatedText(Simulated):
    """Runs the PTX of a bundle, whatever it is given."""

    def __init__(self, capability: int, folder: Path) -> None:
        super().__init__(capability)
        self.folder = folder

    def load(self, entry: Any, code: bytes) -> Any:
        return super().load(entry, entry.text(self.folder, "ptx"))

    def repeat(self, launch: Any, code: bytes, memory: Any) -> Any:
        return super().repeat(launch, launch.stored(self.folder, "ptx").tobytes(), memory)

    def seconds(self, kernel: Any, grid: Any, arguments: Any, *, launches: int) -> float:
        return 0.5


@pytest.mark.slow
def test_another_simulated_gpu_is_right(bundle_of_two: Path) -> None:
    """The device's own architecture is taken of the two in a bundle; 8.6 runs code for 8.0."""
    for capability, own in ((80, 80), (86, 80), (90, 90)):
        for part in ("right", "agrees"):
            check_parts(part, capability, bundle_of_two, own)


@pytest.mark.parametrize("part", ["right", "agrees"])
def test_a_simulated_gpu_is_right(bundle: Path, part: str) -> None:
    check_parts(part, 90, bundle, 90)


def check_parts(part: str, capability: int, bundle: Path, own: int) -> None:
    found = measured(part, SimulatedText(capability, bundle), bundle)
    timed = [row for row in found["rows"] if row["kind"] == "timed"]
    assert all(row["good"] for row in found["rows"] if part == "right" or row not in timed)
    assert len(found["rows"]) == {80: 3 + 2 + 5, 90: 3 + 2 + 7}[own]
    assert len(timed) == 2
    assert part == "right" or [row["skipped"] for row in timed] == [NOT_SIMULATED] * 2
    assert (found["part"], found["capability"]) == (part, capability)
    assert {row["name"].rpartition("_")[2] for row in found["rows"]} == {str(own)}


def test_speed_is_work_by_time(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(entry: Any) -> Case:
        return case_of(entry)._replace(operations=3e12, moved=5e9)

    monkeypatch.setattr("parts.LARGE", {"add": small})
    row = measured("fast", SimulatedText(90, bundle), bundle, only="add")["rows"][0]
    assert row.pop("kind") == "anchors"
    assert row == {"name": "add1024_w4_90", "good": True, "microseconds": 5e5, "TFLOP/s": 6.0, "GB/s": 10.0}


def test_the_fastest_configuration_is_chosen(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two is; time and work of the kernels of a row add up."""
    monkeypatch.setattr("parts.LARGE", {"layer_norm": lambda entry: case_of(entry)._replace(moved=1e9)})

    class Clock(SimulatedText):
        def seconds(self, kernel: Any, grid: Any, arguments: Any, *, launches: int) -> float:
            return 1.0 / kernel.entry.warps

    (row,) = measured("fast", Clock(90, bundle), bundle)["rows"]
    assert row == {
        "name": "layer norm fp16",
        "kind": "timed",
        "good": True,
        "microseconds": 125000.0,
        "GB/s": 8.0,
        "chosen": "4096, 8 warps, 1 stages",
    }


def test_kernels_of_a_row_are_tuned_one_by_one(bundle: Path) -> None:
    (contest,) = (item for item in chosen("fast", bundle, 90) if isinstance(item, Contest))
    other = contest.entries[0]._replace(kernel="other")
    assert [len(entries) for entries in contest._replace(entries=[*contest.entries, other]).kernels()] == [2, 1]


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timed launches are small."""
    small = {"elements": 4096, "softmax rows": 4, "side": 256, "heads": 2, "rows": 128, "normalized rows": 4}
    for name, size in {**small, "groups": 3, "grouped rows": 512, "grouped side": 64}.items():
        monkeypatch.setitem(SIZES, name, size)


def wanted(name: str) -> Wanted:
    return next(kernel for kernel in wanted_kernels() if kernel.name.startswith(name))


def simulated(kernel: Wanted, capability: int, case: Any) -> tuple[Case, list[Any]]:
    """The results of a case of a kernel."""
    entry, codes = compiled(kernel, capability)
    made, simulator = case(entry), Simulated(capability)
    return made, simulator.run(simulator.load(entry, codes["ptx"]), made.grid, made.arguments)


@pytest.mark.usefixtures("small_sizes")
@pytest.mark.parametrize(
    "name",
    [
        *("add1024_w4", "softmax4096_w8"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("mm64x64x32_w4s3", "fa128x64d64_w4s3")),
    ],
)
def test_timed_launches_stay_within_their_arrays(name: str) -> None:
    """The simulator checks every address; all elements are written, with what NumPy says of some of them."""
    case, results = simulated(wanted(name), 80, lambda entry: LARGE[entry.kernel](entry))
    a, b, *_ = (value for value in case.arguments if isinstance(value, np.ndarray))
    if name.startswith("add"):
        assert (results[2] == 2).all()
    elif name.startswith("softmax"):
        np.testing.assert_allclose(results[0], 1 / b.shape[1], rtol=1e-5)
    elif name.startswith("mm"):
        np.testing.assert_allclose(results[2], a.astype(float) @ b.astype(float), atol=0.06, rtol=2e-3)
    else:
        assert np.isfinite(results[3]).all()
        assert results[3].any(axis=-1).all()


SMALL_TILES = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}


def with_small_tiles(name: str) -> Wanted:
    """A kernel that is timed, with tiles that the simulator is quick with."""
    kernel = wanted(name)
    tiles = {key: size for key, size in SMALL_TILES.items() if key in kernel.constants}
    return kernel._replace(constants=kernel.constants | tiles, warps=4, stages=2)


TUNED = [
    *("matmul_fp16_0", "persistent_matmul_fp16_0", "grouped_matmul_fp16_0", "layer_norm_fp16_0", "softmax_fp32_0"),
    *("attention_backward_d64_0", "attention_forward_d64_0", "attention_backward_d64_1", "attention_backward_d64_4"),
    *("matmul_bf16_0", "matmul_fp8_0", "attention_forward_d128_causal_0"),
    *(f"attention_backward_d128_causal_{number}" for number in (1, 4)),
]
QUICK = ("matmul_bf16_0", "grouped_matmul_fp16_0", "layer_norm_fp16_0", "attention_backward_d64_0")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in TUNED]
)
def test_timed_kernels_are_right(name: str) -> None:
    """With small tiles, on a simulated GPU, against NumPy; a sum that is off is seen."""
    case, results = simulated(with_small_tiles(name), 90, case_of)
    assert largest_error(case, results) <= 1
    for number, expected in case.expected.items():
        wrong = [*results[:number], np.zeros_like(results[number]), *results[number + 1 :]]
        assert largest_error(case, wrong) > 1
        assert expected.shape == results[number].shape


@pytest.mark.slow
@pytest.mark.usefixtures("small_sizes")
@pytest.mark.parametrize("name", TUNED)
def test_large_launches_of_timed_kernels_stay_within_their_arrays(name: str) -> None:
    kernel = with_small_tiles(name)
    if "BLOCK" in kernel.constants:
        kernel = kernel._replace(constants={"BLOCK": 256})
    case, results = simulated(kernel, 90, lambda entry: LARGE[entry.kernel](entry))
    arrays = [value for value in case.arguments if isinstance(value, np.ndarray)]
    changed = [number for number, array in enumerate(arrays) if (results[number] != array).any()]
    assert changed, "something is written"
    assert case.operations or case.moved or "levels" in kernel.function.__name__


@pytest.mark.usefixtures("small_sizes")
def test_work_of_timed_rows() -> None:
    """Two operations for a product and its sum; the way back has two and a half times those of the way there."""

    def operations(row: str) -> float:
        kernels = {kernel.function: kernel for kernel in wanted_kernels() if kernel.row == row}.values()
        return sum(LARGE[kernel.function.__name__](as_entry(kernel)).operations for kernel in kernels)

    heads, rows = SIZES["heads"], SIZES["rows"]
    assert operations("matmul fp8") == operations("persistent matmul fp16") == 2 * SIZES["side"] ** 3
    assert operations("grouped matmul fp16") == 2 * SIZES["grouped rows"] * SIZES["grouped side"] ** 2
    assert operations("attention forward d64") == 4 * heads * rows * rows * 64
    assert operations("attention backward d64") == 10 * heads * rows * rows * 64
    assert operations("attention forward d128 causal") == 2 * heads * rows * rows * 128


def as_entry(kernel: Wanted) -> Any:
    """The attributes that a case asks of an entry."""
    return SimpleNamespace(
        name=kernel.name, kernel=kernel.function.__name__, types=kernel.types, constants=kernel.constants
    )


def test_rows_that_are_asked_for() -> None:
    rows = {kernel.row: kernel for kernel in wanted_kernels() if kernel.row}
    asked = (
        "matmul fp16",
        "matmul bf16",
        "matmul fp8",
        "persistent matmul fp16",
        "grouped matmul fp16",
        "softmax fp32",
    )
    assert {*asked, "layer norm fp16", "attention forward d64", "attention backward d64"} <= rows.keys()
    assert {row for row, kernel in rows.items() if kernel.needs > 80} == {"matmul fp8"}
    assert rows["matmul fp8"].needs == 89


@pytest.mark.parametrize(("element", "dtype"), [("bf16", ml_dtypes.bfloat16), ("fp8e4nv", ml_dtypes.float8_e4m3fn)])
def test_numbers_that_numpy_lacks(element: str, dtype: Any) -> None:
    drawn = numbers(element, 70, 3)
    np.testing.assert_array_equal(widened(drawn, element), drawn.view(dtype).astype(np.float32))
    assert len(np.unique(drawn)) > 60


def test_persistent_kernels_fill_the_device() -> None:
    case = Case((7,), [], {}, persistent=True)
    assert (case.grid_on({"multiprocessors": 132}), case.grid_on({})) == ((132,), (7,))
    assert case._replace(persistent=False).grid_on({"multiprocessors": 132}) == (7,)


@pytest.mark.quick
@pytest.mark.usefixtures("small_sizes")
@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.name)
def test_every_argument_is_given(shape: Any) -> None:
    for case in (case_of(shape), *([LARGE[shape.kernel](shape)] if shape.kernel in LARGE else [])):
        assert [isinstance(value, np.ndarray) for value in case.arguments] == [
            kind.startswith("*") for kind in shape.types.values()
        ]


def test_time_runs_out(bundle: Path) -> None:
    rows = measured("right", SimulatedText(90, bundle), bundle, seconds=-1)["rows"]
    assert all("skipped" in row and "good" not in row for row in rows)
    assert summary(rows) == f"0 of 0 good, {len(rows)} skipped"
    assert summary([*rows, {"good": True}, {"good": False}]) == f"1 of 2 good, {len(rows)} skipped"


def test_an_error_of_the_driver_is_a_row(bundle: Path, fake: Any) -> None:
    device = Device()
    fake.fail("cuLaunchKernelEx", 700)
    rows = measured("right", device, bundle)["rows"]
    assert {row["problem"] for row in rows} == {"cuLaunchKernelEx: CUDA_ERROR_ILLEGAL_ADDRESS (700)"}
    assert not any(row["good"] for row in rows)


def test_a_gpu_that_computes_nothing_is_wrong(bundle: Path, fake: Any) -> None:
    for part in ("right", "agrees"):
        assert not any(row.get("good") for row in measured(part, Device(), bundle)["rows"])


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


def test_launches_with_arrays_of_others(bundle: Path, fake: Any) -> None:
    """Parameters are what `data_ptr()` says; scratch memory is given back."""
    device = Device()
    entry = next(entry for entry in read(bundle).entries if entry.name == "add1024_w4_90")._replace(scratch=64)
    arrays = [SimpleNamespace(data_ptr=lambda address=address: address) for address in (4096, 8192, 12288)]
    fake.expect(8, 8, 8, 4, 8, 8)
    with device.bound(device.load(entry, entry.code(bundle)), (3,), [*arrays, 2000]) as launch:
        launch()
        launch()
    first, second = fake.launches()
    assert first.parameters == second.parameters
    assert [int.from_bytes(value, "little") for value in first.parameters[:4]] == [4096, 8192, 12288, 2000]
    scratch = int.from_bytes(first.parameters[4], "little")
    assert [place for _, place in fake.calls("cuMemFree_v2")] == [scratch]


def test_no_gpu(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.state.device_count = 0
    with pytest.raises(CudaError, match="no GPU 0: 0 found"):
        Device()
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", "/nowhere")
    with pytest.raises(CudaError, match="there is no driver"):
        Device()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("capability", "best"), [(80, 80), (86, 80), (89, 80), (75, None), (90, 90), (91, None), (100, None)]
)
def test_architectures(capability: int, best: int | None) -> None:
    """Code runs on newer devices of the same generation; from 9.0 on it is for the very device."""
    assert fitting({80, 90}, capability) == best


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
