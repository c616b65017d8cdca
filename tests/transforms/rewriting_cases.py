"""A pass's input and output as text of a function body; names of values and of the function do not matter.

check(canonicalize, "%x: i32", "%r = arith.andi %x, %x : i32", "tt.return %x : i32")
"""

from __future__ import annotations

import re
from collections.abc import Callable

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

assert tilewright.dialects.__all__, "the parser needs declared ops"


def function(signature: str, body: str) -> Op:
    """A module with one public function; its result types are those of its `tt.return`."""
    found = re.search(r"tt\.return .*: (.*)", body)
    results = f" -> ({found[1]})" if found else ""
    module = parse_module(f"module {{\n tt.func public @f({signature}){results} {{\n{body}\n}}\n}}")
    verify(module)
    return module


def nameless(module: Op) -> str:
    """The text of `module` with numbers for names."""
    for op in module.walk():
        for value in op.results:
            value.name = None
        for region in op.regions:
            for block in region.blocks:
                for value in block.args:
                    value.name = None
    return print_op(module)


def check(run: Callable[[Op], object], signature: str, before: str, after: str | None) -> None:
    """Run the pass on `before` and compare with `after`; None: nothing changes, and the pass says so."""
    module = function(signature, before)
    changed = run(module)
    verify(module)
    assert changed in (None, after is not None)
    assert nameless(module) == nameless(function(signature, before if after is None else after))
