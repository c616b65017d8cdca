"""The bundle, in an environment that has Python and NumPy and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import driver
import gpu_static_kernels as anchors
import numpy as np
import pytest
from bundle import ARCHITECTURES, DIFFERS, LARGEST, RUNNER, Task, build, launches_of, shapes, tasks, wanted_kernels
from entries import Bundle, read, write
from fake_driver import ATTRIBUTES, FakeDriver, place
from launches import Launch
from parts import contents, left_out
from timed import TIMED

from tilewright.runtime.drivers.cuda import structs


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with NumPy only."""
    folder = Path(tmp_path_factory.mktemp("venv"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    numpy = Path(np.__file__).parent
    for found in (numpy, numpy.with_name("numpy.libs")):
        if found.exists():
            (packages / found.name).symlink_to(found)
    places = {"devices": place("device_count"), "facts": place("device_facts"), "attributes": ATTRIBUTES}
    (packages / "sitecustomize.py").write_text(WITH_GPU.format(**places))
    return folder / "bin" / "python"


WITH_GPU = """
import ctypes, os
if "FAKE_GPU" in os.environ:
    state = ctypes.CDLL(os.environ["FAKE_GPU"]).fake_state
    state.restype = ctypes.c_void_p
    ctypes.c_int64.from_address(state() + {devices}).value = 1
    for number, value in {attributes}.items():
        ctypes.c_int32.from_address(state() + {facts} + 4 * number).value = value
"""
"""The first lines of every process of the environment: one fake GPU, where a variable names its library."""


def run(python: Path, bundle: Path, part: str, folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run a part in the environment, with the driver of a folder."""
    environment = {"TRITON_LIBCUDA_PATH": str(folder), "PATH": os.environ["PATH"]}
    command = [str(bundle / "parts.py"), part, "--out", str(out), "--only", "1024"]
    library = folder / "libcuda.so.1"
    environment |= {"FAKE_GPU": str(library)} if library.exists() else {}
    return subprocess.run([python, *command], check=False, capture_output=True, text=True, env=environment, cwd="/")


@pytest.mark.spared
def test_the_environment_has_nothing_else(python: Path) -> None:
    for name in ("tilewright", "llvmlite", "torch", "triton", "ml_dtypes"):
        assert subprocess.run([python, "-c", f"import {name}"], check=False, capture_output=True).returncode == 1
    subprocess.run([python, "-c", "import numpy"], check=True)


@pytest.mark.spared
@pytest.mark.parametrize("part", ["right", "agrees"])
def test_a_part_alone(python: Path, bundle: Path, part: str, fake: FakeDriver, tmp_path: Path) -> None:
    """The fake GPU computes nothing, and that is seen."""
    done = run(python, bundle, part, fake.folder, tmp_path / "out.json")
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{part}: 0 of 3 good\n", "")
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["part"], found["capability"], len(found["rows"])) == (part, 90, 3)
    assert {row["kind"] for row in found["rows"]} == {"anchors"}
    assert found["commit"] == read(bundle).commit


def test_no_gpu(python: Path, bundle: Path, tmp_path: Path) -> None:
    done = run(python, bundle, "right", tmp_path, tmp_path / "out.json")
    assert done.returncode == 2
    assert done.stderr.startswith("no GPU: there is no driver")


def added_rows(python: Path, bundle: Path, script: str, driver: Path, file: Path) -> list[dict[str, Any]]:
    """The entries that a script of the bundle adds to the JSON of a part without rows."""
    file.write_text(json.dumps({"part": "fast", "rows": []}))
    environment = {"TRITON_LIBCUDA_PATH": str(driver), "PATH": "", "FAKE_GPU": str(driver / "libcuda.so.1")}
    command = [python, bundle / script, file, *(["--bundle", bundle] if script == "rivals.py" else [])]
    subprocess.run(command, check=True, env=environment, cwd="/", capture_output=True)
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"]
    return rows


@pytest.mark.slow
def test_rivals_alone(python: Path, bundle: Path, fake: FakeDriver, tmp_path: Path) -> None:
    """Without torch there is nothing to compare with, which is no failure."""
    rows = added_rows(python, bundle, "rivals.py", fake.folder, tmp_path / "fast.json")
    assert {row["skipped"] for row in rows} == {"torch is not installed"}
    assert {"launch", "add1024_w4_90 against others", "layer norm fp16 against others"} <= {row["name"] for row in rows}


@pytest.mark.slow
def test_faults_alone(python: Path, bundle: Path, fake: FakeDriver, tmp_path: Path) -> None:
    """compute-sanitizer is not there; what needs none is run, and a GPU that computes nothing is wrong."""
    rows = {row.pop("name"): row for row in added_rows(python, bundle, "faults.py", fake.folder, tmp_path / "a.json")}
    assert rows["out of bounds"] == {"skipped": "compute-sanitizer is not installed"}
    assert not rows["missing fence"]["good"]


def test_what_is_in_it(bundle: Path) -> None:
    names = {file.name for file in bundle.iterdir()}
    files = {"kernels.json.gz", "simulated.npz", "cuda_structs.py", "gpu_static_kernels.py", "add1024_w4_90.ptx.gz"}
    assert {*RUNNER, *files} <= names
    entries = read(bundle).entries
    assert len(entries) == 3 + 2
    assert {entry.row for entry in entries if entry.kind == "timed"} == {"layer norm fp16"}


def test_structs_are_those_of_the_package(bundle: Path) -> None:
    assert (bundle / "cuda_structs.py").read_bytes() == Path(structs.__file__).read_bytes()
    assert driver.structs is structs, "here there is no copy"


def test_what_does_not_fit_is_left_out(tmp_path: Path) -> None:
    """100 KB of shared memory are not enough for four stages of 128×256×64."""
    found = build(tmp_path, (86,), only="^matmul_fp16_2$")
    assert found.entries == found.launches == []
    (missing,) = found.left_out
    assert (missing.name, missing.kind, missing.capability) == ("matmul_fp16_2_86", "timed", 86)
    assert "shared memory" in missing.reason
    write(tmp_path, found._replace(launches=[LAUNCH._replace(capability=86)]))
    (row,) = left_out("right", tmp_path, 86)
    assert row == {"name": missing.name, "kind": "timed", "skipped": missing.reason}
    assert left_out("fast", tmp_path, 86) == left_out("right", tmp_path, 90) == []


def test_every_anchor_is_wanted() -> None:
    """All of them, each shape once, and every configuration of what is timed."""
    wanted = {kernel.name: kernel for kernel in wanted_kernels()}
    for anchor in anchors.ANCHORS:
        kernel = wanted[anchor.name.rpartition("_")[0]]
        assert (kernel.function.__name__, *kernel[2:7]) == (anchor.kernel, *anchor[2:7])
    assert len(wanted) == len(shapes()) + sum(len(timed.configurations) for timed in TIMED)


def test_machine_code_is_kept_alone(tmp_path: Path) -> None:
    """PTX is for the simulator; where there is no assembler it is all that there is."""
    found = build(tmp_path, (90,), only="^(layer_norm_fp16_0|core.add_i8)$")
    (entry,), (launch,) = found.entries, found.launches
    kept = {file.name for file in tmp_path.glob("layer_norm*")}
    assert kept == {f"{entry.name}.{'cubin' if entry.has_cubin else 'ptx'}.gz"}
    with launch.arrays(tmp_path) as arrays:
        assert ("ptx" in arrays) == (not launch.has_cubin)
    assert launch.code(tmp_path)
    assert entry.code(tmp_path)


def test_launches_for_an_older_device_stand_in(tmp_path: Path) -> None:
    """8.6 runs what is for 8.0 where there is nothing of that kind for itself, as far as its shared memory goes."""
    of = {80: ("examples", "tests", "tests"), 86: ("examples",), 90: ("tests",)}
    launches = [
        LAUNCH._replace(name=f"{kind}{number}_{capability}", kind=kind, capability=capability, shared=number << 16)
        for capability, kinds in of.items()
        for number, kind in enumerate(kinds)
    ]
    write(tmp_path, Bundle([], launches, [], ""))
    assert [launch.name for launch in contents(tmp_path, 86).launches] == ["examples0_86", "tests1_80"]
    assert [launch.name for launch in contents(tmp_path, 90).launches] == ["tests0_90"]
    assert contents(tmp_path, 100).launches == []


LAUNCH = Launch("", "", 0, "", [1], 0, 4, 1, 0, False, False, [], [], True, True, True)


def test_results_that_differ_prove_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that differ are as those of a clock; both are needed to see it."""
    same, other = np.zeros(4, np.uint8), np.array([0, 0, 1, 0], np.uint8)
    named = {"same": same, "other": other, "alone": other}
    launches = [LAUNCH._replace(name=name, kind="tests", capability=90, pieces=[["i32", 0]]) for name in named]
    launches[2] = launches[2]._replace(has_cpu=False)
    for launch, on_cpu in zip(launches, named.values(), strict=True):
        results = {"cpu": [on_cpu] if launch.has_cpu else [], "simulated": [same]}
        launch.write(tmp_path, {"ptx": b""}, before=[same], **results)
    monkeypatch.setattr("bundle.all_launches_of", lambda task: (launches, []))
    kept, (missing,) = launches_of(Task(tmp_path, 90, "tests", "a"))
    assert [launch.name for launch in kept] == ["same", "alone"]
    assert missing == ("other", "tests", 90, DIFFERS)
    assert {file.name.partition(".")[0] for file in (tmp_path / "launches").iterdir()} == {"same", "alone"}


def test_what_only_some_architectures_have() -> None:
    names = "^(vector_add|core.add_i8|seed_3|lowering_calls)$"
    kinds = {(task.kind, task.capability) for task in tasks(Path(), ARCHITECTURES, names)}
    assert {capability for kind, capability in kinds if kind == "examples"} == {*ARCHITECTURES}
    assert {capability for kind, capability in kinds if kind == "conformance"} == {80, 90, 100, 120}
    assert {capability for kind, capability in kinds if kind in ("generated", "tests")} == {80, 90}
    assert len({task.kind for task in tasks(Path(), (120,), names)}) == 4, "a bundle for one device has everything"


def test_size(bundle: Path) -> None:
    """By what these kernels take, all of them stay far within the limit."""
    largest = max(file.stat().st_size for file in bundle.iterdir())
    assert 4 * largest * len(shapes()) * len(ARCHITECTURES) < LARGEST
