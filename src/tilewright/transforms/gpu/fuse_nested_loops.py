"""Fuse nested loops: a loop with an inner loop becomes one loop, which can be pipelined across outer iterations.

    scf.for %i = … {                          scf.for … {
      A(%i)                                     scf.if first inner iteration { next %i; A(%i) }
      scf.for %j = … { B(%i, %j) }     ->       B(%i, %j)
      C(%i)                                     scf.if last inner iteration { C(%i) }
    } {tt.flatten}                            }

This applies only to loops marked `tt.flatten` with exactly one inner loop, which must be known to run at least once. If
this is not known, its length is tested first: for the case that it is empty there is a copy of the nest without the
inner loop. `loop_fusion` does the work. Nests marked `ttg.always-fuse` (by tests of Triton) are fused whatever they
contain, on the promise that loops with results are not empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.arith import CompareIntegers
from tilewright.dialects.builtin import Assume
from tilewright.dialects.scf import For
from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_function import Func
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_pure
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.loop_fusion import Fusion, Inner, Place
from tilewright.transforms.licm import hoist_out_of
from tilewright.transforms.matching import is_after, is_inside
from tilewright.transforms.op_builder import OpBuilder


class Nest(NamedTuple):
    """A loop and the loops directly inside."""

    loop: For
    children: list[Nest]


def fuse_nested_loops(module: Op) -> bool:
    """Fuse the loop nests of `module` that are marked."""
    nests = [(nest, function) for function in functions_of(module) for nest in _nests(function)]
    nests = [(nest, function) for nest, function in nests if _is_marked(nest)]
    for nest, function in nests:
        pool = ConstantPool(function.body)
        is_told = "ttg.always-fuse" in nest.loop.attributes
        if is_told or _prepare(nest, pool):
            _flatten(nest, pool, runs=not is_told)
    return bool(nests)


def _nests(function: Func) -> list[Nest]:
    found: list[Nest] = []
    for block in function.region.blocks:
        _collect(block, found, found)
    return found


def _collect(block: Block, siblings: list[Nest], found: list[Nest]) -> None:
    """Add the loops of `block` to `siblings`; loops inside of branches start nests of their own."""
    for op in block:
        if isinstance(op, For):
            siblings.append(Nest(op, []))
            _collect(op.body, siblings[-1].children, found)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _collect(inner, found, found)


def _is_marked(nest: Nest) -> bool:
    if "ttg.always-fuse" in nest.loop.attributes:
        return bool(nest.children)
    return "tt.flatten" in nest.loop.attributes and len(nest.children) == 1 and not nest.children[0].children


def _flatten(nest: Nest, pool: ConstantPool, *, runs: bool) -> For:
    """Fuse all levels of `nest`, innermost first; returns the loop that is left."""
    inners = []
    for child in nest.children:
        loop = _flatten(child, pool, runs=False)
        inner = _inner_loop(nest.loop, loop, runs=runs)
        if inner is not None:
            inners.append(inner)
    return Fusion(nest.loop, inners, pool).run() if inners else nest.loop


# --- bounds -------------------------------------------------------------------------------------------------------


def _inner_loop(outer: For, loop: For, *, runs: bool) -> Inner | None:
    """`loop` as part of a fusion with `outer`; None if its bounds depend on more than the outer counter.

    What computes fixed bounds moves before `outer`.
    """
    bounds = _needed(outer, loop.bounds, ())
    if bounds is not None:
        _move_in_front(bounds, outer)
        return Inner(loop, runs=runs)
    bounds = _needed(outer, loop.bounds, [outer.induction_variable])
    return None if bounds is None else Inner(loop, bounds, varies=True, runs=runs)


def _needed(outer: For, values: Sequence[Value], known: Sequence[Value]) -> list[Op] | None:
    """The ops in the body of `outer` that compute `values` from `known` and what is outside; None if more is needed."""
    body = outer.body
    needed: set[Op] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value in known or not is_inside(value, outer):
            continue
        op = value.owner
        if not isinstance(op, Op) or op.block is not body or not _is_cheap(op):
            return None
        if op not in needed:
            needed.add(op)
            waiting += op.operands
    return [op for op in body if op in needed]


def _is_cheap(op: Op) -> bool:
    return is_pure(op) and not op.regions and all(v.type.shape is None for v in (*op.operands, *op.results))


def _move_in_front(ops: Sequence[Op], place: Op) -> None:
    at = OpBuilder(place)
    for op in ops:
        op.unlink()
        at.insert(op)


# --- preparing a loop with one loop inside ------------------------------------------------------------------------


def _prepare(nest: Nest, pool: ConstantPool) -> bool:
    """Make sure that the inner loop runs; False if that is not to be known."""
    outer, inner = nest.loop, nest.children[0].loop
    hoist_out_of(outer)  # values computed outside need not be carried
    _sink(outer, inner)
    if _is_assumed_to_run(inner):
        return True
    bounds = _needed(outer, inner.bounds, ())
    if bounds is None:
        return False
    _move_in_front(bounds, outer)
    _split_off_empty(outer, inner, pool)
    return True


def _sink(outer: For, inner: For) -> None:
    """Move behind `inner` what is computed before it and used behind it only."""
    body = outer.body
    op, place = inner.previous, inner.next
    while op is not None:
        before = op.previous
        users = {ancestor_in(user, body) for result in op.results for user in result.uses}
        can_wait = op.results and is_pure(op) and not isinstance(op, DotLike)
        if can_wait and all(is_after(user, inner) for user in users):
            op.unlink()
            body.insert(op, place)
            place = op
        op = before


def _is_assumed_to_run(loop: For) -> bool:
    """Whether the program says `llvm.intr.assume` of high > low."""
    low, high = loop.low, loop.high
    for compare in high.uses:
        if not isinstance(compare, CompareIntegers) or not any(isinstance(u, Assume) for u in compare.result.uses):
            continue
        wanted = {"sgt": [high, low], "slt": [low, high]}.get(compare.predicate)
        if wanted is not None and all(a is b for a, b in zip(compare.operands, wanted, strict=True)):
            return True
    return False


def _split_off_empty(outer: For, inner: For, pool: ConstantPool) -> None:
    """scf.if the inner loop is empty { the nest without it } else { the nest }."""
    place = Place(outer, pool)
    length = place.trip_count(*inner.bounds)
    none = place.compare("sle", length, place.number(0, length.type))
    copy = outer.clone()
    empty = next(op for op in copy.body if isinstance(op, For))
    empty.replace(empty.inits)
    copy.attributes.pop("tt.warp_specialize", None)
    blocks = Block(), Block()
    branch = place.op("scf.if", (none,), [v.type for v in outer.results], None, [Region([block]) for block in blocks])
    for old, new in zip(outer.results, branch.results, strict=True):
        old.replace_by(new)
    outer.unlink()
    for block, loop in zip(blocks, (copy, outer), strict=True):
        block.append(loop)
        block.append(Op(OPS["scf.yield"], loop.results, location=outer.location))
