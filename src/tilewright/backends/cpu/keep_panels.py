"""The packed B of a loop of products is kept for the next programs that multiply by the same matrix.

    scf.for %k = … {                          scf.for %k = … {
      "cpu.matmul"(%a, %b, %c, …)        →      %kept = … the key of this iteration is %b, %stride, …
    }                                           "cpu.matmul"(%a, %b, %c, …, %panels, %kept) <{keeps = true}>
                                                scf.if not %kept { … the key becomes %b, %stride, … }
                                              }

Each iteration has a slot for its panels, and a key: the address of B, and all scalars that packing depends on. An
iteration with an equal key packs nothing, and prefetches the slot of the next iteration instead of that one's B.
Iterations beyond the last slot, those whose B was copied, and those after an iteration without a key use a slot without
one.

The addresses that the function stores to are compared with the range that all panels come from: if they overlap, all
keys become invalid. So are they before the first program that a thread runs of a launch. The pass leaves functions
alone that write memory in any other way, or read what others may have written meanwhile.

If programs do not share B, slots only occupy cache: once more successive iterations than twice the slots found no key,
all panels go to the slot without one. They do so from the start in a launch of one program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, reduce
from typing import NamedTuple

from tilewright.analysis.memory_accesses import MemoryAccesses
from tilewright.backends.cpu.allocate_buffers import arena_bytes, bytes_of
from tilewright.backends.cpu.computed_right import ComputedRight, Span, computed_right, span_of, taken_out
from tilewright.backends.cpu.dot.lower import kept_bytes
from tilewright.backends.cpu.dot.packing_choice import packing_pays_off
from tilewright.backends.cpu.dot.spec import spec_of_matmul
from tilewright.backends.cpu.guard_ops import GuardOps
from tilewright.backends.cpu.loop_builder import LoopBuilder, known
from tilewright.backends.cpu.merge_iterations import in_place, merged_iterations
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import Alloc, Clip, GuardedStore, Matmul, Write, buffer_type
from tilewright.dialects.scf import For, While
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import Effect, OpDefinition
from tilewright.ir.types import PointerType, TensorType, i1, i8, i32, i64
from tilewright.transforms.functions import functions_of

ITERATIONS, MISSES, KEYS = 16, 24, 64
"""Places in the state of a product, in bytes: the number of iterations that have keys, that of iterations in a row that
found none, and the first key."""
RANGES = (0, 8), (32, 40), (48, 56)
"""Places of the ends of the ranges that panels come from, one for each load of a B that is computed."""
KEY_BYTES = 32
"""Distance of keys: an address and up to three numbers."""
MIN_SLOTS, MAX_SLOTS = 2, 128
"""The least and the greatest number of iterations that have a slot."""
MIN_BYTES = 4096
"""Min size of panels that are not packed row by row, in bytes: to pack less takes hardly longer than to look for it."""


class _Product(NamedTuple):
    """A product in a loop: the iteration that it belongs to is counted, and its B may be read in place.

    Attributes:
        loop: the loop around, whose body the product stands in.
        op: the product.
        in_place: an i1, whether B is read in the program's memory; None: always.
        bytes: what its packed B takes.
        computed: what a B is computed from that does not lie in the program's memory; None: it does.
    """

    loop: For
    op: Matmul
    in_place: Value | None
    bytes: int
    computed: ComputedRight | None = None


def keep_panels(module: Op, target: Target) -> bool:
    """Make products of `module` (vector loops) keep their packed B; returns whether any do."""
    functions = functions_of(module)
    if len(functions) != 1:
        return False
    (function,) = functions
    products = list(_products(function, target))
    written = _written(function) if products else None
    if written is None:
        return False
    room = target.costs.kept_panels // len(products)
    kept = [product for product in products if room // product.bytes >= MIN_SLOTS]
    for product in kept:
        _Keeper(function, target, product, min(room // product.bytes, MAX_SLOTS), arena_bytes(module)).keep(written)
    return bool(kept)


def _products(function: Func, target: Target) -> Iterator[_Product]:
    """The products whose B can be kept."""
    for op in function.ops_of(Matmul):
        loop, spec = op.parent, spec_of_matmul(op)[0]
        if not isinstance(loop, For) or (known(loop.step) or 0) <= 0:
            continue
        place, size = in_place(op.b, function), kept_bytes(spec, target)
        if place is not None and _pays_off(op, loop, size, target):
            yield _Product(loop, op, *place, size)
        elif place is None and (size := kept_bytes(spec, target, computed=True)) >= MIN_BYTES:
            computed = computed_right(op, loop, function)
            if computed is not None:
                yield _Product(loop, op, None, size, computed)


def _pays_off(op: Matmul, loop: For, size: int, target: Target) -> bool:
    """Whether looking for `size` bytes of panels takes less time than packing them."""
    if op.b_transposed or known(op.b_step) != 1:
        return size >= MIN_BYTES
    return size >= target.costs.kept_rows and _is_alone(op, loop)


def _is_alone(op: Matmul, loop: For) -> bool:
    """Whether the loop has no other product, whose rows would want the caches, too."""
    return loop.body.ops_of(Matmul) == [op]


def _written(function: Func) -> list[Span] | None:
    """The places that the function stores to; None if unknown them, or if others may write what it reads."""
    found, accesses = list[Span](), MemoryAccesses()
    for op in function.walk():
        if isinstance(op, (Store, GuardedStore)):
            place = span_of(op, accesses)
            if place is None:
                return None
            found.append(place)
        elif not _is_local(op):
            return None
    return found


def _is_local(op: Op) -> bool:
    """Whether `op` writes no memory but buffers, and no result of it says what others did."""
    return not op.is_volatile if isinstance(op, Load) else _are_local(op.definition)


@cache
def _are_local(definition: OpDefinition) -> bool:
    """`_is_local` for all ops of a kind."""
    kind = definition.kind or Op
    if issubclass(kind, (Write, Clip, Matmul, Alloc)) or definition.terminator or definition.symbol:
        return True
    is_known = definition.effect_of is None and not issubclass(kind, While)
    return is_known and definition.effect in (Effect.NONE, Effect.READ, Effect.RECURSIVE)


@dataclass(frozen=True)
class _Keeper:
    """Writes what keeps the B of a product.

    Attributes:
        slots: the iterations that have a key.
        offset: where the arena is free.
    """

    function: Func
    target: Target
    product: _Product
    slots: int
    offset: int

    def keep(self, written: list[Span]) -> None:
        """Give the product its slots and keys, and let none count any more where it might not be true."""
        b = LoopBuilder(Block(), entry=self.function.body)
        b.location = self.product.op.location
        state, panels = self._buffers(b)
        for store in written:
            self._forget_what_is_written(b, state, store)
        self._look_up(b, state, panels)

    def _buffers(self, b: LoopBuilder) -> tuple[Value, Value]:
        """The state and the panels, at the start of the function; the first program begins without keys."""
        size = KEYS + self.slots * KEY_BYTES
        start = next(op for op in self.function.body if not op.definition.constant)
        with b.before(start):
            state, panels = self._buffer(b, self.offset, size), self._buffer(b, self.offset + size, self._bytes)
            with b.branch(b.emit("cpu.is_first", (), i1), unlikely=True) as branch, branch.then():
                self._forget(b, state)
                misses = b.select(self._has_next(b), b.constant(0, i64), self._max_misses + 1)
                b.store(misses, state, MISSES, align=8)
        return state, panels

    def _has_next(self, b: LoopBuilder) -> Value:
        """An i1: the launch has another program."""
        x, y, z = (b.emit("tt.get_num_programs", (), i32, {"axis": Keyword(axis)}) for axis in "xyz")
        return b.compare("ne", b.mul(b.mul(x, y), z), 1)

    @property
    def _max_misses(self) -> int:
        return 2 * self.slots

    @property
    def _bytes(self) -> int:
        return (self.slots + self._spare) * self.product.bytes

    @property
    def _spare(self) -> int:
        """The slots without a key: as many as iterations may be multiplied at once, a power of two."""
        return merged_iterations(self.product.op, self.product.loop, self.function, self.target)

    def _buffer(self, b: LoopBuilder, offset: int, size: int) -> Value:
        attributes = {"offset": Number(offset, i64), "outlives": True}
        return b.pointing(b.emit("cpu.alloc", (), buffer_type(TensorType((size,), i8)), attributes), i8)

    def _forget_what_is_written(self, b: LoopBuilder, state: Value, written: Span) -> None:
        """Before a nest that stores, compare where with the range that panels come from."""
        writer = GuardOps(written.nest, {})
        low, high = writer.value(written.low), writer.value(written.high)
        with b.before(written.nest):
            met = [self._meets(b, state, places, (low, high)) for places in self._ranges]
            with b.branch(reduce(b.or_, met), unlikely=True) as branch, branch.then():
                self._forget(b, state)

    def _meets(self, b: LoopBuilder, state: Value, places: tuple[int, int], ends: tuple[Value, Value]) -> Value:
        """An i1: one of the ranges that panels come from has addresses between `ends`."""
        ends_after = b.compare("slt", b.load(i64, state, places[0], align=8), ends[1])
        begins_before = b.compare("slt", ends[0], b.load(i64, state, places[1], align=8))
        return b.and_(ends_after, begins_before)

    @property
    def _ranges(self) -> tuple[tuple[int, int], ...]:
        computed = self.product.computed
        return RANGES[: 1 if computed is None else len(computed.spans)]

    def _forget(self, b: LoopBuilder, state: Value) -> None:
        """Let no key count any more."""
        for low, high in self._ranges:
            b.store(b.constant((1 << 63) - 1, i64), state, low, align=8)
            b.store(b.constant(0, i64), state, high, align=8)
        b.store(b.constant(0, i64), state, ITERATIONS, align=8)

    def _look_up(self, b: LoopBuilder, state: Value, panels: Value) -> None:
        """Look for the key of this iteration before the product, and write it behind."""
        loop, op, in_place, size, computed = self.product
        with b.before(op):
            count = b.sub(loop.induction_variable, loop.low)
            iteration = b.extend(b.udiv(count, loop.step), i64, signed=False)
            iterations, misses = b.load(i64, state, ITERATIONS, align=8), b.load(i64, state, MISSES, align=8)
            follows = b.compare("sle", iteration, b.smin(iterations, self.slots - 1))
            here = b.and_(follows, b.compare("sle", misses, self._max_misses))
            packs = packing_pays_off(b, spec_of_matmul(op)[0], self.target)
            for condition in (in_place, packs):
                here = here if condition is None else b.and_(here, condition)
            slot = b.select(here, iteration, b.add(b.and_(iteration, self._spare - 1), self.slots))
            key, words = b.offset(state, b.mul(b.select(here, iteration, 0), KEY_BYTES)), self._key(b)
            kept = b.and_(here, b.compare("slt", iteration, iterations))
            for place, word in enumerate(words):
                kept = b.and_(kept, b.compare("eq", b.load(i64, key, KEYS + 8 * place, align=8), word))
            op.keep(b.offset(panels, b.mul(slot, size)), kept)
            sources = list[tuple[Value, Value]]()
            if computed is not None:
                writer = GuardOps(computed.nest, {})
                sources = [(writer.value(span.low), writer.value(span.high)) for span in computed.spans]
                with b.branch(kept) as branch, branch.otherwise():
                    b.append(taken_out(computed))
            self._ask_for_panels(b, b.offset(panels, b.mul(b.add(slot, 1), size)), kept)
        with b.before(op.next):
            self._note(b, state, key, words, (iteration, here, kept), sources)

    def _ask_for_panels(self, b: LoopBuilder, following: Value, kept: Value) -> None:
        """Let a product that asks for the next B ask for the panels that follow, where it finds its own."""
        op = self.product.op
        if 1 in op.asked_operands and (0 in op.asked_operands or self.product.computed is None):
            number = list(op.asked_operands).index(1)
            first = len(op.operands) - len(op.soon) + 2 * number
            place, stride = op.operands[first : first + 2]
            row = b.number(op.soon_extents[3 * number + 2])
            panels = b.select(kept, following, place), b.select(kept, row, stride)
            op.set_operands([*op.operands[:first], *panels, *op.operands[first + 2 :]])

    def _key(self, b: LoopBuilder) -> list[Value]:
        """All that the panels depend on, apart from memory, and that may differ from iteration to iteration."""
        computed = self.product.computed
        if computed is None:
            return _key(b, self.product.op)
        return [
            b.address(v) if isinstance(v.type, PointerType) else b.extend(v, i64) if v.type is not i64 else v
            for v in computed.numbers
        ]

    def _note(
        self,
        b: LoopBuilder,
        state: Value,
        key: Value,
        words: list[Value],
        found: tuple[Value, Value, Value],
        sources: list[tuple[Value, Value]],
    ) -> None:
        """Write down what an iteration left in its slot."""
        iteration, here, kept = found
        misses = b.add(b.load(i64, state, MISSES, align=8), 1)
        b.store(b.select(kept, 0, misses), state, MISSES, align=8)
        with b.branch(b.and_(here, b.xor(kept, 1))) as branch, branch.then():
            iterations = b.smax(b.load(i64, state, ITERATIONS, align=8), b.add(iteration, 1))
            b.store(iterations, state, ITERATIONS, align=8)
            for place, word in enumerate(words):
                b.store(word, key, KEYS + 8 * place, align=8)
            for (low, high), ends in zip(self._ranges, sources or [_ends(b, self.product.op, words[0])], strict=True):
                b.store(b.smin(b.load(i64, state, low, align=8), ends[0]), state, low, align=8)
                b.store(b.smax(b.load(i64, state, high, align=8), ends[1]), state, high, align=8)


def _key(b: LoopBuilder, op: Matmul) -> list[Value]:
    """All that the panels depend on, apart from memory, and that may differ from iteration to iteration.

    Which rows and columns count decides only whether there are panels.
    """
    numbers = (op.b_stride, op.b_step, op.depth)
    return [b.address(op.b), *(number for number in numbers if known(number) is None)]


def _ends(b: LoopBuilder, op: Matmul, address: Value) -> tuple[Value, Value]:
    """The addresses between which B lies."""
    (_, n, k), size = op.shape, bytes_of(spec_of_matmul(op)[0].b_type)
    rows, columns = (n, k) if op.b_transposed else (k, n)
    spans = [b.mul(op.b_stride, (rows - 1) * size), b.mul(op.b_step, (columns - 1) * size)]
    zero, low, high = b.number(0), address, b.add(address, size)
    for span in spans:
        low, high = b.add(low, b.smin(span, zero)), b.add(high, b.smax(span, zero))
    return low, high
