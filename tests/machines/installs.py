"""Installs the wheel into fresh environments and asks there whether it works: prints a table.

    python tests/machines/installs.py                 3.11 to 3.14, as far as interpreters are installed or can be had
    python tests/machines/installs.py 3.14 3.14t      these

Each version of Python gets two environments in build/machines: with the oldest llvmlite, NumPy and ml_dtypes that
Tilewright works with and that have wheels for it, and with the newest. In each a program has to run, and first_use.py
to find nothing wrong. The exit status is 1 if something fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tilewright.support.tested_versions import TESTED

ROOT = Path(__file__).parents[2]
MACHINES = ROOT / "build" / "machines"
PIP = MACHINES / "tools" / "bin" / "pip"
PROGRAM = ROOT / "tests" / "packaging" / "user_program.py"
FIRST_USE = Path(__file__).with_name("first_use.py")
HEAD = "| Python | llvmlite, NumPy, ml_dtypes | program | doctor | demo | launch |\n|---|---|---|---|---|---|"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SHOW = "import importlib.metadata as m; print(*(m.version(n) for n in ('llvmlite', 'numpy', 'ml_dtypes')))"


def run(*call: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, call)), capture_output=True, text=True, check=False, **options)


def interpreter(version: str) -> Path | None:
    """The Python of that version, or None where it cannot be had."""
    found = run(ROOT / "tests" / "machines" / "interpreter.sh", version)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def last_line(failed: subprocess.CompletedProcess[str]) -> str:
    """The last line that a program printed about its failure."""
    return (failed.stderr.strip().splitlines() or ["nothing"])[-1]


def wheel() -> Path:
    """The wheel of this tree."""
    out = MACHINES / "wheel"
    shutil.rmtree(out, ignore_errors=True)
    built = run(PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", out, ROOT)
    assert built.returncode == 0, built.stderr
    [made] = out.iterdir()
    return made


def oldest(python: Path, library: str) -> str:
    """The oldest release that Tilewright works with and that has a wheel for this Python."""
    listed = run(PIP, "--python", python, "index", "versions", "--only-binary=:all:", library).stdout
    found = re.search(r"Available versions: (.*)", listed)
    assert found is not None, f"the index knows no {library} for {python}"
    versions = [tuple(map(int, each.split("."))) for each in found[1].split(", ") if re.fullmatch(r"[\d.]+", each)]
    return ".".join(map(str, min(each for each in versions if each[:2] >= TESTED[library].oldest)))


def check(version: str, python: Path, package: Path, *, with_oldest: bool) -> bool:
    """Install into a new environment and ask there; prints a row of the table."""
    folder = MACHINES / f"install-{version}"
    made = run(python, "-m", "venv", "--without-pip", "--clear", folder)
    assert made.returncode == 0, made.stderr
    inside = folder / "bin" / "python"
    wanted = [f"{library}=={oldest(inside, library)}" for library in TESTED] if with_oldest else [*TESTED]
    installed = run(PIP, "--python", inside, "install", "--quiet", "--only-binary=:all:", package, *wanted)
    if installed.returncode:
        print(f"| {version} | {' '.join(wanted)} | not installed: {last_line(installed)} | | | |")
        return False
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache")}
    environment.pop("PYTHONPATH", None)
    program, used = (run(inside, file, cwd=folder, env=environment) for file in (PROGRAM, FIRST_USE))
    result = "runs" if program.returncode == 0 else last_line(program)
    steps = dict(re.findall("^(doctor|demo|launch): (.*)", used.stdout, re.MULTILINE))
    said = [steps.get(step, last_line(used)) for step in ("doctor", "demo", "launch")]
    print(f"| {version} | {run(inside, '-c', SHOW).stdout.strip()} | {result} | {' | '.join(said)} |", flush=True)
    return program.returncode == used.returncode == 0


def main(versions: list[str]) -> int:
    pythons = {version: interpreter(version) for version in versions}
    package = wheel()
    print(HEAD)
    works = True
    for version, python in pythons.items():
        if python is None:
            print(f"| {version} | | cannot be had here | | | |")
            continue
        for with_oldest in (True, False):
            works &= check(version, python, package, with_oldest=with_oldest)
    return 0 if works else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*VERSIONS]))
