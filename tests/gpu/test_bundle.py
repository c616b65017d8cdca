"""The bundle, in an environment that has Python and NumPy and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bundle import ARCHITECTURES, LARGEST, RUNNER, shapes
from entries import read
from fake_driver import ATTRIBUTES, FakeDriver, place


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
"""What every process of the environment begins with: one fake GPU, where a variable names its library."""


def run(python: Path, bundle: Path, part: str, folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run a part in the environment, with the driver of a folder."""
    environment = {"TRITON_LIBCUDA_PATH": str(folder), "PATH": os.environ["PATH"]}
    command = [str(bundle / "parts.py"), part, "--out", str(out), "--only", "1024|512"]
    library = folder / "libcuda.so.1"
    environment |= {"FAKE_GPU": str(library)} if library.exists() else {}
    return subprocess.run([python, *command], check=False, capture_output=True, text=True, env=environment, cwd="/")


def test_the_environment_has_nothing_else(python: Path) -> None:
    for name in ("tilewright", "llvmlite", "torch", "triton", "ml_dtypes"):
        assert subprocess.run([python, "-c", f"import {name}"], check=False, capture_output=True).returncode == 1
    subprocess.run([python, "-c", "import numpy"], check=True)


@pytest.mark.parametrize("part", ["right", "agrees"])
def test_a_part_alone(python: Path, bundle: Path, part: str, fake: FakeDriver, tmp_path: Path) -> None:
    """The fake GPU computes nothing, and that is seen."""
    done = run(python, bundle, part, fake.folder, tmp_path / "out.json")
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{part}: 0 of 4 good\n", "")
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["part"], found["capability"], len(found["rows"])) == (part, 90, 4)
    assert found["commit"] == read(bundle).commit


def test_no_gpu(python: Path, bundle: Path, tmp_path: Path) -> None:
    done = run(python, bundle, "right", tmp_path, tmp_path / "out.json")
    assert done.returncode == 2
    assert done.stderr.startswith("no GPU: there is no driver")


def test_what_is_in_it(bundle: Path) -> None:
    names = {file.name for file in bundle.iterdir()}
    assert {*RUNNER, "kernels.json", "simulated.npz", "add1024_w4_80.ptx", "add1024_w4_90.ptx"} <= names
    assert len(read(bundle).entries) == 8


def test_size(bundle: Path) -> None:
    """By what these kernels take, all of them stay far within the limit."""
    largest = max(file.stat().st_size for file in bundle.iterdir())
    assert 4 * largest * len(shapes()) * len(ARCHITECTURES) < LARGEST
