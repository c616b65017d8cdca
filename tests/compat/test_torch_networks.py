"""Networks with random weights, compiled with `backend="tilewright"`, agree with eager; a process for each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_torch

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs" / "networks.py"
NETWORKS = [
    *(pytest.param(name, marks=pytest.mark.needs_transformers) for name in ("gpt2", "llama", "bert", "t5", "mixtral")),
    *("resnet18", "vit", "unet", "lstm"),
]


Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path, installed: Path) -> Run:
    """Runs the program with empty caches and no Triton; one process compiles, since other tests run beside it."""

    def run(*arguments: str) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "bench"), str(installed)]),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TILEWRIGHT_VERIFY_PASSES": "0",
        }
        command = [sys.executable, "-S", str(PROGRAM), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
        if done.stderr.startswith("torch itself: could not create a primitive"):
            pytest.skip("oneDNN has nothing in bf16 for this network and this processor")
        assert done.returncode == 0, done.stderr[-4000:]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_training_with_other_batches_and_lengths(run: Run, name: str) -> None:
    run("trained", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_autocast(run: Run, name: str) -> None:
    run("autocast", name)


@pytest.mark.slow
@pytest.mark.needs_transformers
def test_prefill_and_decode_with_a_cache(run: Run) -> None:
    run("cached")
