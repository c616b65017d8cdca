"""The kernels of `bench/gpu_static.py` give what NumPy gives, in the simulator with all its checks, on ragged sizes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated import launch

from tilewright.backends.base import GPUTarget
from tilewright.runtime.compile import ASTSource, compile

FILE = Path(__file__).parents[2] / "bench" / "gpu_static_kernels.py"


sys.path.append(str(FILE.parent / "gpu"))


def load(file: Path) -> ModuleType:
    """The module of a benchmark; tests/gpu has it under the same name."""
    if file.stem in sys.modules:
        return sys.modules[file.stem]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


KERNELS = load(FILE)
CASES = load(FILE.parent / "gpu" / "cases.py")
BASICS = load(FILE.parent / "gpu" / "case_basics.py")
NAMES = [anchor.name for anchor in KERNELS.ANCHORS]


def check(kernel: Any, anchor: Any) -> None:
    """Run a compiled kernel, and compare."""
    case = CASES.CASES[anchor.kernel](anchor)
    results = launch(kernel, case.grid, case.arguments)
    for number, array in case.expected.items():
        np.testing.assert_allclose(results[number].astype(np.float32), array, atol=case.error, rtol=BASICS.RELATIVE)


def anchor_of(name: str) -> Any:
    return next(anchor for anchor in KERNELS.ANCHORS if anchor.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_anchor(name: str) -> None:
    anchor = anchor_of(name)
    signature = {**anchor.types, **dict.fromkeys(anchor.constants, "constexpr")}
    attributes = {(list(anchor.types).index(argument),): [["tt.divisibility", 16]] for argument in anchor.aligned}
    source = ASTSource(getattr(KERNELS, anchor.kernel), signature, anchor.constants, attributes)
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages}
    check(compile(source, target=GPUTarget("cuda", anchor.capability, 32), options=options), anchor)


@pytest.fixture(scope="module")
def triton() -> Iterator[Callable[[str], dict[str, Any]]]:
    """A function from the name of an anchor to what Triton makes of it."""
    command = [os.environ["TRITON_PYTHON"], os.fspath(FILE.with_name("gpu_static_triton.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as triton:
        assert triton.stdin
        assert triton.stdout
        asked, answers = triton.stdin, triton.stdout

        @cache
        def ask(name: str) -> dict[str, Any]:
            asked.write(json.dumps([anchor_of(name), 1]) + "\n")
            asked.flush()
            return dict(json.loads(answers.readline()))

        yield ask
        asked.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs_triton_python
def test_anchor_as_triton_lays_it_out(name: str, triton: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    """Modules of Triton's passes are lowered as well as those of ours."""
    anchor, path = anchor_of(name), tmp_path / "kernel.ttgir"
    path.write_text(triton(name)["ttgir"])
    check(compile(path, target=GPUTarget("cuda", anchor.capability, 32)), anchor)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs_triton_python
def test_tritons_own_code(name: str, triton: Callable[[str], dict[str, Any]]) -> None:
    """Code that others made, and that GPUs are known to run, gives the same: so the simulator is right about it."""
    answer = triton(name)
    facts = SimpleNamespace(shared=answer["shared"], num_ctas=1, global_scratch_size=answer["scratch"])
    check(SimpleNamespace(asm={"ptx": answer["ptx"]}, metadata=facts), anchor_of(name))
