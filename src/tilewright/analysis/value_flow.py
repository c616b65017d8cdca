"""Data flow: the results, block arguments and loop-carried values that an operand may reach.

    %r = scf.for … iter_args(%x = %a) { … scf.yield %b }      %a -> %x, %a -> %r, %b -> %x, %b -> %r

Ops with regions or targets have exact edges; of any other op every operand counts as flowing into every result, and
analyses choose among those edges by the op's name.

backward_slice(value, keep)     what computes `value`, through ops that `keep` accepts, within the block arguments
forward_slice(value)            everything that uses it, directly or not, also inside of regions
stored_arguments(module)        the arguments of a kernel that it stores through

    tt.func @k(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) { … tt.store %p, %v … }      %p comes from %out: {1}

An address flows from an argument through every op but loads to its results, and through loops and branches; what flows
into a store or an atomic marks the argument. So the answer may name too many arguments, never too few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import TypeVar

from tilewright.dialects.cf import target_operands
from tilewright.dialects.scf import Condition, For, While, Yield
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions, WarpYield
from tilewright.ir.core import Op, Value, typed
from tilewright.ir.types import PointerType

Fact = TypeVar("Fact", bound=Hashable)
Node = TypeVar("Node", bound=Hashable)
Edge = tuple[Value, Value]


def flow_edges(op: Op) -> Iterator[Edge]:
    """Pairs of an operand of `op` and a value that it may turn up in."""
    if not (op.regions or op.successors or op.definition.terminator):  # nearly all ops
        yield from product(op.operands, op.results)
        return
    parent = op.parent
    if isinstance(op, For):
        yield from zip(op.inits, op.carried, strict=True)
        yield from zip(op.inits, op.results, strict=True)
    elif isinstance(op, While):
        yield from zip(op.inits, op.before.args, strict=True)
    elif isinstance(op, Condition) and isinstance(parent, While):
        yield from zip(op.values, parent.results, strict=True)
        yield from zip(op.values, parent.after.args, strict=True)
    elif isinstance(op, (Yield, WarpYield)) and parent is not None:
        yield from _yield_edges(op, parent)
    elif op.successors:
        for block, values in zip(op.successors, target_operands(op), strict=True):
            yield from zip(values, block.args, strict=True)
    elif isinstance(op, WarpSpecialize):
        yield from _capture_edges(op)
    else:
        inner = [argument for region in op.regions for block in region.blocks[:1] for argument in block.args]
        yield from product(op.operands, [*op.results, *inner])


def flows_into(user: Op, index: int) -> list[Value]:
    """The arguments and results that operand `index` of a loop, branch or yield becomes; none for all other ops."""
    if isinstance(user, For):
        return [user.carried[index - 3], user.results[index - 3]] if index > 2 else []
    if isinstance(user, While):
        return [user.before.args[index]]
    if isinstance(user, Condition):
        loop = typed(user.parent, While)
        return [loop.results[index - 1], loop.after.args[index - 1]] if index else []
    return _yielded_into(user, index) if isinstance(user, Yield) else []


def _yielded_into(user: Yield, index: int) -> list[Value]:
    parent = user.parent
    assert parent is not None, "a yield is in a region"
    if isinstance(parent, While):
        return [parent.before.args[index]]
    return [parent.results[index], *([parent.carried[index]] if isinstance(parent, For) else [])]


def _yield_edges(op: Yield | WarpYield, parent: Op) -> Iterator[Edge]:
    if isinstance(parent, While):
        yield from zip(op.values, parent.before.args, strict=True)
        return
    yield from zip(op.values, parent.results, strict=True)
    if isinstance(parent, For):
        yield from zip(op.values, parent.carried, strict=True)


def _capture_edges(op: Op) -> Iterator[Edge]:
    """Every partition gets the captures of `op` as its arguments."""
    for inner in op.walk():
        if isinstance(inner, WarpSpecializePartitions):
            for region in inner.regions:
                yield from zip(op.operands or inner.captures, region.block.args, strict=True)


def propagate(
    ops: Iterable[Op],
    start: Mapping[Value, set[Fact]],
    edges: Callable[[Op], Iterable[Edge]] = flow_edges,
) -> dict[Value, set[Fact]]:
    """Spread sets of facts along the `edges` of `ops` until nothing changes.

    The result, a `defaultdict`, has for each value the union of the facts of all values that flow into it.
    """
    facts: dict[Value, set[Fact]] = defaultdict(set, {value: set(known) for value, known in start.items()})
    pairs = [pair for op in ops for pair in edges(op)]
    changed = True
    while changed:
        changed = False
        for source, target in pairs:
            if source in facts and not facts[source] <= facts[target]:
                facts[target] |= facts[source]
                changed = True
    return facts


Keep = Callable[[Op], bool]


def reachable(start: Iterable[Node], neighbours: Callable[[Node], Iterable[Node]]) -> dict[Node, None]:
    """All that `neighbours` lead to from `start`, directly or not, and `start` itself."""
    found = dict.fromkeys(start)
    waiting = list(found)
    while waiting:
        for node in neighbours(waiting.pop()):
            if node not in found:
                found[node] = None
                waiting.append(node)
    return found


def operand_ops(op: Op) -> Iterator[Op]:
    """The ops that compute the operands of `op`."""
    return (value.op for value in op.operands if value.op is not None)


def backward_slice(value: Value, keep: Keep = lambda op: True) -> dict[Op, None]:
    """The ops that `value` is computed from, as far as `keep` accepts them; block arguments end the search."""
    start = [] if value.op is None else [value.op]
    return reachable(filter(keep, start), lambda op: filter(keep, operand_ops(op)))


def forward_slice(value: Value) -> dict[Op, None]:
    """The ops that use `value` or something computed from it, also inside of regions."""

    def users(op: Op) -> Iterator[Op]:
        inner = (argument for region in op.regions for block in region.blocks for argument in block.args)
        return (user for value in (*op.results, *inner) for user in value.uses)

    return reachable(value.uses, users)


def connected_ops(op: Op, keep: Keep) -> dict[Op, None]:
    """The ops that `op` is connected with through operands and users, as far as `keep` accepts them."""

    def neighbours(op: Op) -> Iterator[Op]:
        return filter(keep, (*operand_ops(op), *(user for result in op.results for user in result.uses)))

    return reachable([op], neighbours)


def calls_in(function: Func) -> Iterator[tuple[Call, Func]]:
    """The calls in `function`, each with the function that it calls."""
    for op in function.ops_of(Call):
        if (callee := op.function) is not None:
            yield op, callee


def callees_first(module: Op) -> tuple[list[Func], set[Func]]:
    """The functions of `module`, each after those that it calls; and those that calls lead back to."""
    finished: dict[Func, None] = {}
    entered: set[Func] = set()
    recursive: set[Func] = set()

    def visit(function: Func) -> None:
        if function in entered:
            if function not in finished:
                recursive.add(function)
            return
        entered.add(function)
        for _, callee in calls_in(function):
            visit(callee)
        finished[function] = None

    for function in module.ops_of(Func):
        visit(function)
    return list(finished), recursive


ENDS = (WritesMemory, Load)
"""Ops whose results are values from memory, not the address."""


def stored_arguments(module: Op) -> set[int]:
    """Indices of the arguments of the module's public function that its stores and atomics may write through.

    A function that calls itself counts as one that stores through all pointers it gets.
    """
    functions = {op.symbol: op for op in module.regions[0].block if isinstance(op, Func)}
    return _stored(next(op for op in functions.values() if op.is_public), functions, ())


def _stored(function: Func, functions: Mapping[str, Func], callers: tuple[Func, ...]) -> set[int]:
    origins = pointer_origins(function)
    found: set[int] = set()
    for op in function.ops_of((WritesMemory, Call)):
        written = [op.address] if isinstance(op, WritesMemory) else []
        if isinstance(op, Call):
            written = _stored_by_call(op, functions, (*callers, function))
        found.update(index for value in written for index in origins[value])
    return found


def _stored_by_call(call: Call, functions: Mapping[str, Func], callers: tuple[Func, ...]) -> list[Value]:
    callee = functions[call.callee]
    if callee in callers or not callee.region.blocks:
        return call.arguments
    stored = _stored(callee, functions, callers)
    return [v for i, v in enumerate(call.arguments) if i in stored or not isinstance(v.type, PointerType)]


def pointer_origins(function: Op) -> dict[Value, set[int]]:
    """The pointer arguments that each value of `function` may be an address from."""
    arguments = function.regions[0].block.args
    start = {argument: {argument.index} for argument in arguments if isinstance(argument.type, PointerType)}
    return propagate((op for op in function.walk() if not isinstance(op, ENDS)), start)
