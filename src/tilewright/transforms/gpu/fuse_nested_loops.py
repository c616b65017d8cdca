"""Fuse nested loops: a loop with a loop inside becomes one loop, so that its steps can be pipelined across tiles.

    scf.for %i = … {                          scf.for … {
      A(%i)                                     scf.if first step of an inner loop { next %i; A(%i) }
      scf.for %j = … { B(%i, %j) }     ->       B(%i, %j)
      C(%i)                                     scf.if last step of an inner loop { C(%i) }
    } {tt.flatten}                            }

Only loops marked `tt.flatten` with exactly one loop inside; that loop must be known to run at least once. Where nobody
says so, its length is tested in front: the nest is copied without the inner loop for the case that it is empty.
`loop_fusion` does the work. Nests marked `ttg.always-fuse` (by tests of Triton) are fused whatever is inside, on the
promise that loops with results are not empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.ir.attributes import Keyword
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_pure
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.loop_fusion import Fusion, Inner, Place
from tilewright.transforms.licm import hoist_out_of
from tilewright.transforms.matching import is_inside

DOTS = frozenset(("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"))


class Nest(NamedTuple):
    """A loop and the loops directly inside."""

    loop: Op
    children: list[Nest]


def fuse_nested_loops(module: Op) -> bool:
    """Fuse the loop nests of `module` that are marked."""
    nests = [(nest, function) for function in functions_of(module) for nest in _nests(function)]
    nests = [(nest, function) for nest, function in nests if _is_marked(nest)]
    for nest, function in nests:
        pool = ConstantPool(function.regions[0].block)
        runs = _prepare(nest, pool) if "ttg.always-fuse" not in nest.loop.attributes else False
        if runs is not None:
            _flatten(nest, pool, runs=runs)
    return bool(nests)


def _nests(function: Op) -> list[Nest]:
    found: list[Nest] = []
    for block in function.regions[0].blocks:
        _collect(block, found, found)
    return found


def _collect(block: Block, siblings: list[Nest], found: list[Nest]) -> None:
    """Add the loops of `block` to `siblings`; loops inside of branches start nests of their own."""
    for op in block:
        if op.name == "scf.for":
            siblings.append(Nest(op, []))
            _collect(op.regions[0].block, siblings[-1].children, found)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _collect(inner, found, found)


def _is_marked(nest: Nest) -> bool:
    if "ttg.always-fuse" in nest.loop.attributes:
        return bool(nest.children)
    return "tt.flatten" in nest.loop.attributes and len(nest.children) == 1 and not nest.children[0].children


def _flatten(nest: Nest, pool: ConstantPool, *, runs: bool) -> Op:
    """Fuse all levels of `nest`, innermost first; returns the loop that is left."""
    inners = []
    for child in nest.children:
        loop = _flatten(child, pool, runs=False)
        inner = _inner_loop(nest.loop, loop, runs=runs)
        if inner is not None:
            inners.append(inner)
    return Fusion(nest.loop, inners, pool).run() if inners else nest.loop


# --- bounds -------------------------------------------------------------------------------------------------------


def _inner_loop(outer: Op, loop: Op, *, runs: bool) -> Inner | None:
    """`loop` as part of a fusion with `outer`; None if its bounds depend on more than the outer counter.

    What computes fixed bounds moves in front of `outer`.
    """
    bounds = _needed(outer, loop.operands[:3], ())
    if bounds is not None:
        _move_in_front(bounds, outer)
        return Inner(loop, runs=runs)
    bounds = _needed(outer, loop.operands[:3], outer.regions[0].block.args[:1])
    return None if bounds is None else Inner(loop, bounds, varies=True, runs=runs)


def _needed(outer: Op, values: Sequence[Value], known: Sequence[Value]) -> list[Op] | None:
    """The ops in the body of `outer` that compute `values` from `known` and what is outside; None if more is needed."""
    body = outer.regions[0].block
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
    assert place.block is not None, f"{place.name} is in no block"
    for op in ops:
        op.unlink()
        place.block.insert(op, place)


# --- preparing a loop with one loop inside ------------------------------------------------------------------------


def _prepare(nest: Nest, pool: ConstantPool) -> bool | None:
    """Make sure that the inner loop runs; True if it does, None if that is not to be known."""
    outer, inner = nest.loop, nest.children[0].loop
    hoist_out_of(outer)  # what is computed outside need not go round
    _sink(outer, inner)
    if _is_assumed_to_run(inner):
        return True
    bounds = _needed(outer, inner.operands[:3], ())
    if bounds is None:
        return None
    _move_in_front(bounds, outer)
    _split_off_empty(outer, inner, pool)
    return True


def _sink(outer: Op, inner: Op) -> None:
    """What is computed in front of `inner` and used behind it only is computed behind it."""
    body = outer.regions[0].block
    op, place = inner.previous, inner.next
    while op is not None:
        before = op.previous
        users = {ancestor_in(user, body) for result in op.results for user in result.uses}
        if op.results and is_pure(op) and op.name not in DOTS and all(_is_behind(user, inner) for user in users):
            op.unlink()
            body.insert(op, place)
            place = op
        op = before


def _is_behind(op: Op | None, loop: Op) -> bool:
    later = loop.next
    while later is not None and later is not op:
        later = later.next
    return later is not None


def _is_assumed_to_run(loop: Op) -> bool:
    """Whether the program says `llvm.intr.assume` of high > low."""
    low, high, _ = loop.operands[:3]
    for compare in high.uses:
        predicate = compare.attributes.get("predicate") if compare.name == "arith.cmpi" else None
        if not isinstance(predicate, Keyword) or not any(u.name == "llvm.intr.assume" for u in compare.result.uses):
            continue
        wanted = {"sgt": [high, low], "slt": [low, high]}.get(predicate.name)
        if wanted is not None and all(a is b for a, b in zip(compare.operands, wanted, strict=True)):
            return True
    return False


def _split_off_empty(outer: Op, inner: Op, pool: ConstantPool) -> None:
    """scf.if the inner loop is empty { the nest without it } else { the nest }."""
    assert outer.block is not None, "a loop is in a block"
    place = Place(outer.block, outer, pool, outer.location)
    length = place.trip_count(*inner.operands[:3])
    none = place.compare("sle", length, place.number(0, length.type))
    mapping: dict[Value, Value] = {}
    copy = outer.clone(mapping)
    copied = mapping[inner.regions[0].block.args[0]].owner
    assert isinstance(copied, Block), "the counter of a loop is an argument"
    assert copied.region is not None, "a block of a loop is in a region"
    assert copied.region.op is not None, "the region belongs to the loop"
    copied.region.op.replace(copied.region.op.operands[3:])
    copy.attributes.pop("tt.warp_specialize", None)
    blocks = Block(), Block()
    branch = place.op("scf.if", (none,), [v.type for v in outer.results], None, [Region([block]) for block in blocks])
    for old, new in zip(outer.results, branch.results, strict=True):
        old.replace_by(new)
    outer.unlink()
    for block, loop in zip(blocks, (copy, outer), strict=True):
        block.append(loop)
        block.append(Op(OPS["scf.yield"], loop.results, location=outer.location))
