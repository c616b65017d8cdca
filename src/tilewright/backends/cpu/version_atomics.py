"""Nests with atomics that only one launch uses get a version for a thread that runs the launch alone.

    "cpu.nest"() …  tt.atomic_rmw fadd, relaxed, launch, …
        ↓
    %alone = "cpu.runs_alone"()
    scf.if %alone {
      "cpu.nest"() …  tt.atomic_rmw fadd, relaxed, cta, …       plain additions
    } else {
      "cpu.nest"() …  tt.atomic_rmw fadd, relaxed, launch, …
    }

Programs of one thread run one after the other, which is an order that atomics may have. With any other scope, others
may use the memory at the same time, so such atomics are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.version_strides import put_version
from tilewright.dialects.cpu import Nest
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Block, Op
from tilewright.ir.types import i1
from tilewright.transforms.functions import functions_of, is_public

SHARED, OWN = "launch", "cta"
"""The scope that allows a version, and that of the version."""


def version_atomics(module: Op) -> bool:
    """Version the nests of `module` (ttcir) with atomics of their launch; returns whether there are any."""
    found = False
    for function in functions_of(module):
        nests = function.ops_of(Nest) if is_public(function) else []
        for nest in nests:
            if any(_competing(nest)):
                _write_twice(LoopBuilder(Block(), entry=function.body), nest)
                found = True
    return found


def _competing(nest: Nest) -> Iterator[AtomicRmw]:
    """The atomics that only programs of the same launch compete with."""
    return (op for op in nest.body.ops_of(AtomicRmw) if op.scope == SHARED)


def _write_twice(b: LoopBuilder, nest: Nest) -> None:
    b.location = nest.location
    alone = nest.clone()
    for op in list(_competing(alone)):
        op.attributes["scope"] = Keyword(OWN)
    with b.into(Block()):
        put_version(b, nest, b.emit("cpu.runs_alone", (), i1), alone)
