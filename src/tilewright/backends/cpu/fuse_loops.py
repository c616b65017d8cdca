"""Group the tile ops of each block into loop nests.

    %x = tt.load %p                                  %b = cpu.alloc
    %m = tt.reduce max %x                            cpu.nest {
    %e = math.exp(%x - %m)                             %x = tt.load %p ; %m = tt.reduce max %x
    %s = tt.reduce add %e                       →      %e = math.exp(%x - %m) ; cpu.write %e, %b
    tt.store %q, %e / %s                               %s = tt.reduce add %e ; %f = cpu.read %b
                                                       tt.store %q, %f / %s
                                                     }

Ops are visited in program order. Most are *lazy*: they are copied into each nest that needs them. *Sinks* (reductions,
stores, writes to buffers) need every element: each joins the open nest if it runs over the same rows and uses only the
current row of that nest's own results; otherwise the open nest is closed and a new one opened.

A lazy value that is needed after its nest is closed is written to a buffer there if recomputing it is EXPENSIVE, or if
the nest changes the memory that it reads.

Memory keeps program order. A load after a store of the open nest closes it. A store joins earlier loads and stores only
if its address is base + index · stride, theirs are base + a number per index, no two are `Ordered`, and all are known
before the nest: `add_alias_checks.py` has these compared at run time. Every other load is executed before the store,
into a buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tilewright.analysis.memory_accesses import MemoryAccesses
from tilewright.analysis.memory_dependences import Ordered, dependence
from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.alignment import asks_for_vectors, trades_within_vectors
from tilewright.backends.cpu.costs import (
    ATOMICS,
    EXPENSIVE,
    LOADS,
    is_lazy_tile,
    is_sink,
    is_tile,
    lazy_closure,
    touches_tiles,
    weight,
    where_of,
)
from tilewright.backends.cpu.dot.operands import DotLowering
from tilewright.backends.cpu.fusion_group import FusionGroup, domain_of, erase_dead, reads_elsewhere
from tilewright.backends.cpu.row_numbers import computed_from, parts_to_keep
from tilewright.dialects.cpu import Accumulate, Network, Read, Report, Write, buffer_type
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Scan
from tilewright.dialects.tt_shape import Broadcast, Gather
from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Block, Op, Value, defining, tile_type
from tilewright.ir.declare import Effect
from tilewright.ir.dominance import follows, in_order, is_under
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import is_in

MAX_DEPTH = 100
"""Max def-use depth, in ops, before a value goes through a buffer; planning and emission recurse over operands."""
MAX_ADDRESS_DEPTH = 150
"""The same for addresses, which stay together longer, as lines are seen: at five calls per op Python's limit is 200."""

MOVES = {
    "tt.broadcast": 4,
    "tt.cat": 50,
    "tt.expand_dims": 4,
    "tt.join": 4,
    "tt.reshape": 4,
    "tt.trans": 4,
}
"""The depth of ops that move elements: each asks for other elements, one by one at worst, tt.cat for those of both."""

_WRITES = (Effect.WRITE, Effect.READ_WRITE, Effect.UNKNOWN)


def fuse_loops(module: Op, dots: DotLowering, vector_bits: int) -> None:
    """Group the tile ops of each block into loop nests, for vectors of `vector_bits`, with products as in `dots`."""
    for function in functions_of(module):
        Planner(function.body, dots, MemoryAccesses(), vector_bits).run()


class Planner:
    """Works through one block in program order."""

    def __init__(self, block: Block, dots: DotLowering, accesses: MemoryAccesses, vector_bits: int) -> None:
        self.block = block
        self.dots = dots
        self.accesses = accesses
        self.vector_bits = vector_bits
        self.open: FusionGroup | None = None
        self.done: set[Op] = set()
        self.loads: list[Load | Read] = []
        """Loads of tiles, and reads of buffers, that are done and may be needed again, in order."""
        self.depths: dict[Value, int] = {}
        self.fixed: set[Value] = set()
        """Buffers that are written once, before anything reads them."""
        self.asking: tuple[Op, int] | None = None
        """The op that is being lowered, and the first of its operands that is still to be written."""
        self.traded: set[Value] = set()
        """Lazy tiles for which elements trade places within a vector."""

    def run(self) -> None:
        op = self.block.first
        while op is not None:
            after = op.next
            self.take(op)
            self.meet(op)
            if after is not None and self.is_deep(op):
                self.settle(op.result, after)
            op = after if after is None or after.block is self.block else op.next
        erase_dead(self.block)

    def meet(self, op: Op) -> None:
        """Count `op` from now on as one that came before."""
        if op not in self.done:
            self.done.add(op)
            if isinstance(op, LOADS) and is_tile(op.result):
                self.loads.append(op)

    def is_deep(self, op: Op) -> bool:
        """Whether lazy `op` ends a chain of MAX_DEPTH ops: MAX_ADDRESS_DEPTH of addresses, or tiles in registers."""
        if not (op.results and is_tile(op.results[0]) and is_lazy_tile(op)):
            return False
        depth = MOVES.get(op.name, 1) + max((self.depths.get(v, 0) for v in op.operands), default=0)
        is_end = depth >= MAX_DEPTH and len(op.results) == 1 and (op.definition.elementwise or op.name in MOVES)
        if is_end and (depth >= MAX_ADDRESS_DEPTH or not (op.result in self.traded or is_affine(op.result))):
            depth = 0
        self.depths.update(dict.fromkeys(op.results, depth))
        return not depth

    def take(self, op: Op) -> None:
        if self.traded:
            self.settle_traded(op)
        if isinstance(op, Accumulate):
            self.accumulate(op)
        elif op.regions and not is_sink(op):
            self.enter_regions(op)
        elif isinstance(op, Dot):
            self.dot(op)
        elif isinstance(op, Gather) and weight(op.source):
            self.gather(op)
        elif is_sink(op) and touches_tiles(op):
            self.sink(op)
        elif op.definition.terminator:
            self.close(before=op)
        elif isinstance(op, LOADS) and touches_tiles(op):
            self.load(op)
        elif not is_lazy_tile(op):
            self.effect(op)

    # ------------------------------------------------------------------ one op

    def sink(self, op: Op) -> None:
        if isinstance(op, Write) and self.is_own_value(op):
            op.erase()
            return
        wild, before = self.is_wild(op), self.open
        alone = wild or isinstance(op, (*ATOMICS, Scan))
        if isinstance(op, WritesMemory):
            self.await_operands(op)
            if wild if self.open is before else self.is_wild(op):
                self.settle_operands(op)
        elif isinstance(op, Write) and reads_elsewhere(op, op.buffer):
            self.settle_value(op)
        domain = domain_of(op)
        uneven = [load for v in op.operands for load in self.uneven_loads(v)]
        if self.open is None or not self.open.accepts(op, domain) or self.must_precede(uneven, self.open.sinks):
            self.close(before=op)
            self.open = FusionGroup(domain)
        self.open.add(op)
        self.open.uneven += uneven
        if alone:
            self.meet(op)
            self.close(before=op.next)

    def await_operands(self, op: Op) -> None:
        """Close the open nest if the address or the mask of `op` needs a result of it, or it loads what is changed."""
        nest = self.open
        if nest and (any(nest.needs_pending(v) for v in where_of(op)) or self.must_precede(nest.uneven, [op])):
            self.close(before=op)

    def settle_operands(self, op: WritesMemory) -> None:
        """Make loads happen before the store `op`, into buffers: it may store to memory that is loaded from. Where
        addresses on both sides are known before the loops, their ranges are compared there instead."""
        self.close(before=op)
        for index, value in enumerate(op.operands):
            if is_tile(value) and any(isinstance(o, Load) for o in lazy_closure(value)):
                kept = {v: self.read(self.materialise(v, op), v, op) for v in parts_to_keep(value)}
                op.set_operand(index, computed_from(value, kept, lambda new: self.insert(new, op)))
        self.keep_loads(op)

    def is_wild(self, op: Op) -> bool:
        """Whether `op` changes memory at addresses that are no base + index · stride, or what it has to load before."""
        if not isinstance(op, WritesMemory):
            return False
        changes = isinstance(op, ATOMICS) or not is_affine(op.address)
        return changes or any(self.must_precede(self.uneven_loads(v), [op]) for v in op.operands)

    def settle_value(self, write: Write) -> None:
        """Compute the value in another buffer, where one is written from other elements of itself (x + trans(x))."""
        buffer = self.materialise(write.value, write)
        self.close(before=write)
        write.value = self.read(buffer, write.value, write)

    def uneven_loads(self, value: Value) -> list[Load]:
        """The loads that `value` is computed from whose addresses are no base + index · stride."""
        return [op for op in lazy_closure(value) if isinstance(op, Load) and not is_affine(op.pointer)]

    def must_precede(self, loads: Iterable[Load], ops: Iterable[Op]) -> bool:
        """Whether some of these loads happen before some of the ops begins to store, as no comparison of addresses in
        front of a nest can show that they may share it."""
        stores = [op for op in ops if isinstance(op, WritesMemory)]
        return any(self.are_ordered(load, store) for store in stores for load in loads)

    def are_ordered(self, load: Load, store: WritesMemory) -> bool:
        access = self.accesses.of(load)
        if not (isinstance(store, Store) and access.lanes.are_bounded):
            return True
        return isinstance(dependence(access, self.accesses.of(store), self.accesses), Ordered)

    def is_own_value(self, write: Write) -> bool:
        """Whether a buffer is written with the value that it holds already."""
        read, buffer = defining(write.value, Read), write.buffer
        if read is None or read.buffer is not buffer:
            return False
        return not any(isinstance(u, Write) and u in self.done and follows(u, read) for u in buffer.uses)

    def load(self, op: Load | Read) -> None:
        """A load after a store of the open nest must see what was stored."""
        nest = self.open
        if nest is None:
            return
        if op.buffer in nest.written if isinstance(op, Read) else nest.clobbers:
            self.close(before=op)
        elif isinstance(op, Load):
            self.await_operands(op)

    def effect(self, op: Op) -> None:
        """A scalar op. Only what touches memory, or needs a result of the open nest for good, closes the nest."""
        effect = op.definition.effect
        if effect is Effect.NONE:
            if self.open is not None and any(v in self.open.pending for v in op.operands):
                depth = 1 + max(self.depths.get(v, 0) for v in op.operands)
                self.depths.update(dict.fromkeys(op.results, depth % MAX_DEPTH))
                if depth == MAX_DEPTH:
                    self.close(before=op)
                else:
                    self.open.pending.update(op.results)
            return
        if effect is Effect.READ:
            if self.open is not None and (self.open.clobbers or any(v in self.open.pending for v in op.operands)):
                self.close(before=op)
            return
        if isinstance(op, (Network, Report)):
            self.close(before=op)
        else:
            self.keep_loads(op)

    def keep_loads(self, op: Op) -> None:
        """Before ops that store: make loads whose values are needed later happen now; later ops read the buffer."""
        for value in self.live_loads({op}):
            if defining(value, Load) is not None:
                buffer = self.materialise(value, op)
                self.close(before=op)
                value.replace_by(self.read(buffer, value, op))
        self.close(before=op)

    def enter_regions(self, op: Op) -> None:
        self.keep_captured(op)
        apart = op.attributes.get("apart")  # what is apart changes memory that only such ops read
        inside = [] if apart else [o for o in op.walk() if o is not op]
        if any(o.definition.effect in _WRITES and not o.name.startswith("cpu.") for o in inside):
            self.keep_loads(op)
        for region in op.regions:
            for block in region.blocks:
                inner = Planner(block, self.dots, self.accesses, self.vector_bits)
                inner.fixed = self.fixed
                inner.run()

    def keep_captured(self, op: Op) -> None:
        """Compute before `op`, once, what its regions would have to compute or load again and again."""
        kept = [v for v in self.captured(op) if v in self.traded or weight(v) >= EXPENSIVE or self.reads_memory(v)]
        for value in in_order(kept, op):
            self.read_inside(value, op)
        self.close(before=op)

    def accumulate(self, op: Accumulate) -> None:
        """A loop that only reads memory begins a nest of its own, which no store joins."""
        self.keep_captured(op)
        self.open = FusionGroup(domain_of(op))
        self.open.add(op)
        self.done.update(op.walk())

    def dot(self, op: Dot) -> None:
        if self.open is not None and self.open.clobbers:
            self.close(before=op)
        self.meet(op)
        self.dots.lower(op, self)

    def gather(self, op: Gather) -> None:
        """Any element of the source may be asked for, so it lies in memory; later uses read it from there too.

        Partners in one vector trade places there, but for those of memory that a store of the nest may change.
        """
        if trades_within_vectors(op, self.vector_bits) and not self.reads_memory(op.source):
            self.traded.add(op.result)
        else:
            self.settle(op.source, op)

    def settle_traded(self, op: Op) -> None:
        """Put tiles whose elements trade places within vectors into buffers, if `op` asks for other elements."""
        if self.traded.isdisjoint(op.operands):
            return
        if op.definition.elementwise:
            self.traded.update(op.results)
        elif not asks_for_vectors(op):
            for value in self.traded.intersection(op.operands):
                if not (isinstance(op, Gather) and value is op.source):
                    self.settle(value, op)

    def settle(self, value: Value, before: Op) -> None:
        """Compute all of `value` now; later ops read it in a buffer."""
        buffer = self.materialise(value, before)
        read = self.read(buffer, value, before)
        value.replace_in((u for u in value.uses if u not in self.done and is_under(u, self.block)), read)
        self.close(before=read.op)

    # ------------------------------------------------------------------ buffers

    def materialise(self, value: Value, before: Op, *, elide_copy: bool = False) -> Value:
        """The buffer that holds `value` once the nest that is open then is closed.

        With `elide_copy`, its only user is content with the memory that `value` was loaded from.
        """
        read = defining(value, Read)
        if read is not None and read.buffer in self.fixed:
            return read.buffer
        buffer = self.allocate(value, before)
        self.fixed.add(buffer)
        self.write(value, buffer, before, elide_copy=elide_copy)
        return buffer

    def allocate(self, value: Value, before: Op) -> Value:
        alloc = Op.create("cpu.alloc", (), (buffer_type(tile_type(value)),), location=before.location)
        alloc.result.name = value.name
        return self.insert(alloc, before).result

    def write(self, value: Value, buffer: Value, before: Op, *, elide_copy: bool = False) -> None:
        """Write `value` to `buffer` in the open nest, or in a new one."""
        attributes: dict[str, Attribute] = {"elide_copy": True} if elide_copy else {}
        write = Op.create("cpu.write", (value, buffer), (), attributes, location=before.location)
        self.sink(self.block.insert(write, before))  # which may close a nest that computes what is written
        self.meet(write)

    def read(self, buffer: Value, value: Value, before: Op) -> Value:
        """Read what `buffer` holds of `value`."""
        return self.insert(Op.create("cpu.read", (buffer,), (value.type,), location=before.location), before).result

    def insert(self, op: Op, before: Op) -> Op:
        assert before.block is self.block
        self.meet(op)
        return self.block.insert(op, before)

    def read_inside(self, value: Value, op: Op) -> None:
        """Let the regions of `op` read a buffer where they use `value`; what is broadcast is in it once."""
        repeated = defining(value, Broadcast)
        source = value if repeated is None else repeated.source
        inside = self.read(self.materialise(source, op), source, op)
        if repeated is not None:
            inside = self.insert(repeated.clone({source: inside}), op).result
        inside.name = value.name
        value.replace_in((u for u in value.uses if u is not op and is_in(u, op)), inside)

    # ------------------------------------------------------------------ closing

    def close(self, before: Op | None) -> None:
        """End the open nest: build it before `before`, and keep in buffers what is needed later."""
        nest = self.open
        if nest is None:
            return
        assert before is not None, "a block ends with its terminator"
        self.open = None
        for value in () if nest.may_be_skipped else self.needed_from(nest):
            buffer = self.allocate(value, before)
            self.fixed.add(buffer)
            if nest.fits(value) and not self.must_precede(self.uneven_loads(value), nest.sinks):
                nest.keep(value, buffer)
            else:
                self.write_first(value, buffer, before)
        nest.build(before)
        self.mark_done(before)

    def write_first(self, value: Value, buffer: Value, before: Op) -> None:
        """Write `value` to `buffer` in a nest of its own, before the one being closed."""
        write = self.insert(Op.create("cpu.write", (value, buffer), location=before.location), before)
        own = FusionGroup(domain_of(write))
        own.add(write)
        own.build(before)
        value.replace_by(self.read(buffer, value, before))

    def mark_done(self, before: Op) -> None:
        """Count the nest, its reads and the ops it was built from as met."""
        op, made = before.previous, []
        while op is not None and op not in self.done:
            made.append(op)
            op = op.previous
        for op in reversed(made):
            self.meet(op)

    def needed_from(self, nest: FusionGroup) -> list[Value]:
        """Values to keep in buffers when `nest` closes, each before those that it is computed from."""
        kept: list[Value] = []
        again: set[Value] = set()
        inside = nest.lazy_values()
        own, asked, dead = set(inside), self.asked(), set[Value]()
        for value in reversed(inside):
            if value.op not in self.done:  # it belongs to a block around this one
                continue
            if value not in asked and not any(self.is_later_use(u, own, again, dead) for u in reversed(value.uses)):
                continue
            if self.is_kept(value, nest) and (nest.fits(value) or not nest.needs_pending(value)):
                kept.append(value)
            else:
                again.add(value)
        if not (nest.clobbers or nest.written):
            return kept
        return kept + [v for v in self.live_loads() if v not in own and self.is_changed_by(v, nest)]

    def is_kept(self, value: Value, nest: FusionGroup) -> bool:
        """Whether `value`, which is needed after `nest`, is written to a buffer there, and not computed again."""
        if not is_tile(value) or _is_read_of(value, self.fixed):
            return False
        return value.op in nest.sinks or weight(value) >= EXPENSIVE or self.is_changed_by(value, nest)

    def is_later_use(self, user: Op, own: set[Value], again: set[Value], dead: set[Value]) -> bool:
        """Whether `user` is still to come, or is computed again: of the nest's `own` values, those in `again`."""
        if user not in self.done:
            return True
        if not is_lazy_tile(user):
            return False
        return any(r in again if r in own else self.is_live(r, (), dead) for r in user.results)

    def is_changed_by(self, value: Value, nest: FusionGroup) -> bool:
        """Whether `value` is itself a load of memory, or a read of a buffer, that `nest` writes."""
        op = value.op
        if not isinstance(op, LOADS) or _is_read_of(value, self.fixed):
            return False
        return op.buffer in nest.written if isinstance(op, Read) else nest.clobbers

    def live_loads(self, finished: Collection[Op] = ()) -> list[Value]:
        """The results of `loads` that are live, last first. What is not live now never will be, and is forgotten."""
        dead: set[Value] = set()
        self.loads = [op for op in self.loads if self.is_live(op.result, (), dead)]
        found = [op.result for op in reversed(self.loads)]
        return self.live_values(found, finished) if finished else found

    def live_values(self, values: Iterable[Value], finished: Collection[Op]) -> list[Value]:
        """Those of `values`, results of ops met so far, that ops still to come need, not counting `finished`."""
        dead: set[Value] = set()
        return [value for value in values if value.op in self.done and self.is_live(value, finished, dead)]

    def is_live(self, value: Value, finished: Collection[Op], dead: set[Value]) -> bool:
        """Whether an op to come, none of `finished`, needs `value`, directly or by lazy ops; `dead` are not needed."""
        stack, seen, asked = [value], set[Value](), self.asked()
        while stack:
            value = stack.pop()
            if value in asked:
                return True
            if value in seen or value in dead:
                continue
            seen.add(value)
            for user in reversed(value.uses):  # those to come are among the last, as a rule
                if user in self.done:
                    stack.extend(user.results if is_lazy_tile(user) else ())
                elif user not in finished:
                    return True
        dead |= seen
        return False

    def asked(self) -> list[Value]:
        """Operands of the op that is being lowered which are still to be written."""
        return [] if self.asking is None else list(self.asking[0].operands[self.asking[1] :])

    def captured(self, op: Op) -> set[Value]:
        """Lazy tiles of this block that the regions of `op` use."""
        inside = (v for inner in op.walk() if inner is not op for v in inner.operands)
        return {v for v in inside if is_tile(v) and v.op in self.done}

    def reads_memory(self, value: Value) -> bool:
        """Whether computing `value` loads from memory, or from a buffer that changes."""
        return any(isinstance(o, LOADS) and not _is_read_of(o.result, self.fixed) for o in lazy_closure(value))


def _is_read_of(value: Value, buffers: set[Value]) -> bool:
    return isinstance(value.op, Read) and value.op.buffer in buffers
