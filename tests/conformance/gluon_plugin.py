"""A plugin of pytest for Triton's tests of Gluon: AMD's modules exist and refuse, and texts are compared as modules.

Tests that are for AMD's GPUs are left out. Expected texts of TTGIR are compared after both sides had their calls
inlined and their constants brought together: where constants stand, names of functions, and code behind a `return` do
not count.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import expecttest
import pytest
from missing_modules import FOR_AMD

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.transforms.functions import functions_of
from tilewright.transforms.inline import inline
from tilewright.transforms.structure_control_flow import structure_control_flow

assert tilewright.dialects.__all__


def normal(text: str) -> str:
    """A module with one function, and its constants at the beginning."""
    module = parse_module(text.replace('ttg.target = "..."', 'ttg.target = "cuda:90"'))
    structure_control_flow(module)
    inline(module, every_call=True)
    for function in functions_of(module):
        function.argument_attributes = [{} for _ in function.body.args]
        _drop(list(function.walk()))
        constants: dict[str, Op] = {}
        for op in [op for op in function.walk() if op.definition.constant]:
            key = repr(op.attributes["value"])
            if key in constants:
                op.replace(constants[key].results)
            else:
                constants[key] = op
                op.unlink()
        for key in sorted(constants):
            function.body.insert(constants[key], function.body.first)
    return print_op(module, names=False)


def _drop(ops: list[Op]) -> None:
    """Take away what computes nothing: casts to the same type, and constants that nobody uses."""
    for op in ops:
        if op.name == "arith.bitcast" and op.operands[0].type is op.results[0].type:
            op.replace([op.operands[0]])
    for op in ops:
        is_value = op.definition.constant or op.name == "ub.poison"
        if is_value and op.block is not None and not op.results[0].uses:
            op.erase()


def compared(actual: str, expected: str, *_arguments: Any, **_keywords: Any) -> None:
    found, wanted = normal(actual), normal(expected)
    if found != wanted:
        lines = difflib.unified_diff(wanted.splitlines(), found.splitlines(), "expected", "found", lineterm="", n=1)
        raise AssertionError("\n".join(lines))


expecttest.assert_expected_inline = compared


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out what is for AMD's GPUs."""
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {}).values()
        own = inspect.unwrap(item.function)
        text = f"{item.name} {inspect.getsource(getattr(own, 'fn', own))}"
        if any(getattr(value, "backend", "") == "hip" for value in values) or FOR_AMD.search(text):
            item.add_marker(pytest.mark.skip(reason="AMD"))
