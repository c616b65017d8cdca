"""Neighbouring programs whose tiles continue each other's rows run as one, with rows as long as those of all of them.

    %column = %pid * 16 + range(16)            %k = the programs that come next, as far as all of this holds
    "cpu.nest"() …  tt.store …          →      scf.if 1 <= %k, no mask is off, nothing overlaps {
                                                 "cpu.nest"(%k) …  tt.store …       rows of 16 * %k elements
                                                 cpu.take %k
                                               } else {
                                                 "cpu.nest"() …  tt.store …
                                               }

A tile that suits a GPU is a few cache lines wide, so most of a program's time would be spent on starting rows. The nest
of the next program may be this one's, further along its rows: each address and each computed value in lane i of program
p + 1 is what it is in lane 16 + i of program p. `program_motion.py` decides that. Programs that share memory, other
than by reading it, keep their order: the address ranges of all of them together are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import combinations
from math import prod

from tilewright.analysis.guard_conditions import (
    ZERO,
    Condition,
    Sum,
    either,
    every,
    greatest,
    is_zero,
    least,
    minus,
    not_negative,
    plus,
    scaled,
    size,
    times,
    whole,
)
from tilewright.analysis.integer_forms import Form
from tilewright.analysis.memory_accesses import extent_of_rest, is_shared, start_of
from tilewright.analysis.value_forms import ValueForms, size_of
from tilewright.backends.cpu.alignment import Tags
from tilewright.backends.cpu.costs import SINKS, STORES, is_tile
from tilewright.backends.cpu.guard_ops import GuardOps
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.loop_facts import PROGRAMS
from tilewright.backends.cpu.loop_structure import join
from tilewright.backends.cpu.nest_masks import Part, context_of, holds, parts_of, without_masks
from tilewright.backends.cpu.order_programs import order_of
from tilewright.backends.cpu.program_motion import Motion, NestMotion
from tilewright.backends.cpu.version_strides import put_version
from tilewright.dialects.cpu import Alloc, GuardedStore, Nest
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.declare import OPS, Effect
from tilewright.ir.types import i1, i64
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.op_builder import OpBuilder

MAX_PROGRAMS = 4096
"""Max number of programs that run as one: a launch is looked after between them."""

MAX_LANES = 1 << 30
"""Max number of lanes of a row of all of them together: lanes are counted in 32 bits."""


def merge_programs(module: Op) -> bool:
    """Version the nests of `module` (ttcir) for several programs, where possible; returns whether any were."""
    found = False
    for function in functions_of(module):
        if is_public(function):
            loop = next((loop for loop in function.ops_of(For) if PROGRAMS in loop.attributes), None)
            found |= _merge(function) if loop is None else _merge_iterations(function, loop)
    return found


def _merge(function: Func) -> bool:
    """Let a program do what those behind it do; returns whether it may."""
    if not _runs_one_nest(function.body):
        return False
    found = False
    axis: dict[str, Attribute] = {"axis": Keyword(order_of(function)[0])}
    for nest in function.ops_of(Nest):
        merging = _Merging(function, nest)
        version = merging.run(partial(merging.b.emit, "cpu.programs_ahead", (), i64, axis))
        if version is not None:
            OpBuilder.after(version).op("cpu.take", version.operands, (), axis)
            found = True
    return found


def _merge_iterations(function: Func, loop: For) -> bool:
    """Let an iteration do what those behind it do, which are iterations of other programs; returns whether it may."""
    if not _runs_one_nest(loop.body):
        return False
    found = False
    for nest in loop.ops_of(Nest):
        merging = _Merging(function, nest, loop)
        found |= merging.run(partial(_iterations_left, merging.b, loop)) is not None
    if found:
        _skip_iterations(LoopBuilder(Block(), entry=function.body), loop)
    return found


def _iterations_left(b: LoopBuilder, loop: For) -> Value:
    """How many iterations come, this one included."""
    return b.extend(b.sub(loop.high, loop.induction_variable), i64)


def _skip_iterations(b: LoopBuilder, loop: For) -> None:
    """Let iterations pass that an earlier one has done."""
    type, body, b.location = loop.induction_variable.type, loop.body, loop.location
    body.terminator.erase()
    entry = Block([type, type])
    current, following = entry.args
    with b.into(entry):
        with b.branch(b.compare("sge", current, following)) as branch, branch.then():
            b.splice(body)
            after = b.add(current, b.extend(_iterations_done(b, b.block), type))
        b.do("scf.yield", (branch.join(after, following),))
    loop.induction_variable.replace_by(current)
    regions, bounds, block = [Region((entry,))], (*loop.bounds, loop.low), loop.block
    assert block is not None, "the loop is in a function"
    block.insert(Op(OPS["scf.for"], bounds, (type,), loop.attributes, regions, (), loop.location), loop)
    loop.erase()


def _iterations_done(b: LoopBuilder, block: Block) -> Value:
    """The number of iterations that `block` does, an i64: that of the nest which it runs."""
    (only,) = (op for op in block.ops() if op.regions and not _only_reduces(op))
    if isinstance(only, If):
        done, *otherwise = [_iterations_done(b, arm.block) for arm in only.arms]
        return join(only, done, *(otherwise or [b.constant(1, i64)]))
    several = only.programs if isinstance(only, Nest) else None
    return b.constant(1, i64) if several is None else several


def _runs_one_nest(block: Block) -> bool:
    """Whether all that a program does from `block` on is to compute scalars, by nests, too, and to run one more."""
    nested = [op for op in block.ops() if op.regions and not _only_reduces(op)]
    others = [op for op in block.ops() if op not in nested]
    if len(nested) != 1 or not all(_is_pure(op) for op in others):
        return False
    (only,) = nested
    if isinstance(only, If) and not only.results:
        return all(_runs_one_nest(arm.block) for arm in only.arms)
    return isinstance(only, Nest) and not only.results


def _conditions_around(nest: Nest) -> Iterator[Value]:
    """The conditions that decide whether a program runs `nest`."""
    around = nest.parent
    while isinstance(around, If):
        yield around.condition
        around = around.parent


def _only_reduces(op: Op) -> bool:
    """Whether `op` is a nest that reads, and has numbers as results."""
    if not isinstance(op, Nest) or any(load.is_volatile for load in op.ops_of(Load)):
        return False
    return all(isinstance(sink, Reduce) for sink in op.body.ops_of(SINKS))


def _is_pure(op: Op) -> bool:
    return op.definition.effect is Effect.NONE or op.definition.terminator or isinstance(op, Alloc) or _only_reduces(op)


class _Merging:
    """One nest."""

    def __init__(self, function: Func, nest: Nest, loop: For | None = None) -> None:
        self.nest = nest
        self.b = LoopBuilder(Block(), entry=function.body)
        self.b.location = nest.location
        self.motion = NestMotion(nest, order_of(function)[0], loop)
        self.accesses: list[Load | Store | GuardedStore] = [
            op for op in nest.body if isinstance(op, (Load, Store, GuardedStore))
        ]

    def run(self, programs_left: Callable[[], Value]) -> Nest | None:
        """Write the version, whose operand is for how many programs it runs, and return it, if there is one."""
        nest, b = self.nest, self.b
        has_rows = nest.mode == "rows" and prod(nest.outer) > 1 and not nest.square
        if not has_rows or nest.optimize_size or not self.motion.is_continued():
            return None
        if not all(self.motion.is_uniform(condition) for condition in _conditions_around(nest)):
            return None  # the next program may take the other branch
        with b.into(Block()):
            count = b.smin(programs_left(), min(MAX_PROGRAMS, MAX_LANES // self._width()))
            parts = parts_of(context_of(b, nest, 1), nest)
            found = None if parts is None else self._condition(parts, count)
            if found is None:
                for op in reversed(list(b.block)):
                    op.erase()
                return None
            condition, count = found
            version = without_masks(nest)
            version.set_operands((count,))
            put_version(b, nest, condition, version)
        return version

    def _width(self) -> int:
        """The lanes of a row of one program."""
        return next(tile_type(op.value).shape[-1] for op in self.accesses if isinstance(op, STORES))

    def _condition(self, parts: list[Part], count: Value) -> tuple[Value, Value] | None:
        """Whether several programs may run as one, an i1, and how many; None if that cannot be decided."""
        b, c = self.b, context_of(self.b, self.nest, 1)
        conditions, limits = list[Value](), dict[tuple[Value, int], None]()
        for part in parts:
            motion = self.motion.of_mask(part.op, part.mask)
            if motion.stays:
                conditions.append(holds(c, part))
            elif motion.shifts and part.axis is not None:
                limits[part.below, part.extent] = None
            else:
                return None
        for below, extent in limits:
            count = b.smin(count, b.ashr(below, extent.bit_length() - 1))
        for dividend, divisor in self.motion.divided:
            left = b.extend(b.sub(divisor, b.srem(dividend, divisor)), i64)
            count = b.smin(count, left)
        apart = self._apart(count)
        if apart is None:
            return None
        conditions += [b.compare("sge", count, 1), *apart]
        return reduce(b.and_, dict.fromkeys(conditions)), count

    def _apart(self, count: Value) -> list[Value] | None:
        """Conditions under which no program of `count` accesses what another one stores, and rows do not overlap."""
        if not any(isinstance(op, STORES) for op in self.accesses):
            return None
        forms = ValueForms()
        (counted,) = forms.symbol(count, (1, MAX_PROGRAMS)).terms
        reaches = [_reach(forms, op, self.motion, Sum({counted: 1})) for op in self.accesses]
        conditions = list[Condition]()
        for op, reach in zip(self.accesses, reaches, strict=True):
            if isinstance(op, STORES):
                if reach is None:
                    return None
                conditions.append(reach.is_injective())
        for (one, a), (other, z) in combinations(zip(self.accesses, reaches, strict=True), 2):
            if isinstance(one, STORES) or isinstance(other, STORES):
                if a is None or z is None:
                    return None
                conditions.append(either((_are_apart(a, z), _are_same(a, z))))
        return [self._written(every(conditions))]

    def _written(self, condition: Condition) -> Value:
        """The condition as ops at the end of the block: an i1."""
        b = self.b
        end = b.append(Op.create("arith.constant", (), (i1,), {"value": Number(1, i1)}))
        fails = GuardOps(end, {}).fails(condition)
        end.erase()
        return b.xor(fails, 1)


class _Reach:
    """The memory that an access touches in all programs together.

    Attributes:
        base: the address of the first element, but for what `rows` adds.
        rows: the least and the greatest number that is added for a row which memory chooses.
        steps: per outer axis how far its elements are apart, in bytes, and how many there are.
        along: the bytes of a row.
        tags: which axes of the nest those of the access are.
    """

    def __init__(
        self, base: Sum, rows: tuple[Sum, Sum], steps: list[tuple[Sum, int]], along: Sum, tags: object
    ) -> None:
        self.base, self.rows, self.steps, self.along, self.tags = base, rows, steps, along, tags

    def low(self) -> Sum:
        return plus(self.base, self.rows[0], *(least(ZERO, scaled(step, extent - 1)) for step, extent in self.steps))

    def end(self) -> Sum:
        steps = (greatest(ZERO, scaled(step, extent - 1)) for step, extent in self.steps)
        return plus(self.base, self.rows[1], self.along, *steps)

    def is_injective(self) -> Condition:
        """Whether each axis steps over all that the axes behind it go through, and memory chooses no rows."""
        if self.rows != (ZERO, ZERO):
            return either(())
        conditions, span = list[Condition](), self.along
        for step, extent in reversed(self.steps):
            if extent > 1:
                conditions.append(not_negative(minus(size(step), span)))
                span = plus(span, scaled(size(step), extent - 1))
        return every(conditions)


def _reach(forms: ValueForms, op: Load | Store | GuardedStore, motion: Motion, count: Sum) -> _Reach | None:
    """Where `op` reads or writes; None if its addresses are no sums of products.

    Nothing depends on a load without tags, such as that of a in b + a - a.
    """
    form, tags = forms.of(op.pointer), motion.tags.get(op)
    if tags is None or any(table.rest is not None for table in form.terms.values()):
        return None
    rows = _rows(form, motion, tags)
    if rows is None:
        return None
    along, steps, bytes = whole(size_of(op.pointer)), list[tuple[Sum, int]](), size_of(op.pointer)
    for axis, extent in enumerate(form.shape):
        step = _step(form, axis)
        if axis == motion.inner(tags):
            number = step.number
            if number is None or number < 0:
                return None
            along = plus(scaled(times(count, whole(extent)), number), whole(bytes - number))
        else:
            steps.append((step, extent))
    base, is_tagged = start_of(form.terms), is_tile(op.pointer) and rows == (ZERO, ZERO)
    return _Reach(base, rows, steps, along, (tags, bytes) if is_tagged else None)


def _rows(form: Form, motion: Motion, tags: Tags) -> tuple[Sum, Sum] | None:
    """The least and the greatest sum of what lanes have for themselves; None if that is not known, or changes."""
    low = high = ZERO
    for monomial, table in form.terms.items():
        if not is_shared(monomial):
            extent = extent_of_rest(monomial, table)
            if extent is None or not all(motion.of(symbol.source, tags).stays for symbol in monomial):
                return None
            low, high = plus(low, extent.low), plus(high, extent.high)
    return low, high


def _step(form: Form, axis: int) -> Sum:
    return Sum({monomial: table.steps[axis] for monomial, table in form.terms.items() if table.steps[axis]})


def _are_apart(a: _Reach, b: _Reach) -> Condition:
    return either((not_negative(minus(b.low(), a.end())), not_negative(minus(a.low(), b.end()))))


def _are_same(a: _Reach, b: _Reach) -> Condition:
    """Whether both touch the same element at each index, and another one at another index."""
    if a.tags is None or a.tags != b.tags:
        return either(())
    steps = (is_zero(minus(x, y)) for (x, _), (y, _) in zip(a.steps, b.steps, strict=True))
    return every((is_zero(minus(a.base, b.base)), is_zero(minus(a.along, b.along)), *steps, a.is_injective()))
