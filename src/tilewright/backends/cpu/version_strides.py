"""Nests whose elements have a run-time stride are compiled for the stride 1, and for any.

    "cpu.nest"() …  tt.splat %stride …       →      %dense = arith.cmpi eq, %stride, %c1
                                                    scf.if %dense {
                                                      "cpu.nest"() …  tt.splat %c1 …
                                                    } else {
                                                      "cpu.nest"() …  tt.splat %stride …
                                                    }

A nest that stores what it computes from two loads has a third version, in which the second one repeats an element: its
stride is 0 where arrays are broadcast. Where there are many nests in one place, each has one version, to save code. The
loops in which a nest runs followed from its position; from now on nests state them in all versions.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce

from tilewright.analysis.value_flow import backward_slice
from tilewright.backends.cpu.costs import SINKS, STORES
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.loop_facts import PROGRAMS
from tilewright.backends.cpu.strides import run_time_strides, run_time_strides_of
from tilewright.dialects.cpu import Nest, Write
from tilewright.dialects.scf import For
from tilewright.dialects.traits import Loop
from tilewright.dialects.tt_function import Func
from tilewright.ir.core import Block, Op, Value
from tilewright.transforms.functions import functions_of, is_public

CODE_SIZE_BUDGET = 40
"""Max number of reductions, stores and the like in one place; beyond it, each is written as short as possible."""


def version_strides(module: Op) -> bool:
    """Version the nests of `module` (ttcir) for strides of 1 and 0; returns whether there were any nests."""
    found = False
    for function in functions_of(module):
        nests = [op for op in function.ops_of(Nest) if op.copy is None]
        builder = LoopBuilder(Block(), entry=function.body)
        sinks = Counter(map(_loop_around, function.ops_of(SINKS))) if nests else {}
        for nest in nests:
            is_crowded = sinks[_loop_around(nest)] > CODE_SIZE_BUDGET
            nest.mark(runs=_runs_of(nest, function), optimize_size=is_crowded)
            if not is_crowded and (strides := run_time_strides(nest)):
                _write_versions(builder, nest, strides)
        found |= bool(nests)
    return found


def _write_versions(b: LoopBuilder, nest: Nest, strides: list[Value]) -> None:
    """Let copies of `nest` run where all `strides` are 1, and where the last one is 0 because a tile is repeated."""
    b.location = nest.location
    _put_strides(b, nest, dict.fromkeys(strides, 1))
    if (repeated := _may_be_repeated(nest, strides)) is not None:
        _put_strides(b, nest, dict.fromkeys(strides, 1) | {repeated: 0})


def _put_strides(b: LoopBuilder, nest: Nest, numbers: dict[Value, int]) -> None:
    """Let a copy of `nest` run in its place where strides are these numbers."""
    version = nest.clone({stride: b.constant(number, stride.type) for stride, number in numbers.items()})
    with b.into(Block()):
        conditions = [b.compare("eq", stride, number) for stride, number in numbers.items()]
        put_version(b, nest, reduce(b.and_, conditions), version)


def _may_be_repeated(nest: Nest, strides: list[Value]) -> Value | None:
    """The stride of the second of two loads that a nest of stores computes from: broadcasting makes it 0."""
    sinks = nest.body.ops_of(SINKS)
    stores = [op for op in sinks if isinstance(op, STORES)]
    is_of_elements = all(isinstance(op, (*STORES, Write)) for op in sinks) and not run_time_strides_of(stores)
    return strides[-1] if len(strides) == 2 and is_of_elements else None


def put_version(b: LoopBuilder, nest: Nest, condition: Value, version: Nest) -> None:
    """Let `version` run in place of `nest` where a condition holds, which is built at the end of a block of its own."""
    block, after = nest.block, nest.next
    assert block is not None, "a nest stands in a function"
    nest.unlink()
    with b.branch(condition) as branch:
        with branch.then():
            b.append(version)
        with branch.otherwise():
            b.append(nest)
    for result, there in zip(nest.results, version.results, strict=True):
        used = b.later(result.type)
        result.replace_by(used)
        used.replace_by(branch.join(there, result))
    block.splice(b.block, after)


def _runs_of(nest: Nest, function: Func) -> str:
    """The unit for which the grid runs `nest` once: "program", or "iteration" of the loop around.

    "" where that is not known, or where iterations may store to the same places again and again.
    """
    loop = nest.parent
    if loop is function:
        return "program" if is_public(function) else ""
    if not is_public(function) or not isinstance(loop, For):
        return ""
    outermost = loop.parent if PROGRAMS in loop.attributes else loop
    if outermost is None or outermost.parent is not function:
        return ""
    stores = nest.body.ops_of(STORES)
    return "iteration" if stores and all(_moves(op.pointer, loop) for op in stores) else ""


def _moves(value: Value, loop: For) -> bool:
    """Whether `value`, computed in the body of `loop`, may be another one in each iteration."""
    computed = backward_slice(value, lambda op: op is not loop)
    return any(v.owner is loop.body for v in (value, *(v for op in computed for v in op.operands)) if v.op is None)


def _loop_around(op: Op) -> Op | None:
    """The innermost loop, or the function, that `op` is in."""
    parent = op.parent
    while parent is not None and not isinstance(parent, (Loop, Func)):
        parent = parent.parent
    return parent
