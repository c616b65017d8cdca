"""Prefetching of dot operands: those of the next iteration are loaded from shared memory during the dot.

    scf.for … {                                            %a0 = the first 16 columns of %a, before the loop
      %x = ttg.local_load %a    (128x32)                   scf.for … iter_args(%p = %a0) {
      %d = tt.dot %x, …                                      %q = the other 16 columns of %a
      scf.yield %next_a, %d                      ->          %d0 = tt.dot %p, …
    }                                                        %p1 = the first 16 columns of %next_a
                                                             %d = tt.dot %q, …, %d0
                                                             scf.yield %next_a, %d, %p1
                                                           }

The last dot is placed as late as possible, so that everything after it in the loop is issued before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.analysis.buffer_aliases import shared_accesses
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.ttg_async import AsyncWait
from tilewright.dialects.ttg_memory import LocalLoad, MemDescIndex
from tilewright.dialects.ttng_descriptors import DescriptorCopy
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Block, Op, Value, buffer_type, tile_type
from tilewright.ir.types import MemDescType, TensorType, i32
from tilewright.layouts.encodings import AmdMfma, DotOperand, Encoding, NvidiaMma, encoding
from tilewright.layouts.queries import cga_layout
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.matrix_instructions import ROW_BITS
from tilewright.transforms.gpu.tile_ops import layout_as, layout_of
from tilewright.transforms.matching import following
from tilewright.transforms.op_builder import OpBuilder

REPEATED = (AsyncWait, MemDescIndex, Constant)
"""Ops beside element-wise ones that may be done once more, for the previous iteration."""


@dataclass(frozen=True)
class Operand:
    """An operand of a dot as it comes from shared memory.

    Attributes:
        index: 0 or 1.
        buffer: what it is loaded from.
        token: what its load waits for, if anything.
        load: the load.
        chain: element-wise ops between the load and the dot, in order.
    """

    index: int
    buffer: Value
    token: Value | None
    load: LocalLoad
    chain: tuple[Op, ...]


def prefetch(module: Op) -> bool:
    """Rewrite the loops of `module` with one dot whose operands come from shared memory."""
    changed = False
    for loop in [op for op in module.walk() if isinstance(op, For)]:
        prefetcher = _prefetcher_for(loop)
        if prefetcher is not None:
            prefetcher.run()
            changed = True
    return changed


def _prefetcher_for(loop: For) -> Prefetcher | None:
    dots = [op for op in loop.body if isinstance(op, Dot)]
    if len(dots) != 1 or any(isinstance(op, DescriptorCopy) for op in loop.body):
        return None
    dot = dots[0]
    if not _is_sliced(layout_of(dot.result)):
        return None
    a, b = (_operand(value, index) for index, value in enumerate((dot.a, dot.b)))
    layout, type = layout_as(dot.a, DotOperand), tile_type(dot.a)
    width = 8 * layout.k_width or ROW_BITS // type.bits
    if a is None or b is None or type.shape[-1] < width:
        return None
    if any(_is_shared_by_blocks(part.buffer) or _is_written(part.buffer) for part in (a, b)):
        return None
    carried = all(_position(loop, part.buffer) is not None for part in (a, b))
    tracked = [value for part in (a, b) for value in (part.buffer, part.token) if value is not None]
    has_token = a.token is not None or b.token is not None
    if carried or (has_token and all(_can_be_repeated(loop, value) for value in tracked)):
        return Prefetcher(loop, dot, (a, b), width)
    return None


def _is_sliced(layout: Encoding) -> bool:
    """Whether an instruction takes part of K, from registers."""
    return isinstance(layout, AmdMfma) or (isinstance(layout, NvidiaMma) and layout.version_major == 2)


def _operand(value: Value, index: int) -> Operand | None:
    chain: list[Op] = []
    while (op := value.op) is not None and sum(op.results[0].uses.values()) == 1:
        if isinstance(op, LocalLoad):
            if not isinstance(layout_of(op.result), DotOperand):
                return None
            return Operand(index, op.buffer, op.token, op, tuple(reversed(chain)))
        if len(op.operands) != 1:
            return None
        chain.append(op)
        (value,) = op.operands
    return None


def _is_shared_by_blocks(buffer: Value) -> bool:
    """Whether several blocks have the same part of it."""
    return any(not any(row) for row in cga_layout(encoding(buffer_type(buffer).encoding)))


def _is_written(buffer: Value) -> bool:
    """Whether the loop fills the buffer that it loads from, so that nothing may be loaded an iteration ahead."""
    accesses = (access for user in buffer.uses for access in shared_accesses(user))
    return any(access.is_write and access.value is buffer for access in accesses)


def _position(loop: For, value: Value) -> int | None:
    """The position of `value` among the values that `loop` carries; None if it is none of them."""
    return value.index - 1 if value.owner is loop.body and value.index else None


def _can_be_repeated(loop: For, value: Value) -> bool:
    """Whether what computes `value` in `loop` may be computed for another iteration as well."""
    op = value.op
    if op is None or op.block is not loop.body:
        return True
    if op.regions or not (op.definition.elementwise or isinstance(op, REPEATED)):
        return False
    return all(_can_be_repeated(loop, used) for used in op.operands)


class Prefetcher:
    """Rewrites one loop with one dot, in place; each partial dot takes `width` of K."""

    def __init__(self, loop: For, dot: Dot, parts: tuple[Operand, Operand], width: int) -> None:
        self.loop, self.dot, self.parts, self.width = loop, dot, parts, width
        self.body = loop.body
        self.yielded = list(loop.yielded)

    def run(self) -> None:
        """Rewrite the loop."""
        place = OpBuilder(self.loop)
        known: dict[Value, Value] = {}
        starts, heads = [], []
        for part in self.parts:
            first = self._at_start(part, place, known)
            starts.append(first)
            heads.append(self._slice(first, 0, place))
        followed = self._carry_tracked(starts)
        arguments = [add_carried(self.loop, head) for head in heads]
        last = self._split_dot(arguments, followed)
        self._load_next_heads(self._delay(last))
        _erase_dead(self.body)

    # Before the loop

    def _at_start(self, part: Operand, place: OpBuilder, known: dict[Value, Value]) -> Operand:
        """`part` as the first iteration of the loop finds it."""
        initial = dict(zip(self.body.args, (self.loop.low, *self.loop.inits), strict=True))
        token = self._repeated(part.token, place, initial, known) if part.token is not None else None
        buffer = self._repeated(part.buffer, place, initial, known)
        return replace(part, buffer=buffer, token=token)

    def _repeated(
        self, value: Value, place: OpBuilder, arguments: dict[Value, Value], known: dict[Value, Value]
    ) -> Value:
        """`value` recomputed, with other values for the arguments of the loop's body."""
        if value in known:
            return known[value]
        op = value.op
        if op is None or op.block is not self.body:
            return arguments.get(value, value)
        mapping = {used: self._repeated(used, place, arguments, known) for used in op.operands}
        copy = place.insert(op.clone(mapping))
        known.update(zip(op.results, copy.results, strict=True))
        return known[value]

    def _carry_tracked(self, starts: list[Operand]) -> list[Operand]:
        """The parts with buffers and tokens that the loop carries, which it now does where it did not."""
        buffers = [self._carried(part.buffer, start.buffer) for part, start in zip(self.parts, starts, strict=True)]
        tokens = [
            self._carried(part.token, start.token) if part.token is not None and start.token is not None else None
            for part, start in zip(self.parts, starts, strict=True)
        ]
        return [
            replace(part, buffer=buffer, token=token)
            for part, buffer, token in zip(self.parts, buffers, tokens, strict=True)
        ]

    def _carried(self, value: Value, start: Value) -> Value:
        return value if _position(self.loop, value) is not None else add_carried(self.loop, start)

    # In the loop

    def _slice(self, part: Operand, offset: int, place: OpBuilder) -> Value:
        """A part of `width` along K of an operand, from `offset` on, through the element-wise ops of its chain."""
        type = buffer_type(part.buffer)
        axis = len(type.shape) - 1 - part.index
        shape = (*type.shape[:axis], self.width, *type.shape[axis + 1 :])
        offsets = tuple(offset if dim == axis else 0 for dim in range(len(shape)))
        view = MemDescType(shape, type.element, type.encoding, type.space, type.mutable, type.alloc_shape)
        place.location = part.load.location
        slice_ = place.emit("ttg.memdesc_subslice", (part.buffer,), view, {"offsets": DenseArray(i32, offsets)})
        parent = layout_of(self.dot.result)
        assert isinstance(parent, NvidiaMma | AmdMfma), "a matrix instruction"
        layout = DotOperand(part.index, parent, self.width // 8)
        operands = [slice_, *([part.token] if part.token is not None else [])]
        value = place.emit("ttg.local_load", operands, TensorType(shape, type.element, layout.text))
        for op in part.chain:
            (taken,) = op.operands
            copy = place.insert(op.clone({taken: value}))
            copy.result.type = TensorType(shape, copy.result.type.scalar, layout.text)
            value = copy.result
        return value

    def _split_dot(self, heads: list[Value], parts: list[Operand]) -> Op:
        """The dot as partial dots, of which the first takes loaded operands; returns the last one."""
        place = OpBuilder(self.dot)
        type, accumulator = tile_type(self.dot.a), self.dot.accumulator
        step, operands = self.dot, heads
        for offset in range(self.width, type.shape[-1] + self.width, self.width):
            # The operands of the next partial dot are loaded during this one, and no earlier: they need registers.
            following = [self._slice(part, offset, place) for part in parts] if offset < type.shape[-1] else []
            step = self.dot.clone()
            step.set_operands([*operands, accumulator])
            place.insert(step)
            accumulator, operands = step.result, following
        step.result.name = self.dot.result.name
        after = self.dot.next
        self.dot.replace([step.result])
        step.unlink()
        self.body.insert(step, after)
        return step

    def _delay(self, last: Op) -> OpBuilder:
        """Move the last partial dot after ops that do not need it; returns where the loads of the next iteration go."""
        end = self.body.terminator
        place = next(op for op in following(last) if op.regions or last.result in op.operands or op is end)
        last.unlink()
        self.body.insert(last, place)
        return OpBuilder(last if place is end else end)

    def _load_next_heads(self, place: OpBuilder) -> None:
        counter, end = self.loop.induction_variable, self.body.terminator
        arguments: dict[Value, Value] = dict(zip(self.loop.carried, end.operands, strict=False))
        place.location = self.loop.location
        arguments[counter] = place.compute("arith.addi", counter, self.loop.step)  # erased if no buffer needs it
        known: dict[Value, Value] = {}
        following = []
        for part in self.parts:
            buffer = self._repeated(part.buffer, place, arguments, known)
            token = self._repeated(part.token, place, arguments, known) if part.token is not None else None
            following.append(replace(part, buffer=buffer, token=token))
        tokens = [new.token for part, new in zip(self.parts, following, strict=True) if self._was_added(part.token)]
        buffers = [new.buffer for part, new in zip(self.parts, following, strict=True) if self._was_added(part.buffer)]
        heads = [self._slice(part, 0, place) for part in following]
        end.set_operands([*end.operands, *buffers, *(token for token in tokens if token is not None), *heads])

    def _was_added(self, value: Value | None) -> bool:
        """Whether the loop carries `value` only now."""
        return value is not None and _position(self.loop, value) is None


def _erase_dead(body: Block) -> None:
    """Erase loads of whole operands, and what computed them from there, that have no uses left."""
    for op in reversed(list(body)):
        removable = isinstance(op, LocalLoad) or op.definition.elementwise
        if removable and op.results and not any(result.uses for result in op.results):
            op.erase()
