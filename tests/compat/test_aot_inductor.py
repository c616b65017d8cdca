"""AOTInductor packages models whose kernels Tilewright compiles; they run from Python, and without it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

import optional_peers
import tilewright

pytestmark = [pytest.mark.needs_torch, pytest.mark.needs_gxx]
torch = optional_peers.module("torch")

PROGRAMS = Path(__file__).parent / "programs"
NAMES = ["perceptron", "block", "table", "convolution"]


def package(
    folder: Path, *names: str, installed: Path | None = None, before: str = "", options: Sequence[str] = ()
) -> tuple[list[str], str]:
    """Package the models in a process of its own, after `before`; with `installed`, there is no Triton.

    Returns the lines that it prints, and its errors.
    """
    source = str(Path(tilewright.__file__).parents[1])
    paths = [source] if installed is None else [source, str(installed)]
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    program = folder / "packaged.py"
    first = "from __future__ import annotations\n"
    program.write_text((PROGRAMS / "packaged.py").read_text().replace(first, first + before))
    without_sites = [] if installed is None else ["-S"]
    command = [sys.executable, *without_sites, *options, str(program), str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment, check=False)
    return done.stdout.splitlines(), done.stderr[-4000:]


def compiled_program(folder: Path) -> list[str]:
    """The command that runs `packaged.cpp`."""
    home, program = Path(torch.__file__).parent, folder / "packaged"
    libraries = home / "lib"
    subprocess.run(
        ["g++", "-std=c++20", "-O0", str(PROGRAMS / "packaged.cpp"), "-o", str(program), f"-I{home / 'include'}",
         f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-L{libraries}",
         f"-Wl,--no-as-needed,-rpath,{libraries}", "-ltorch", "-ltorch_cpu", "-lc10", "-pthread"],
        check=True,
    )  # fmt: skip
    return [str(program)]


@pytest.mark.slow
def test_models_run_from_python_and_from_a_program_in_c_plus_plus(tmp_path: Path, installed: Path) -> None:
    """For any number of rows, on several threads, and where the folders that they were made in are gone."""
    printed, errors = package(tmp_path, installed=installed)
    assert printed == NAMES, errors
    (tmp_path / "inductor").rename(tmp_path / "gone")
    command = [*compiled_program(tmp_path), str(tmp_path), *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    right = ["perceptron", "0", "block", "0", "table", "0", "convolution", "0"]
    assert done.stdout.split() == [*right, "1"], done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.needs_triton
def test_a_model_where_the_real_triton_is_installed(tmp_path: Path) -> None:
    """torch looks for kernels of the Triton that is imported."""
    printed, errors = package(tmp_path, "convolution")
    assert not printed
    assert "PackagingError: torch has not saved triton_" in errors
    printed, errors = package(tmp_path, "convolution", options=["-m", "tilewright", "run"])
    assert printed == ["convolution"], errors


@pytest.mark.slow
def test_a_model_after_another_back_end_whose_products_are_kernels(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_TORCH_PRODUCTS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # small products make no work for many
    before = "import torch\ntorch.compile(lambda x: x.relu() + 1)(torch.ones(4))\n"
    printed, errors = package(tmp_path, "block", installed=installed, before=before)
    assert printed == ["block"], errors
    with ZipFile(tmp_path / "block.pt2") as packaged:
        calls = [packaged.read(name) for name in packaged.namelist() if name.endswith(".cpp")]
    assert any(b"triton_tem_" in text for text in calls)
