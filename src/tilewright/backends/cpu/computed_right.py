"""Right operands that a nest computes from memory and scalars, such as a converted or a scaled matrix.

    "cpu.nest"() … {                                     "cpu.nest"() … {
      "cpu.write"(A's elements, %a)                        "cpu.write"(A's elements, %a)
      "cpu.write"(tt.load %p · tt.load %s, %b)     →     }
    }                                                    scf.if not %kept {
    "cpu.matmul"(%a, %b, %c, …)                            "cpu.nest"() … { "cpu.write"(tt.load %p · tt.load %s, %b) }
                                                         }
                                                         "cpu.matmul"(%a, %b, %c, …, %panels, %kept)

Equal scalars and the same memory give the same matrix: `keep_panels` compares the scalars, and checks whether anything
has been stored to the memory of the loads. Scalars that are the same in a whole launch need no comparison.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.guard_conditions import Extreme, Part, Scaled, Sum, plus
from tilewright.analysis.memory_accesses import MemoryAccesses, root_of
from tilewright.analysis.value_flow import backward_slice
from tilewright.backends.cpu.merge_iterations import users_of
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.cpu import Alloc, GuardedStore, Matmul, Nest, Write
from tilewright.dialects.scf import For
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.types import IntType, PointerType

NUMBERS, LOADS = 4, 3
"""Max numbers that are compared, and places that it is looked after."""
OF_LAUNCH = "tt.get_num_programs"
"""The op whose results are the same for all programs of a launch."""


class Span(NamedTuple):
    """The addresses between which an op in a nest accesses memory."""

    nest: Nest
    low: Sum
    high: Sum


class ComputedRight(NamedTuple):
    """A right matrix that is computed.

    Attributes:
        nest, write: what computes it.
        numbers: integers and addresses that it depends on and that are not the same in the whole launch.
        spans: where it is loaded from.
    """

    nest: Nest
    write: Write
    numbers: tuple[Value, ...]
    spans: tuple[Span, ...]


def computed_right(op: Matmul, loop: For, function: Func) -> ComputedRight | None:
    """The nest in the body of `loop` that computes B for `op` alone, and what from; None if unknown."""
    write = _only_write(op)
    nest = None if write is None else write.parent
    if write is None or not isinstance(nest, Nest) or nest.block is not loop.body or not _only_writes(nest):
        return None
    made = _makers(write, nest)
    if not all(_is_told(op) for op in made) or _stores_between(nest, op):
        return None
    used = dict.fromkeys(value for op in (*made, write) for value in op.operands if value is not write.buffer)
    numbers = tuple(v for v in used if not _in(v, nest) and not _is_of_launch(v, function))
    accesses = MemoryAccesses()
    spans = [span_of(op, accesses) for op in made if isinstance(op, Load)]
    is_short = len(numbers) <= NUMBERS and all(isinstance(v.type, (IntType, PointerType)) for v in numbers)
    known = tuple(span for span in spans if span is not None)
    return ComputedRight(nest, write, numbers, known) if is_short and 0 < len(known) == len(spans) <= LOADS else None


def taken_out(right: ComputedRight) -> Op:
    """A nest, which stands nowhere, that does nothing but compute the matrix; its own does not any more."""
    nest, write = right.nest, right.write
    if all(op is write for op in nest.body.ops_of(Write)):
        nest.unlink()
        return nest
    copy, place = nest.clone(), list(nest.body).index(write)
    body = copy.regions[0].block
    kept = list(body)[place]
    for op in [op for op in body.ops_of(Write) if op is not kept]:
        op.erase()
    write.erase()
    for half in (nest.body, body):
        _sweep(half)
    return copy


def span_of(op: Load | Store | GuardedStore, accesses: MemoryAccesses) -> Span | None:
    """Where `op` accesses memory; None if unknown before its nest."""
    nest = op.parent
    if not isinstance(nest, Nest) or nest.programs is not None:
        return None
    access = accesses.of(op)
    extent = access.lanes.extent
    if extent is None:
        return None
    low, high = plus(access.start, extent.low), plus(access.start, extent.high)
    inside = any(_in(value, nest) for sum in (low, high) for value in _sources(sum))
    return None if inside else Span(nest, low, high)


def _sources(sum: Sum) -> list[Value]:
    """The values that a sum is made of."""
    own = [symbol.source for monomial in sum.terms for symbol in monomial]
    return own + [value for _, part in sum.parts for inner in _inner(part) for value in _sources(inner)]


def _inner(part: Part) -> tuple[Sum, ...]:
    """The sums that a part of a sum is made of."""
    if isinstance(part, Extreme):
        return part.among
    return (part.left, part.right) if isinstance(part, Scaled) else (part.of,)


def _only_write(op: Matmul) -> Write | None:
    """The write of the buffer that B lies in, where nothing but it and `op` uses that."""
    buffer = root_of(op.b)
    if not isinstance(buffer.op, Alloc):
        return None
    writes = [user for user in users_of(buffer) if user is not op]
    write = writes[0] if len(writes) == 1 else None
    return write if isinstance(write, Write) and not write.row and not write.elide_copy else None


def _only_writes(nest: Nest) -> bool:
    """Whether a nest does nothing but compute buffers from memory."""
    is_plain = not nest.results and nest.given is None
    return is_plain and all(
        is_pure(op) or isinstance(op, (Load, Write)) or op.definition.terminator for op in nest.body
    )


def _stores_between(nest: Nest, product: Matmul) -> bool:
    """Whether the program's memory changes behind `nest` and before `product`, in the same block."""
    op = nest.next
    while op is not None and op is not product:
        if any(isinstance(inner, (Store, GuardedStore)) for inner in op.walk()):
            return True
        op = op.next
    return False


def _is_told(op: Op) -> bool:
    """Whether the operands of `op`, and memory, say all about its results."""
    if isinstance(op, Load):
        return not op.is_volatile
    return is_pure(op) and not op.regions and op.name != "tt.get_program_id"


def _makers(write: Write, nest: Nest) -> list[Op]:
    """The ops of `nest` that what is written is made of."""
    return list(backward_slice(write.value, lambda op: op.block is nest.body))


def _in(value: Value, nest: Nest) -> bool:
    return value.op is not None and value.op.block is nest.body


def _is_of_launch(value: Value, function: Func) -> bool:
    """Whether a number is the same for all programs of a launch, in all iterations."""
    op = value.op
    if op is None:
        return value.owner is function.body
    if op.definition.constant or op.name == OF_LAUNCH:
        return True
    return is_elementwise(op) and all(_is_of_launch(operand, function) for operand in op.operands)


def _sweep(body: Block) -> None:
    """Erase what nothing uses any more."""
    for op in reversed(list(body)):
        if op.results and not any(result.uses for result in op.results):
            op.erase()
