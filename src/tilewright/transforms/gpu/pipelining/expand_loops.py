"""Expansion of scheduled loops: one iteration executes stages of several original iterations.

    for i in range(lo, hi):          A(lo) if lo < hi
      x = A(i)    {stage 0}   ->     for i in range(lo, hi):
      B(x)        {stage 1}            x' = A(i + 1) if i < hi - 1
                                       B(x)
                                       x = x'

The stages that run ahead are executed before the loop for the first iterations (the prologue). There is no epilogue: in
the last iterations the stages without an original iteration are switched off by predicates. Values used by a later
stage are carried by the loop, in as many versions as there are stages in between.

    %r = "ttg.mask"(%p) ({ %x = tt.load %q, %m; ttg.mask.return %x })     until the arithmetic of %p is simplified

    %s = tt.splat %p                                                      then
    %n = arith.andi %s, %m
    %r = tt.load %q, %n

In the first and last iterations of a pipelined loop some stages have no iteration of the original loop. The values that
their ops compute do not matter then, but they must not access memory that the original loop did not. Copies that are
switched off still commit their group, so that waits can count groups. Loads from buffers that no copy by descriptor has
filled are inside branches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.dialects.builtin import Assume
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.ttg_async import AsyncCommitGroup, AsyncWait
from tilewright.dialects.ttg_memory import LocalAlloc, LocalGather, LocalLoad, LocalStore
from tilewright.dialects.ttg_program import Mask
from tilewright.dialects.ttng_barriers import FenceAsyncShared
from tilewright.dialects.ttng_descriptors import DescriptorCopy
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Block, Op, Region, Value, typed
from tilewright.ir.declare import OPS
from tilewright.ir.effects import is_pure
from tilewright.ir.operands import operand, set_operand_groups
from tilewright.ir.rewriter import Rule
from tilewright.ir.types import IndexType, TensorType, async_token, i1, i32
from tilewright.transforms import arith_rules
from tilewright.transforms.canonicalize import FOLDS
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.gpu.pipelining.product_latencies import root_of
from tilewright.transforms.gpu.pipelining.schedule import (
    Schedule,
    body_of,
    forget_schedule,
    loops_of,
    values_used,
)
from tilewright.transforms.matching import integer_of, is_inside
from tilewright.transforms.op_builder import OpBuilder

MASKED = (Load, Store, AtomicRmw)
"""Accesses that may get a mask."""
HARMLESS = (
    *(Assume, FenceAsyncShared, AsyncCommitGroup, AsyncWait),
    *(LocalLoad, LocalGather, LocalStore, LocalAlloc),
    *(TmemAlloc, TmemLoad),
)
"""Ops that may run in every iteration: they have no visible effect."""
RULES: dict[str, tuple[Rule, ...]] = {name: tuple(rules) for name, rules in arith_rules.RULES.items()}


def needs_predicate(op: Op) -> bool:
    """Whether `op` must not run in an iteration that the original loop did not have; undeclared ops always may."""
    return not is_pure(op) and not isinstance(op, HARMLESS) and op.name in OPS


def can_be_predicated(op: Op) -> bool:
    """Whether `op` can be predicated; of a branch, which runs its second arm then, all in this."""
    if isinstance(op, If):
        return all(can_be_predicated(inner) for arm in op.arms[1:] for inner in arm.block)
    if not needs_predicate(op) or isinstance(op, MASKED):
        return True
    return bool({"mask?", "pred", "pred?"} & set(op.definition.operand_names))


def wrap(op: Op, predicate: Value) -> Op:
    """Put `op` into a `ttg.mask`, which takes its place; returns that."""
    writer = OpBuilder(op)
    types = [result.type for result in op.results]
    body = Block()
    mask = writer.op("ttg.mask", (predicate,), types, regions=[Region([body])])
    for old, new in zip(op.results, mask.results, strict=True):
        old.replace_by(new)
    op.unlink()
    body.append(op)
    body.append(Op.create("ttg.mask.return", op.results, location=op.location))
    return mask


def in_branch(load: LocalLoad, predicate: Value) -> Op:
    """Put `load` into a branch that gives zeros if `predicate` does not hold; returns the branch."""
    writer = OpBuilder(load)
    bodies = [Block(), Block()]
    branch = writer.op("scf.if", (predicate,), [load.result.type], None, [Region([body]) for body in bodies])
    load.result.replace_by(branch.result)
    load.unlink()
    bodies[0].append(load)
    bodies[0].append(Op.create("scf.yield", load.results, location=load.location))
    end = bodies[1].append(Op.create("scf.yield", location=load.location))
    end.set_operands([OpBuilder(end).constant(0, load.result.type)])
    return branch


def is_filled_by_descriptor(buffer: Value) -> bool:
    """Whether copies by descriptor fill `buffer`: one that is switched off leaves it as it was, others store zeros."""
    return any(isinstance(user, DescriptorCopy) for user in users_through_views(root_of(buffer)))


def resolve_masks(module: Op) -> None:
    """Let the ops in `ttg.mask` stand alone, with a predicate of their own."""
    simplify_arithmetic(module)
    for mask in [op for op in module.walk() if isinstance(op, Mask)]:
        predicate = mask.condition
        for op in mask.body:
            if op.definition.terminator:
                mask.replace(op.operands)
                break
            op.unlink()
            assert mask.block is not None, "a mask is in a loop"
            mask.block.insert(op, mask)
            _predicate(op, predicate)


def simplify_arithmetic(module: Op) -> bool:
    """Fold constants, and bring arithmetic into canonical form."""
    return rewrite_functions(module, RULES, folds=FOLDS)


def _predicate(op: Op, predicate: Value) -> None:
    """Let `op` run only if `predicate` is true, too."""
    if not needs_predicate(op):
        return
    if isinstance(op, If):
        op.condition = OpBuilder(op).compute("arith.andi", predicate, op.condition)
        for inner in [inner for arm in op.arms[1:] for inner in arm.block]:
            _predicate(inner, predicate)
    elif isinstance(op, MASKED):
        op.mask = _both(op, op.pointer, predicate, op.mask)
    else:
        name = "mask" if "mask?" in op.definition.operand_names else "pred"
        old = operand(op, name)
        like = op.pointer if isinstance(op, PointerAccess) else predicate
        set_operand_groups(op, {name: [_both(op, like, predicate, old)]})


def _both(op: Op, like: Value, predicate: Value, old: Value | None) -> Value:
    """`predicate` and `old`, in the shape of `like`."""
    writer, type = OpBuilder(op), like.type
    if isinstance(type, TensorType):
        mask = TensorType(type.shape, i1, type.encoding)
        predicate = writer.emit("tt.splat", (predicate,), mask)
    return predicate if old is None else writer.compute("arith.andi", predicate, old)


KEEP_PREDICATES = "__test_keep_predicate_stage"
"""The attribute of loops whose predicates shall stay ops of their own."""


def expand_loops(module: Op) -> None:
    """Expand all scheduled loops of `module`, and forget the schedules."""
    for loop in loops_of(module, For):
        schedule = Schedule.read(loop)
        plan = Plan.of(loop, schedule) if schedule is not None else None
        if plan is not None:
            Expansion(plan).run()
    resolve_masks(module)
    forget_schedule(module)


class Crossing(NamedTuple):
    """A value that is used in later stages than it is computed in."""

    first: int
    last: int

    @property
    def versions(self) -> int:
        """The number of its versions that are alive at once."""
        return self.last - self.first


class Plan(NamedTuple):
    """The plan for a loop.

    Attributes:
        loop: an `scf.for`.
        stages: of the ops of its body, in the order in which they run in one iteration.
        last: the last stage.
    """

    loop: For
    stages: Mapping[Op, int]
    last: int

    @classmethod
    def of(cls, loop: For, schedule: Schedule) -> Plan | None:
        """The plan for `loop`; None if that cannot be done."""
        stages = {op: slot.stage for op, slot in schedule.in_order(loop)}
        plan = cls(loop, stages, max(stages.values(), default=0))
        if not stages or any(op not in stages for op in body_of(loop)):
            return None
        if not all(stage == plan.last or can_be_predicated(op) for op, stage in stages.items()):
            return None
        return plan if plan._is_possible() else None

    def source(self, value: Value) -> tuple[Op | None, int]:
        """The op of the loop that computes `value`, and how many iterations before; None if no op of the loop does."""
        distance, seen = 0, set()
        while value.op is None:
            if value.owner is not self.loop.body or value.index == 0 or value in seen:
                return None, 0
            seen.add(value)
            distance += 1
            value = self.loop.yielded[value.index - 1]
        return (value.op, distance) if value.op in self.stages else (None, 0)

    def crossings(self) -> dict[Value, Crossing]:
        """The values that later stages use."""
        found: dict[Value, Crossing] = {}
        for op, stage in self.stages.items():
            for value in values_used(op):
                source, distance = self.source(value)
                if source is None or self.stages[source] in (stage, stage + distance):
                    continue
                last = max(stage, found[value].last) if value in found else stage
                found[value] = Crossing(self.stages[source], last)
        return found

    def _is_possible(self) -> bool:
        """Whether every op comes after what it uses, of this iteration or the one before."""
        places = {op: number for number, op in enumerate(self.stages)}
        times = {op: places[op] + stage * len(places) for op, stage in self.stages.items()}
        for op in self.stages:
            for value in values_used(op):
                source, distance = self.source(value)
                if source is not None and (distance > 1 or times[op] < times[source] - distance * len(places)):
                    return False
        return True


class Expansion:
    """The expansion of one loop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop, self.stages, self.last = plan.loop, plan.stages, plan.last
        self.body = self.loop.body
        self.yielded = list(self.loop.yielded)
        self.guarded = {
            op
            for op, stage in self.stages.items()
            if isinstance(op, LocalLoad) and stage < self.last and is_filled_by_descriptor(op.buffer)
        }
        """The loads from buffers that are unfilled in iterations that the original loop did not have."""
        self.ahead: dict[Value, dict[int, Value]] = {}
        """The values that each one of the loop has in its first iterations, as far as the prologue computes them."""

    def run(self) -> None:
        """Replace the loop."""
        self._prologue()
        crossings = self.plan.crossings()
        initial, places = self._initial(crossings)
        old = self.loop
        body = Block([old.low.type, *(value.type for value in initial)])
        for argument, before in zip(body.args, self.body.args, strict=False):
            argument.name = before.name
        types = [value.type for value in initial]
        operands = [*old.bounds, *initial]
        new = OpBuilder(old).op("scf.for", operands, types, dict(old.attributes), [Region([body])])
        body.append(Op.create("scf.yield", location=old.location))
        Kernel(self, typed(new, For), crossings, places).fill()
        old.replace(new.results[: len(old.results)])

    # The prologue

    def _prologue(self) -> None:
        """The first iterations, as far as the last stage does not take part in them."""
        low, high, step = self.loop.bounds
        writer = OpBuilder(self.loop)
        counter = self.loop.induction_variable
        self.ahead[counter] = {}
        for argument, initial, handed_on in zip(self.loop.carried, self.loop.inits, self.yielded, strict=True):
            self.ahead[argument] = {0: initial}
            if not is_inside(handed_on, self.loop):
                self.ahead[argument].update(dict.fromkeys(range(1, self.last), handed_on))
        predicates: list[Value | None] = []
        always = self._runs_long_enough()
        for part in range(self.last):
            now = self.ahead[counter][part] = low if part == 0 else _steps_after(writer, low, step, part)
            predicates.append(None if always else writer.compare("slt", now, high))
            for op, stage in self.stages.items():
                if stage <= part:
                    self._run_ahead(op, part - stage, predicates[part - stage], writer)

    def _run_ahead(self, op: Op, step: int, predicate: Value | None, writer: OpBuilder) -> None:
        """Run `op` for one of the first iterations before the loop."""
        versions = self.ahead
        mapping = {value: versions[value][step] for value in values_used(op) if value in versions}
        copy = self.loop_block.insert(op.clone(mapping), self.loop)
        copy = self.predicated(op, copy, predicate)
        for old, new in zip(op.results, copy.results, strict=True):
            versions.setdefault(old, {})[step] = new
            for index, handed_on in enumerate(self.yielded):
                if handed_on is old:
                    argument = versions[self.body.args[index + 1]]
                    argument[step + 1] = new
                    if predicate is not None and _matters(self.loop.results[index]):
                        # Users of the result need its value after the last real iteration.
                        argument[step + 1] = writer.compute("arith.select", predicate, new, argument[step])

    def predicated(self, op: Op, copy: Op, predicate: Value | None) -> Op:
        """The `copy` of `op` as it runs where there is an iteration for it; None: there always is."""
        if predicate is None:
            return copy
        if op in self.guarded and isinstance(copy, LocalLoad):
            return in_branch(copy, predicate)
        return wrap(copy, predicate) if needs_predicate(copy) else copy

    @property
    def loop_block(self) -> Block:
        """The block that the loop is in."""
        assert self.loop.block is not None, "a loop is in a block"
        return self.loop.block

    def _runs_long_enough(self) -> bool:
        """Whether the loop is known to run an iteration for every stage that is ahead."""
        low, high, step = (integer_of(value) for value in self.loop.bounds)
        if not isinstance(self.loop.induction_variable.type, IndexType) or low is None or high is None or not step:
            return False
        return -((low - high) // step) >= self.last

    def _initial(self, crossings: Mapping[Value, Crossing]) -> tuple[list[Value], dict[tuple[Value, int], int]]:
        """The initial values of the new loop; and per value and age the position of what it carries."""
        initial = []
        for argument, handed_on, value in zip(self.loop.carried, self.yielded, self.loop.inits, strict=True):
            stage = self.stages.get(handed_on.op) if handed_on.op is not None else None
            initial.append(value if stage is None else self.ahead[argument][self.last - stage])
        places: dict[tuple[Value, int], int] = {}
        for value, crossing in crossings.items():
            for age in range(crossing.versions, 0, -1):
                places[value, age] = len(initial)
                initial.append(self.ahead[value][self.last - crossing.first - age])
        return initial, places


class Kernel:
    """The body of the new loop, which is empty but for the terminator.

    Values of `crossings` are carried for later stages, at `places` per value and age.
    """

    def __init__(
        self,
        expansion: Expansion,
        loop: For,
        crossings: Mapping[Value, Crossing],
        places: Mapping[tuple[Value, int], int],
    ) -> None:
        self.expansion, self.loop, self.crossings, self.places = expansion, loop, crossings, places
        self.stages, self.last = expansion.stages, expansion.last
        self.old, self.body = expansion.body, loop.body
        self.args = loop.carried
        self.writer = OpBuilder(self.body.terminator)
        self.values: dict[Value, Value] = dict(zip(self.old.args, self.body.args, strict=False))
        self.predicates: list[Value | None] = [self._predicate(stage) for stage in range(self.last)]
        self.predicates.append(None)

    def fill(self) -> None:
        """Write the ops, and what is passed on."""
        for op, stage in self.stages.items():
            mapping = {value: self._seen_by(value, stage) for value in values_used(op)}
            copy = self.body.insert(op.clone(mapping), self.body.terminator)
            copy = self.expansion.predicated(op, copy, self.predicates[stage])
            self.values.update(zip(op.results, copy.results, strict=True))
        handed_on = [self._handed_on(index, value) for index, value in enumerate(self.expansion.yielded)]
        for value, crossing in self.crossings.items():
            younger = range(crossing.versions - 1, 0, -1)
            handed_on += [self.args[self.places[value, age]] for age in younger]
            handed_on.append(self.values.get(value, value))
        self.body.terminator.set_operands(handed_on)

    def _predicate(self, stage: int) -> Value:
        """Whether `stage` has an iteration to work for."""
        high, step, counter = self.loop.high, self.loop.step, self.loop.induction_variable
        if KEEP_PREDICATES in self.loop.attributes:
            numbers: dict[str, Attribute] = {"maxStage": Number(self.last, i32), "stage": Number(stage, i32)}
            return self.writer.emit("ttg.predicate_stage", (counter, high, step), i1, numbers)
        later = _steps(self.writer, step, self.last - stage)
        return self.writer.compare("slt", counter, self.writer.compute("arith.subi", high, later))

    def _seen_by(self, value: Value, stage: int) -> Value:
        """The value that `value` of the old loop is for an op of `stage`."""
        if value is self.expansion.loop.induction_variable:
            return _steps_after(self.writer, self.loop.induction_variable, self.loop.step, self.last - stage)
        source = value
        if value.owner is self.old:
            source = self.expansion.yielded[value.index - 1]
            if not is_inside(source, self.expansion.loop):
                return self.values[value] if stage == self.last else source
            computed = self.stages.get(source.op) if source.op is not None else None
            if computed == stage + 1:
                return self.values[source]  # the previous iteration has just come as far
        op = source.op
        if op is None or self.stages.get(op, stage) == stage:
            return self.values.get(value, value)
        return self.args[self.places[value, stage - self.stages[op]]]

    def _handed_on(self, index: int, value: Value) -> Value:
        new = self.values.get(value, value)
        source, _ = self.expansion.plan.source(value)
        if source is None or not _matters(self.expansion.loop.results[index]):
            return new
        predicate = self.predicates[self.stages[source]]
        return new if predicate is None else self.writer.compute("arith.select", predicate, new, self.args[index])


def _matters(result: Value) -> bool:
    """Whether it matters which iteration `result` comes from: a token only says what stands before what."""
    return bool(result.uses) and result.type is not async_token


def _steps(writer: OpBuilder, step: Value, count: int) -> Value:
    """`count` iterations at once."""
    return step if count == 1 else writer.compute("arith.muli", step, writer.constant(count, step.type))


def _steps_after(writer: OpBuilder, counter: Value, step: Value, count: int) -> Value:
    """The counter `count` iterations later."""
    return counter if count == 0 else writer.compute("arith.addi", counter, _steps(writer, step, count))
