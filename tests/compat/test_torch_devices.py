"""The answers of `torch.cuda` under `tilewright run` where there is no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import optional_peers

pytestmark = pytest.mark.needs_torch
torch = optional_peers.module("torch")

PROGRAM = """
{imports}
@triton.constexpr_function
def capability():
    return torch.cuda.get_device_capability()
try:
    capability.cache_key
except RuntimeError as error:
    print("function of another package" in str(error))
print(torch.cuda.get_device_capability(), torch.cuda.synchronize(), torch.cuda.is_available(), torch.__spec__.name)
print(torch.cuda.get_device_properties("cuda").multi_processor_count
      == triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"])
with torch.cuda.device(torch.empty(1).device.index):
    print("inside")
print(isinstance(3, torch.cuda.device), isinstance(torch.cuda.device_of(torch.empty(1)), torch.cuda.device))
try:
    with torch.cuda.device(0):
        torch.empty(1)
except (AssertionError, RuntimeError):
    print("no such GPU")
try:
    torch.empty(1, device="cuda")
except (AssertionError, RuntimeError):
    print("no GPU")
"""

IMPORTS = (
    "import torch, triton",
    "import triton, torch",
    "import triton; from importlib.util import find_spec; assert find_spec('torch'); import torch",
)


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="torch answers for the GPU of this machine")
@pytest.mark.parametrize("imports", IMPORTS)
def test_questions_for_a_gpu_have_answers(tmp_path: Path, imports: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(imports=imports))
    command = [sys.executable, "-m", "tilewright", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    answers = ["True", "(0, 0) None False torch", "True", "inside", "False True", "no such GPU", "no GPU", ""]
    assert done.stdout.split("\n") == answers


CLAIM = """
import torch
torch.cuda.is_available = lambda: True
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def kernel(n, BLOCK: tl.constexpr):
    tl.device_assert(tl.arange(0, BLOCK) < n)

kernel[(1,)](1000)
print(triton.runtime.driver.active.get_current_target().backend)
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="the claim is true")
def test_torch_may_be_made_to_claim_a_gpu(tmp_path: Path) -> None:
    """Programs do so where a library insists on one; without a driver there is none."""
    script = tmp_path / "program.py"
    script.write_text(CLAIM)
    command = [sys.executable, "-m", "tilewright", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("cpu\n", "")
