"""The package that people install has the package `triton` in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tilewright.tools.run_command import PACKAGE_PATH

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
"""The questions of any installer to the build system of pyproject.toml: without pip, and without the network."""


@pytest.mark.slow
def test_wheel_has_all_files_of_the_triton_package(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))

    build = [sys.executable, "-c", BUILD, str(tmp_path)]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False, timeout=200)

    files = [file for file in PACKAGE_PATH.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    wanted = {f"tilewright/compat/path/{file.relative_to(PACKAGE_PATH)}" for file in files}
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    wanted |= {"tilewright/py.typed", "tilewright/language/__init__.pyi"}
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())
