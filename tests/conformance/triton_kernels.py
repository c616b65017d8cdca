"""Tests of Triton's library of mixed products, python/triton_kernels, on the CPU and on simulated GPUs.

    python tests/conformance/triton_kernels.py ~/triton.git                       # all machines
    python tests/conformance/triton_kernels.py ~/triton.git cpu cuda:100          # some

The first argument is a repository of Triton, of whose HEAD the library is; nothing of it is in this one. It needs torch
and pytest. The tests run by `tilewright run` on tensors of the CPU: those of products in a sample (`EACH`), and on
simulated GPUs of the smallest shapes only. Two things in the library's files are changed: its device `cuda`, and the
choice of its options for NVIDIA's GPUs, which is the one for the CPU, too.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
EACH = {"cpu": 14, "cuda:90": 31, "cuda:100": 31}
"""One test of products in so many runs."""
SMALLEST = ("64-128-96", "16-256-256", "128-256-256", "5-7-0", "0-5-7")
"""Shapes of products that a simulated GPU has time for."""
OTHERS = ("test_compaction", "test_mxfp", "test_swiglu", "test_tensor", "test_topk")
"""Files of the library's tests besides that of products."""
PLUGIN = """
import os, pytest, tilewright, torch
machine, each, names = os.environ["MACHINE"], int(os.environ["EACH"]), os.environ["NAMES"].split(",")
if machine != "cpu":
    opened = tilewright.simulate(machine, bounds="storage")  # what it pads is a part of the same allocation
    opened.__enter__()
torch.cuda.current_device = lambda: 0
torch.cuda.empty_cache = lambda: None
of_floats = torch.histc
torch.histc = lambda x, **options: of_floats(x.float(), **options).to(x.dtype)  # torch's CPU has none of integers

def is_supported(case):
    return not (case["do_gamma"] and case["swiglu_opts"])  # which the tests leave out on NVIDIA's GPUs

def pytest_collection_modifyitems(items):
    products = [item for item in items if "test_matmul.py" in item.nodeid]
    supported = [item for item in products if "do_gamma" not in item.fixturenames or is_supported(item.callspec.params)]
    chosen = [item for item in supported if any(name in item.name for name in names)][::each]
    items[:] = [item for item in items if item not in set(products)] + chosen
"""


def unpack(repository: Path, folder: Path) -> None:
    """Put the library and its tests into a folder, for tensors of the CPU."""
    command = ["git", f"--git-dir={repository}", "archive", "HEAD:python/triton_kernels", "triton_kernels", "tests"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive, check=True)
    for file in folder.rglob("*.py"):
        text = file.read_text().replace('device = "cuda"', 'device = "cpu"').replace('device="cuda"', 'device="cpu"')
        text = text.replace('default="cuda"', 'default="cpu"')
        file.write_text(text.replace('if backend == "cuda":', 'if backend in ("cuda", "cpu"):'))
    (folder / "on_machine.py").write_text(PLUGIN)


def run(folder: Path, machine: str) -> str:
    """The last line of pytest, and the tests that failed."""
    names = ("",) if machine == "cpu" else SMALLEST
    path = os.pathsep.join([str(SOURCE), str(folder), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "MACHINE": machine, "EACH": str(EACH[machine]), "NAMES": ",".join(names)}
    files = [f"tests/{name}.py" for name in ("test_matmul", *(OTHERS if machine == "cpu" else ()))]
    command = [sys.executable, "-m", "tilewright", "run", "-m", "pytest", "-q", "-p", "on_machine", *files]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    failed = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.MULTILINE)
    return "\n".join([*failed, (done.stdout.strip().splitlines() or [done.stderr])[-1]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("machines", nargs="*", help=", ".join(EACH))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        unpack(arguments.repository, Path(name))
        for machine in arguments.machines or EACH:
            sys.stdout.write(f"{machine}: {run(Path(name), machine)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
