"""TTIR → TTGIR as Triton 3.9 does it: our passes and its own give one text, up to the names of values.

The modules are the kernels of the examples and those that the front end's tests have, after our passes on TTIR.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.runtime import jit
from tilewright.transforms.cse import cse
from tilewright.transforms.gpu.accelerate_matmul import accelerate_matmul
from tilewright.transforms.gpu.coalesce import coalesce
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.f32_dot_tc import F32DotOptions, f32_dot_tc
from tilewright.transforms.gpu.optimize_thread_locality import optimize_thread_locality
from tilewright.transforms.gpu.remove_layout_conversions import remove_layout_conversions
from tilewright.transforms.pipeline import optimize_ttir

assert tilewright.dialects.__all__

TESTS = Path(__file__).parents[1]
EXAMPLES = sorted(path.stem for path in (TESTS.parent / "examples").glob("*.py") if path.stem not in ("arrays", "demo"))
MODULES = sorted([*(TESTS / "transforms/modules").glob("*.ttir"), *(TESTS / "goldens/frontends").glob("**/*.ttir")])
TARGETS = (("cuda:80", 4), ("cuda:90", 8))
PASSES: dict[str, Callable[[Op], object]] = {
    "cse": cse,
    "coalesce": coalesce,
    "f32_dot_tc": lambda module: f32_dot_tc(module, F32DotOptions()),
    "remove_layout_conversions": remove_layout_conversions,
    "optimize_thread_locality": optimize_thread_locality,
    "accelerate_matmul": accelerate_matmul,
}
COALESCED = ("convert_to_ttgir", "cse", "coalesce")
"""Triton 3.9 converts a value anew for each of its users, so equal conversions are merged."""
PROPAGATED = (*COALESCED, "f32_dot_tc", "remove_layout_conversions")
ACCELERATED = (*PROPAGATED, "optimize_thread_locality", "accelerate_matmul", "remove_layout_conversions")
DIFFERENT = {
    "perhaps_returned": "Triton 3.9 computes the only arm of a branch that gives something; the other gives poison",
    "batched_gemm": "two ranges change places",
    "flash_attention": "a broadcast in Triton 3.9 has operand and result in two layouts that are one for this shape",
}
"""Modules and examples whose text differs once layouts were propagated, and how; accesses and products are alike."""
DECIDED = re.compile(r"(?:tt|ttg|ttng)\.(?:load|store|dot|atomic_\w+|warp_group_dot|local_alloc)\b")
"""Ops whose layouts cost most."""
ALIAS = re.compile(r"^(#\w+) = (.*)\n", re.MULTILINE)
USE = re.compile(r"#(?!ttg\.|tt\.)\w+")
FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")
VALUE = re.compile(r"%[\w.$-]+(?:[#:]\d+)?")
HINT = re.compile(r" \{tt\.constancy = 1 : i64, tt\.contiguity = 1 : i64, tt\.divisibility = 1 : i64\}")
"""The attributes that Triton's axis info notes on an argument of which it knows nothing."""


def canonical(text: str) -> list[str]:
    """The lines of `text` with layouts in full, nameless values, and floats to six digits."""
    aliases = {name: ALIAS.sub("", meaning) for name, meaning in ALIAS.findall(text)}
    text = HINT.sub("", ALIAS.sub("", text))
    for _ in range(3):  # layouts in layouts
        text = USE.sub(lambda match: aliases.get(match[0], match[0]), text)
    text = FLOAT.sub(lambda match: f"{float(match[0]):.5e}", text)
    lines = (re.sub(r" +", " ", VALUE.sub("%", line.partition("//")[0])).strip() for line in text.splitlines())
    return [line for line in lines if line]


def ours(text: str, target: str, warps: int, steps: Sequence[str]) -> str:
    module = parse_module(text)
    convert_to_ttgir(module, ConvertOptions(target, warps))
    for step in steps[1:]:
        PASSES[step](module)
    return print_op(module, triton="3.9")


def theirs(requests: list[tuple[str, str, int]], steps: Sequence[str]) -> list[str]:
    lines = "\n".join(json.dumps([*request, steps]) for request in requests)
    script = str(TESTS / "oracle/tritons_gpu_passes.py")
    command = [os.environ["TRITON_PYTHON"], script]
    done = subprocess.run(command, input=lines, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_constants(lines: list[str]) -> tuple[list[str], list[str]]:
    """The constants in some order, as rewriting in another order finds them in another order; and the other lines."""
    constants = sorted(line for line in lines if line.startswith("% = arith.constant"))
    return constants, [line for line in lines if not line.startswith("% = arith.constant")]


def check(modules: list[Op], steps: Sequence[str] = COALESCED, *, alike: bool = True) -> None:
    texts = [print_op(optimize_ttir(module), triton="3.9") for module in modules]
    compare([(text, target, warps) for text in texts for target, warps in TARGETS], steps, alike=alike)


def compare(requests: list[tuple[str, str, int]], steps: Sequence[str], *, alike: bool = True) -> None:
    """Our passes give what Triton's give; if not `alike`, at least where accesses and products are."""
    for request, expected in zip(requests, theirs(requests, steps), strict=True):
        found, wanted = canonical(ours(*request, steps)), canonical(expected)
        if steps is COALESCED:
            assert found == wanted
        elif alike:
            assert without_constants(found) == without_constants(wanted)
        else:
            assert list(filter(DECIDED.search, found)) == list(filter(DECIDED.search, wanted))


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("steps", [COALESCED, PROPAGATED, ACCELERATED], ids=["coalesced", "propagated", "accelerated"])
def test_modules(steps: Sequence[str]) -> None:
    for different in (False, True):
        paths = [path for path in MODULES if (path.stem in DIFFERENT) is different]
        check([parse_module(path.read_text(), str(path)) for path in paths], steps, alike=not different)


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts: list[str] = []
    build: Callable[..., Any] = jit.build

    def kept(*args: Any) -> Any:
        kernel = build(*args)
        texts.append(kernel.asm["ttir"])
        return kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "build", kept)
    monkeypatch.syspath_prepend(str(TESTS.parent / "examples"))
    importlib.reload(importlib.import_module(example)).main()
    assert texts
    for steps in (COALESCED, PROPAGATED, ACCELERATED):
        check(list(map(parse_module, texts)), steps, alike=example not in DIFFERENT)
