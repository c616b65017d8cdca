"""The wheel and the archive of sources: what is in them, and that two builds are equal to the byte."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import tilewright
from tilewright.support import tested_versions
from tilewright.support.tested_versions import PYTHON, TESTED, python_problem, requirement
from tilewright.tools.run_command import PACKAGE_PATH

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = f"import sys, {PROJECT['build-system']['build-backend']} as backend; "
"""The questions of any installer to the build system of pyproject.toml: without pip, and without the network."""
FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "MANIFEST.in")


def copied(folder: Path, mode: int) -> Path:
    """A copy of the sources whose files and folders lack the bits of `mode`."""
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    for name in ("src", "packaging"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode & ~mode)
    return folder


def built(source: Path, out: Path, *kinds: str) -> list[Path]:
    """The distributions of a tree, as an installer has them built."""
    out.mkdir()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PYTHONPATH": str(source / "packaging")}
    for kind in kinds:
        build = [sys.executable, "-c", f"{BUILD}backend.build_{kind}(sys.argv[1])", str(out)]
        done = subprocess.run(build, cwd=source, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return sorted(out.iterdir())


def digests(files: list[Path]) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("distributions")
    return built(copied(folder / "source", 0), folder / "out", "wheel", "sdist")


@pytest.mark.slow
def test_two_builds_are_equal(distributions: list[Path], tmp_path: Path) -> None:
    """The second one has other times and modes of files, and its wheel comes from the archive of the first one."""
    again = built(copied(tmp_path / "source", 0o077), tmp_path / "out", "sdist")
    _, archive = distributions
    assert digests(again) == digests([archive])
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    assert digests(built(unpacked, tmp_path / "wheel", "wheel")) == digests(distributions[:1])


@pytest.mark.slow
def test_the_wheel_is_the_package_and_nothing_else(distributions: list[Path]) -> None:
    wheel = zipfile.ZipFile(distributions[0])
    assert wheel.filename is not None
    assert Path(wheel.filename).name == f"tilewright-{tilewright.__version__}-py3-none-any.whl"
    inside = {
        name for name in wheel.namelist() if not name.startswith(f"tilewright-{tilewright.__version__}.dist-info/")
    }
    package = ROOT / "src" / "tilewright"
    wanted = {f"tilewright/{path.relative_to(package)}" for path in package.rglob("*.py")}
    wanted |= {f"tilewright/compat/path/{path.relative_to(PACKAGE_PATH)}" for path in PACKAGE_PATH.rglob("METADATA")}
    wanted |= {f"tilewright/{path.relative_to(package)}" for path in package.rglob("options_*.txt")}
    assert inside == wanted | {"tilewright/py.typed", "tilewright/language/__init__.pyi"}


@pytest.mark.slow
def test_the_wheel_says_what_it_needs(distributions: list[Path]) -> None:
    wheel = zipfile.ZipFile(distributions[0])
    metadata = Parser().parsestr(wheel.read(f"tilewright-{tilewright.__version__}.dist-info/METADATA").decode())
    assert metadata["Requires-Python"] == PROJECT["project"]["requires-python"]
    needed = {value for value in metadata.get_all("Requires-Dist", []) if "extra ==" not in value}
    assert needed == {*map(requirement, TESTED)}


def test_versions_are_the_same_everywhere() -> None:
    project = PROJECT["project"]
    assert project["version"] == tilewright.__version__
    assert project["requires-python"] == ">=" + ".".join(map(str, PYTHON.oldest))
    assert {*project["dependencies"]} == {*map(requirement, TESTED)}
    supported = [f"3.{minor}" for minor in range(PYTHON.oldest[1], PYTHON.newest[1] + 1)]
    listed = [each.removeprefix("Programming Language :: Python :: ") for each in project["classifiers"]]
    assert [each for each in listed if each.startswith("3.")] == supported
    assert f"## {tilewright.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("version", [(2, 7), (3, 10)])
def test_older_versions_of_python_are_refused(version: tuple[int, int]) -> None:
    program = f"import sys; sys.version_info = {(*version, 0)}; import tilewright"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    said = f"ImportError: Tilewright works with Python 3.11 to 3.14, and this is {version[0]}.{version[1]}"
    assert ran.stderr.splitlines()[-1] == said


def test_what_is_said_of_other_versions() -> None:
    assert [python_problem((3, minor)) for minor in (11, 12, 13, 14)] == [""] * 4
    assert python_problem((3, 15)) == "Tilewright was tested with Python 3.11 to 3.14, and this is 3.15"


def test_a_version_of_python_that_was_not_tested_gets_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tested_versions, "python_problem", lambda: "an unknown Python")
    with pytest.warns(RuntimeWarning, match="an unknown Python"):
        tested_versions.warn_of_python()
