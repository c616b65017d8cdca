"""TTGIR of Gluon's kernels is Triton's, but for attributes of arguments and the order of constants."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import tilewright.dialects
from tilewright.backends.base import GPUTarget
from tilewright.compat.filecheck import run_parser
from tilewright.ir.core import Block, Op
from tilewright.ir.declare import Effect
from tilewright.ir.effects import effect_of
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.gluon_pipeline import GLUON_PASSES

sys.path.insert(0, str(Path(__file__).parents[1] / "gluon"))
import gluon_programs as programs
from gluon_arguments import arguments_of

assert tilewright.dialects.__all__


@cache
def theirs() -> dict[str, str]:
    command = [os.environ["TRITON_PYTHON"], str(Path(__file__).parent / "tritons_gluon.py")]
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, str] = json.loads(done.stdout)
    return found


def ours(name: str) -> str:
    target = GPUTarget("cuda", programs.CASES[name][0], 32)
    module = run_parser(getattr(programs, name), kwargs=arguments_of(name), target=target)
    run_passes(module.op, GLUON_PASSES)
    return print_op(module.op)


def normal(text: str) -> str:
    """A module without attributes of arguments and names of values, its constants in one order, and so its ops."""
    module = parse_module(text)
    for function in functions_of(module):
        entry = function.body
        function.argument_attributes = [{} for _ in entry.args]
        for op in list(function.walk()):
            for region in op.regions:
                for block in region.blocks:
                    _order(block)
        constants = [op for op in entry if op.definition.constant]
        for op in sorted(constants, key=_constant, reverse=True):
            op.unlink()
            entry.insert(op, entry.first)
    return print_op(module, names=False)


def _order(block: Block) -> None:
    """Put every op without effects in front of the first one that uses it: Triton evaluates keywords first."""
    ops = list(block)
    placed: dict[Op, None] = {}

    def place(op: Op) -> None:
        if op not in placed:
            inner = [value for nested in op.walk() for value in nested.operands]
            for value in inner:
                if value.op is not None and value.op.block is block and value.op is not op:
                    place(value.op)
            placed[op] = None

    for op in ops:
        if op.definition.terminator or op.regions or effect_of(op) is not Effect.NONE:
            place(op)
    for op in ops:
        op.unlink()
    for op in placed:
        block.append(op)


def _constant(op: Op) -> str:
    return repr(op.attributes["value"])


@pytest.mark.needs_triton_python
@pytest.mark.parametrize("name", programs.CASES)
def test_ttgir_is_tritons(name: str) -> None:
    found, expected = normal(ours(name)), normal(theirs()[name])
    assert found == expected, "\n".join(difflib.unified_diff(expected.splitlines(), found.splitlines(), lineterm=""))


