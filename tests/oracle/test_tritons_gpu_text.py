"""TTGIR of Triton's tutorials and of our modules: read, verified, printed as it was, and read by Triton again.

`TRITON_PYTHON` names an interpreter with Triton 3.5.1 or 3.9, `TRITON_TREE` a checkout of Triton for its tutorials.
"""

from __future__ import annotations

import os
import subprocess
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from test_tritons_ttir import theirs, tutorial
from tutorial_kernels import KERNELS

import tilewright.dialects
from tilewright.ir.errors import ParseError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

assert tilewright.dialects.__all__

MODULES = sorted(Path(__file__).parents[1].glob("goldens/**/*.ttir"))


def version() -> str:
    """The version of the installed Triton, as `print_op` knows it."""
    command = [os.environ["TRITON_PYTHON"], "-c", "import triton; print(triton.__version__)"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split(".")
    return ".".join(found[:2])


def capabilities() -> tuple[int, ...]:
    return (80, 90, 100) if version() == "3.9" else (80, 90)


def check(answers: list[dict[str, Any]]) -> int:
    """Every TTGIR of `answers` is printed as it was, and Triton reads what we print; how many there were."""
    texts = [answer["ttgir"] for answer in answers if "error" not in answer]
    ours = []
    for text in texts:
        module = parse_module(text)
        verify(module)
        ours.append(print_op(module, locations=True, triton=version()))
        assert ours[-1].split() == text.split()
        short = print_op(module)
        assert print_op(parse_module(short)) == short
    read = theirs([{"module": text} for text in ours])
    assert [answer.get("error") for answer in read if "error" in answer] == []
    for text, answer in zip(texts, read, strict=True):
        assert kinds(answer["printed"]) == kinds(text)
    return len(texts)


def kinds(text: str) -> list[str]:
    """The kinds of ops, in order."""
    return [op.name for op in parse_module(text).walk()]


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
def test_tutorials() -> None:
    texts = {file: tutorial(file) for file in {file for file, *_ in KERNELS}}
    requests = [
        {"text": texts[file], "kernel": name, "signature": types, "constants": constants}
        | {"capability": number, "gpu": 1}
        for file, name, types, constants in KERNELS
        for number in capabilities()
    ]
    answers = theirs(requests)
    assert check(answers) >= 0.8 * len(answers), [answer["error"][:200] for answer in answers if "error" in answer]


def is_for_gpus(text: str) -> bool:
    """Whether Triton has all its ops and types."""
    return not any(word in text for word in ("cpu.", "tt.make_tensor_ptr", "tt.advance", "!tt.ptr<tensor"))


@pytest.mark.needs_triton_python
@pytest.mark.slow
def test_our_modules() -> None:
    """Each module for one GPU, in turns."""
    requests, numbers = [], cycle(capabilities())
    for path in MODULES:
        try:
            module = parse_module(path.read_text())
        except ParseError:
            continue
        text = print_op(module, triton=version())
        if is_for_gpus(text):
            requests.append({"module": text, "capability": next(numbers), "gpu": 1})
    answers = theirs(requests)
    assert check(answers) >= 0.8 * len(answers), [answer["error"][:200] for answer in answers if "error" in answer]
