"""Run a Python function on arguments of given types and look at the ops it emits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tilewright.dialects  # noqa: F401 - declares the ops
import tilewright.language as tl
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region
from tilewright.ir.printer import print_op
from tilewright.ir.types import FunctionType
from tilewright.ir.verifier import verify
from tilewright.semantics.active import emitting_into


def trace(function: Callable[..., Any], types: Sequence[Any], **options: Any) -> Op:
    """A verified module whose only function does what `function` does on arguments of `types`."""
    block = Block([kind.ir for kind in types])
    builder = Builder(block)
    with emitting_into(builder, **options):
        function(*(tl.tensor(arg, kind) for arg, kind in zip(block.args, types, strict=True)))
    builder.emit("tt.return")
    attributes = {
        "sym_name": "k",
        "function_type": FunctionType(tuple(kind.ir for kind in types), ()),
        "sym_visibility": "public",
        "noinline": False,
    }
    body = Block()
    body.append(Op.create("tt.func", (), (), attributes, [Region([block])]))
    module = Op.create("builtin.module", (), (), {}, [Region([body])])
    verify(module)
    return module


def body_text(function: Callable[..., Any], types: Sequence[Any], **options: Any) -> str:
    """The ops of `trace`, one per line, without the function around them."""
    lines = print_op(trace(function, types, **options)).splitlines()
    return "\n".join(line[4:] for line in lines[2 : lines.index("    tt.return")]) + "\n"
