"""Pipelined loops as Triton 3.9 has them: what its own passes make of a kernel is pipelined by it and by us.

The kernels are the modules of the tests and those of Triton's tutorials (`TRITON_TREE`). Ours have the same ops in the
same order, up to constants, and compute what the kernels computed before.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from test_tritons_gpu_passes import ACCELERATED, MODULES, TARGETS, canonical, theirs, without_constants
from test_tritons_ttir import theirs as front_end
from test_tritons_ttir import tutorials

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.assign_latencies import assign_latencies
from tilewright.transforms.gpu.pipelining.pipeline_loops import pipeline_loops
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops
from tilewright.transforms.pipeline import optimize_ttir

sys.path.insert(0, str(Path(__file__).parents[1] / "transforms"))
from test_truth import KERNELS

assert tilewright.dialects.__all__

BEFORE = (*ACCELERATED, "optimize_dot_operands", "optimize_descriptor_encoding", "cse", "canonicalize")
LOOPS = ("assign_latencies", "schedule_loops", "pipeline_loops", "canonicalize")
DEALLOC = re.compile(r"ttg\.local_dealloc .*\n\s*(?=ttg\.local_dealloc)")
"""Triton 3.9 gives a buffer back once for each store that shares it."""


def pipelined(text: str) -> Op:
    module = parse_module(text)
    assign_latencies(module)
    schedule_loops(module)
    pipeline_loops(module)
    canonicalize(module)
    return module


def lines(text: str) -> list[str]:
    return without_constants(canonical(DEALLOC.sub("", text)))[1]


def check(requests: list[tuple[str, str, int]]) -> int:
    """Our loops are Triton's; returns how many asynchronous copies there are in all."""
    before, after = theirs(requests, BEFORE), theirs(requests, (*BEFORE, *LOOPS))
    for text, wanted in zip(before, after, strict=True):
        assert lines(print_op(pipelined(text), triton="3.9")) == lines(wanted)
    return sum(text.count("async_copy_global_to_local") + text.count("async_tma_copy_global") for text in after)


@pytest.mark.needs_triton_python
@pytest.mark.slow
def test_modules() -> None:
    texts = [print_op(optimize_ttir(parse_module(path.read_text())), triton="3.9") for path in MODULES]
    assert check([(text, target, warps) for text in texts for target, warps in TARGETS]) > 20


@pytest.mark.needs_triton_python
@pytest.mark.needs_triton_tree
@pytest.mark.slow
def test_tutorials() -> None:
    answers = zip(tutorials(), front_end(tutorials()), strict=True)
    requests = [(answer["ttir"], f"cuda:{request['capability']}", 4) for request, answer in answers if "ttir" in answer]
    assert len(requests) > 40
    assert check(requests) > 100


@pytest.mark.needs_triton_python
@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compute_the_same(name: str) -> None:
    make_arguments, output, grid = KERNELS[name]
    (path,) = (path for path in MODULES if path.stem == name and path.parent.name == "modules")
    module = optimize_ttir(parse_module(path.read_text()))
    names = parameters(module)
    for before in theirs([(print_op(module, triton="3.9"), target, warps) for target, warps in TARGETS], BEFORE):
        outputs = []
        for changed in (parse_module(before), pipelined(before)):
            arguments = make_arguments()
            run_ir(changed, [arguments[name] for name in names], grid)
            outputs.append(arguments[output])
        np.testing.assert_array_equal(*outputs)


def parameters(module: Op) -> list[str]:
    """The names of the kernel's parameters."""
    kernel = module.regions[0].block.first
    assert kernel is not None
    return [argument.name or "" for argument in kernel.regions[0].block.args]
