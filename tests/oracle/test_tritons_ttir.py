"""Our passes on TTIR next to Triton's: on what its front end makes of the tutorials, ours of the examples.

`TRITON_PYTHON` names an interpreter with Triton 3.9, `TRITON_TREE` a checkout of Triton (or `PATH@REVISION` of a
repository) for its tutorials. Compared are the ops, by kind.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_tritons_gpu_passes import ACCELERATED, PROPAGATED, canonical, compare
from tutorial_kernels import KERNELS

import tilewright as tw
import tilewright.dialects
from tilewright.compiler.parameters import front_end_parameters
from tilewright.frontends.choice import make_ttir
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.runtime import jit
from tilewright.transforms.pipeline import device_passes

assert tilewright.dialects.__all__

TESTS = Path(__file__).parents[1]
EXAMPLES = sorted(path.stem for path in (TESTS.parent / "examples").glob("*.py") if path.stem not in ("arrays", "demo"))
CAPABILITIES = (80, 90)
OTHER_SPELLINGS = {"dropout": 1}
"""The number of ops that the front ends write in another way: -1 - x and ~x in random numbers."""


def theirs(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    script = str(TESTS / "oracle/tritons_ttir.py")
    lines = "\n".join(map(json.dumps, requests))
    command = [os.environ["TRITON_PYTHON"], script]
    done = subprocess.run(command, input=lines, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [dict(json.loads(line)) for line in done.stdout.splitlines()]


def tutorial(file: str) -> str:
    tree = os.environ["TRITON_TREE"]
    sys.path.append(str(TESTS / "conformance"))
    lit = importlib.import_module("lit")
    text = lit.tree_of(tree).text(f"python/tutorials/{file}.py")
    assert text is not None, f"there is no tutorial {file} in {tree}"
    return str(text)


def kinds(module: Op) -> Counter[str]:
    return Counter(op.name for op in module.walk())


def check(source: str, expected: str, capability: int) -> None:
    """Our passes leave as many ops as Triton's, up to two in a hundred, and at least one op in each."""
    module = parse_module(source)
    run_passes(module, device_passes(capability))
    found, wanted = kinds(module), kinds(parse_module(expected))
    assert abs(found.total() - wanted.total()) <= max(1, 0.02 * wanted.total()), {
        name: (found[name], wanted[name]) for name in found | wanted if found[name] != wanted[name]
    }


def tutorials() -> list[dict[str, Any]]:
    """The kernels of the tutorials, as requests."""
    texts = {file: tutorial(file) for file in {file for file, *_ in KERNELS}}
    return [
        {"text": texts[file], "kernel": kernel, "signature": types, "constants": constants, "capability": capability}
        for file, kernel, types, constants in KERNELS
        for capability in CAPABILITIES
    ]


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
def test_layouts_of_tutorials() -> None:
    """From Triton's own TTIR, our passes and its own give one text."""
    found = [
        (request["kernel"], (answer["ttir"], f"cuda:{request['capability']}", 4))
        for request, answer in zip(tutorials(), theirs(tutorials()), strict=True)
        if "error" not in answer
    ]
    assert len(found) == 2 * len(KERNELS) - 1
    compare([request for _, request in found], PROPAGATED)
    # Scaled products are made of other ops in another order.
    compare([request for name, request in found if name != "block_scaled_matmul_kernel"], ACCELERATED)


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
def test_tutorials() -> None:
    requests = tutorials()
    compared = 0
    for request, answer in zip(requests, theirs(requests), strict=True):
        if "error" in answer:  # fp8 needs a newer device
            assert request["kernel"] == "block_scaled_matmul_kernel", answer["error"]
            assert request["capability"] == 80, answer["error"]
            continue
        check(answer["source"], answer["ttir"], request["capability"])
        compared += 1
    assert compared == 2 * len(KERNELS) - 1


def built(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The kernels that an example builds, with what for."""
    sources: list[Any] = []
    build = jit.build

    def kept(source: Any, *rest: Any) -> Any:
        sources.append(source)
        return build(source, *rest)

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "build", kept)
    monkeypatch.syspath_prepend(str(TESTS.parent / "examples"))
    importlib.reload(importlib.import_module(example)).main()
    return sources


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Triton accepts what our front end makes of a kernel, and its passes leave what ours leave."""
    sources = built(example, monkeypatch, tmp_path)
    texts = [print_op(before_passes(source), triton="3.9") for source in sources]
    requests = [{"module": text, "capability": capability} for text in texts for capability in CAPABILITIES]
    assert requests
    for request, answer in zip(requests, theirs(requests), strict=True):
        check(request["module"], answer["ttir"], request["capability"])


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_triton_compiles_our_ttir(example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`triton.compile("kernel.ttir")` of our TTIR gives the ops and layouts that Triton gives the kernel.

    What the front ends write in another order stays so: operands, values that go round a loop.
    """
    sources = built(example, monkeypatch, tmp_path)
    text = (TESTS.parent / "examples" / f"{example}.py").read_text().replace("import tilewright", "import triton")
    requests: list[dict[str, Any]] = []
    for source in sources:
        module = before_passes(source)
        run_passes(module, device_passes(80))
        facts = [(spec.name, spec.type, spec.divisibility, spec.constant) for spec in source.specs]
        requests.append({"module": print_op(module, triton="3.9"), "capability": 80, "compile": True})
        requests.append(
            {
                "text": text,
                "kernel": source.fn.fn.__name__,
                "signature": {name: type for name, type, *_ in facts if type != "constexpr"},
                "constants": {name: written(value) for name, type, _, value in facts if type == "constexpr"},
                "aligned": [name for name, _, divisibility, _ in facts if divisibility % 16 == 0],
                "capability": 80,
                "compile": True,
            }
        )
    answers = theirs(requests)
    for ours, own in zip(answers[::2], answers[1::2], strict=True):
        assert "error" not in ours, ours["error"]
        assert "error" not in own, own["error"]
        assert "ptx" in ours["stages"]
        found, wanted = map(ops_and_types, (ours["ttgir"], own["ttgir"]))
        other = OTHER_SPELLINGS.get(example, 0)
        assert ((found - wanted).total(), (wanted - found).total()) == (other, other)


def ops_and_types(text: str) -> Counter[str]:
    """The count of each line of `canonical`, types in one order."""
    lines = (line.replace("gpu.barrier", "ttg.barrier all") for line in canonical(text))
    return Counter(" ".join(sorted(re.split(r"[\s(),]+", line))) for line in lines)


def written(value: Any) -> Any:
    """A constant as JSON has it."""
    return f"tl.{value.name}" if isinstance(value, tw.language.dtype) else value


def before_passes(source: Any) -> Op:
    """The front end's module of a kernel that is being built."""
    function = source.fn.fn
    parameters = front_end_parameters(source.specs)
    return make_ttir(function, parameters, name=function.__name__, options=EvaluateOptions(), frontend="ast")
