"""The `vector` dialect: vector loads, stores, shuffles and reductions of CPU loops, under MLIR's names.

    %v = vector.load %p[%o] : !tt.ptr<i8> -> vector<16xf32>         16 neighbours, from address %p + %o bytes
    %w = vector.load %p[%o, %s] : !tt.ptr<i8> -> vector<16xf32>     elements whose addresses are %s bytes apart
    %n = vector.load %p[%o] {volatile} : …                          the same, as a volatile access
    %m = vector.maskedload %p[%o], %on, %else : …                   lanes that are not on read nothing
    %g = vector.gather %p[%i] : !tt.ptr<f32>, vector<16xi64> -> …   the elements %p[%i]
    vector.store %v, %p[%o] {nontemporal} : …                       the store; here it bypasses the caches
    %b = vector.broadcast %x : f32 to vector<16xf32>                a scalar in every lane
    %s = vector.shuffle %a, %b [0, 16, 1, 17] : …                   lanes of two vectors, by number
    %any = vector.reduction <or>, %m : vector<16xi1> into i1        whether any lane is set
    %c = vector.dot_accumulate %a, %b, %acc : …                     products of neighbouring lanes, added to %acc
    %c = vector.matrix_accumulate %a, %b, %acc : …                  products of 2 rows by 2 columns, added to %acc
    %t = vector.table {value = dense<…>} : !tt.ptr<f32>             constants in memory
    %w = vector.alloca 256 : !tt.ptr<i8>                            memory on the function's stack

Arithmetic on vectors is that of the dialects `arith`, `math` and `tt`. Scalars are accepted in place of vectors: they
are vectors of one lane. Vectors of pointers are accessed by `tt.load` and `tt.store`.

On `scf.for` the attribute `vector.nonempty` says that the loop has at least one iteration, on `scf.if`
`vector.unlikely` says that the condition rarely holds, on `scf.parallel` `vector.unroll` is the preferred unroll
factor. `alignment` is that of the address, in bytes; without it nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tilewright.dialects.assembly import Reading, TypeOf, assembly, mask_like, type_of
from tilewright.dialects.formats import ELEMENTWISE
from tilewright.dialects.rules import float_type, keyword_in, pointer, types_match
from tilewright.dialects.traits import WritesMemory
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect, declare
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Integer, Integers, Literal, Marker, Operand, Operands, OptionalOperand, Word
from tilewright.ir.types import IntType, Type, VectorType, bf16, f32, f64, i1, i8, i16, i32, i64, with_element

REDUCTIONS = ("or",)
"""The ways to join all lanes."""
PLACELESS = ("arith.constant", "vector.alloca", "vector.step", "vector.table")
"""Ops that are the same wherever they stand."""
NONEMPTY, UNLIKELY, UNROLL = "vector.nonempty", "vector.unlikely", "vector.unroll"


class Load(Op):
    """The elements from `offset` bytes behind `base` on: neighbours, or `stride` bytes apart; `volatile`: read once."""

    __slots__ = ()
    base, offset = Operand(0), Operand(1)
    stride = OptionalOperand(2)
    is_volatile = Marker("volatile")
    alignment = Integer("alignment", 1)


class Store(WritesMemory):
    """Puts `value` where a `Load` with these operands would read it; `nontemporal`: past the caches."""

    __slots__ = ()
    base, offset, value = Operand(0), Operand(1), Operand(2)
    stride = OptionalOperand(3)
    nontemporal = Marker("nontemporal")
    alignment = Integer("alignment", 1)


class MaskedLoad(Op):
    """A `Load` in the lanes where `mask` holds, and `other` in the rest, which touch no memory."""

    __slots__ = ()
    base, offset, mask, other = Operand(0), Operand(1), Operand(2), Operand(3)
    stride = OptionalOperand(4)
    alignment = Integer("alignment", 1)


class MaskedStore(WritesMemory):
    """A `Store` in the lanes where `mask` holds."""

    __slots__ = ()
    base, offset, value, mask = Operand(0), Operand(1), Operand(2), Operand(3)
    stride = OptionalOperand(4)
    alignment = Integer("alignment", 1)


class Gather(Op):
    """The elements number `indices` behind `base`; where there is a `mask` that does not hold, `other`."""

    __slots__ = ()
    base, indices = Operand(0), Operand(1)
    mask, other = OptionalOperand(2), OptionalOperand(3)
    alignment = Integer("alignment", 1)


class Scatter(WritesMemory):
    """Puts `value` where a `Gather` would read it, in the lanes where `mask` holds; of equal places the last wins."""

    __slots__ = ()
    base, indices, value = Operand(0), Operand(1), Operand(2)
    mask = OptionalOperand(3)
    alignment = Integer("alignment", 1)


class Prefetch(Op):
    """Prefetches the cache line of an address, which need not be valid; `write`: for a write.

    `locality` says which caches are to have it: 3 all of them, 2 those from the second level on.
    """

    __slots__ = ()
    base, offset = Operand(0), Operand(1)
    write = Marker("write")
    locality = Integer("locality", 3)


class Alloca(Op):
    """`size` bytes on the stack, which live as long as the function runs; `unread`: what they hold does not matter."""

    __slots__ = ()
    size, unread = Integer("size"), Marker("unread")
    alignment = Integer("alignment", 64)


class Table(Op):
    """The address of constant numbers in memory."""

    __slots__ = ()
    value = Literal("value")


class Broadcast(Op):
    """The number `source` in every lane."""

    __slots__ = ()
    source = Operand(0)


class Reduction(Op):
    """All lanes of `source` in one number, joined by `kind`."""

    __slots__ = ()
    source = Operand(0)
    kind = Word("kind")


class Step(Op):
    """0, 1, 2, …: each lane's own number."""

    __slots__ = ()


class Shuffle(Op):
    """The lanes of `first`, followed by those of `second` if there is one, that the numbers `lanes` choose."""

    __slots__ = ()
    first, second = Operand(0), OptionalOperand(1)
    lanes = Integers("lanes")


class Extract(Op):
    """Lane number `lane` of `source`."""

    __slots__ = ()
    source = Operand(0)
    lane = Integer("lane")


class FromElements(Op):
    """The vector with these numbers as its lanes."""

    __slots__ = ()
    elements = Operands()


class BitCast(Op):
    """The bits of `source` as lanes of another width."""

    __slots__ = ()
    source = Operand(0)


class FusedMultiplyAdd(Op):
    """a·b + c, rounded once, by one instruction of the machine."""

    __slots__ = ()
    a, b, c = Operand(0), Operand(1), Operand(2)


class DotAccumulate(Op):
    """`accumulator`, plus in each lane the products of as many neighbours in `a` and `b` as fit into the lane.

        acc[j] += a[4·j]·b[4·j] + … + a[4·j+3]·b[4·j+3]          i8 into i32; bf16 into f32 take two

    `unsigned` says that the integers in `a` are. How sums of bf16 are rounded on the way is the machine's business.
    """

    __slots__ = ()
    a, b, accumulator = Operand(0), Operand(1), Operand(2)
    unsigned = Marker("unsigned")


class MatrixAccumulate(Op):
    """`accumulator`, whose every four lanes are a matrix of 2 × 2, plus the products of two rows by two columns.

        acc[2·i + j] += a[8·i]·b[8·j] + … + a[8·i + 7]·b[8·j + 7]       i8 into i32; bf16 into f32 has rows of four

    The 16 bytes of `a` and `b` that lie beside four lanes are two rows and two columns, one after the other. How sums
    of bf16 are rounded on the way is the machine's business.
    """

    __slots__ = ()
    a, b, accumulator = Operand(0), Operand(1), Operand(2)


def wide_type(type: Type, lanes: int) -> Type:
    """The type of `lanes` numbers; of one it is the number's."""
    return type if lanes == 1 else VectorType((lanes,), type)


@cache
def lanes_of(type: Type) -> int:
    """The number of lanes of a value; 1 for a number."""
    return type.numel if isinstance(type, VectorType) else 1


def _verify_access(op: Load | Store | MaskedLoad | MaskedStore, moved: Value) -> None:
    pointer(op, op.base)
    stride = op.stride
    require(op.offset.type is i64 and (stride is None or stride.type is i64), op, "offset and stride are i64, in bytes")
    _verify_moved(op, moved)


def _verify_moved(op: Op, moved: Value) -> None:
    require(moved.type.scalar is not i1, op, "truth values are bytes in memory")


def _verify_load(op: Load) -> None:
    _verify_access(op, op.results[0])


def _verify_store(op: Store) -> None:
    _verify_access(op, op.value)


def _verify_masked_load(op: MaskedLoad) -> None:
    _verify_access(op, op.results[0])
    types_match(op, (op.mask, op.other), _masked(op.results[0].type), "mask and other")


def _verify_masked_store(op: MaskedStore) -> None:
    _verify_access(op, op.value)
    types_match(op, (op.mask,), _masked(op.value.type)[:1], "mask")


def _masked(moved: Type) -> tuple[Type, Type]:
    return with_element(moved, i1), moved


def _verify_places(op: Gather | Scatter, moved: Value, masked: Sequence[Value]) -> None:
    pointer(op, op.base)
    require(op.base.type.shape is None, op, "counts from one address; `tt.load` takes several")
    require(op.indices.type is with_element(moved.type, i64), op, f"needs an i64 for each lane of {moved.type}")
    _verify_moved(op, moved)
    types_match(op, masked, _masked(moved.type)[: len(masked)], "mask and other")


def _verify_gather(op: Gather) -> None:
    require(len(op.operands) in (2, 4), op, "a mask comes with what masked lanes give")
    _verify_places(op, op.results[0], op.operands[2:])


def _verify_scatter(op: Scatter) -> None:
    _verify_places(op, op.value, op.operands[3:])


def _verify_prefetch(op: Prefetch) -> None:
    pointer(op, op.base)
    require(op.offset.type is i64, op, "the offset is an i64, in bytes")


def _verify_address(op: Alloca | Table) -> None:
    pointer(op, op.results[0])


def _verify_broadcast(op: Broadcast) -> None:
    source, result = op.source.type, op.results[0].type
    if not isinstance(result, VectorType) or source is not result.element:
        raise VerificationError(op, f"cannot spread {source} over {result}")


def _verify_step(op: Step) -> None:
    require(isinstance(op.results[0].type.scalar, IntType), op, "counts in integers")


def _verify_shuffle(op: Shuffle) -> None:
    source, result, second, lanes = op.first.type, op.results[0].type, op.second, op.lanes
    known = lanes_of(source) * (1 if second is None else 2)
    if second is not None and second.type is not source:
        raise VerificationError(op, f"{source} and another type")
    if lanes and (min(lanes) < 0 or max(lanes) >= known):
        raise VerificationError(op, f"there are {known} lanes to choose from")
    if not isinstance(source, VectorType) or result is not VectorType((len(lanes),), source.element):
        raise VerificationError(op, f"{len(lanes)} lanes of {source} are no {result}")


def _verify_extract(op: Extract) -> None:
    source, result = op.source.type, op.results[0].type
    if not isinstance(source, VectorType) or result is not source.element:
        raise VerificationError(op, f"a lane of {source} is no {result}")
    if not 0 <= op.lane < lanes_of(source):
        raise VerificationError(op, f"{source} has no lane {op.lane}")


def _verify_from_elements(op: FromElements) -> None:
    result = op.results[0].type
    fits = isinstance(result, VectorType) and len(op.elements) == result.numel
    require(fits and all(value.type is result.scalar for value in op.elements), op, f"these are no lanes of {result}")


def _verify_bit_cast(op: BitCast) -> None:
    source, result = op.source.type, op.results[0].type
    if lanes_of(source) * source.bits != lanes_of(result) * result.bits:
        raise VerificationError(op, f"{source} and {result} differ in their number of bits")


def _verify_fma(op: FusedMultiplyAdd) -> None:
    float_type(op)
    require(op.results[0].type.scalar in (f32, f64), op, "multiplies f32 or f64")


def _verify_dot(op: DotAccumulate | MatrixAccumulate) -> None:
    a, result = op.a.type, op.results[0].type
    require(op.b.type is a and op.accumulator.type is result, op, "a and b have one type, as accumulator and result")
    require((a.scalar, result.scalar) in _DOTS, op, f"there are no dots of {a} into {result}")
    fits = lanes_of(a) * a.bits == lanes_of(result) * result.bits
    require(fits, op, f"{a} does not fill the lanes of {result}")


def _verify_matrices(op: MatrixAccumulate) -> None:
    _verify_dot(op)
    result = op.results[0].type
    require(lanes_of(result) % 4 == 0, op, f"{result} is not made of matrices of 2 × 2")


_DOTS = {(i8, i32), (i16, i32), (bf16, f32)}


def _verify_reduction(op: Reduction) -> None:
    keyword_in(op, "kind", REDUCTIONS)
    source, result = op.source.type, op.results[0].type
    if not isinstance(source, VectorType) or result is not source.element:
        raise VerificationError(op, f"cannot join the lanes of {source} in {result}")


_BYTES: dict[str, TypeOf] = {"offset": i64, "stride": i64}
_RESULT: dict[str, TypeOf] = {"mask": mask_like("result"), "other": type_of("result")}
_VALUE: dict[str, TypeOf] = {"mask": mask_like("value")}


def _masked_in_text(reading: Reading) -> list[Type]:
    mask, other = _masked(reading.type("result"))
    return [mask] + [other] * (len(reading.operands["masked"]) - 1)


declare(
    "vector.load",
    kind=Load,
    effect=Effect.READ,
    verify=_verify_load,
    **assembly(" %base[%offset?(, %stride)]{} : !base -> !result", "base offset stride?", "result", types=_BYTES),
)
declare(
    "vector.store",
    kind=Store,
    effect=Effect.WRITE,
    verify=_verify_store,
    **assembly(" %value, %base[%offset?(, %stride)]{} : !base, !value", "base offset value stride?", types=_BYTES),
)
declare(
    "vector.maskedload",
    kind=MaskedLoad,
    effect=Effect.READ,
    verify=_verify_masked_load,
    **assembly(
        " %base[%offset?(, %stride)], %mask, %other{} : !base -> !result",
        "base offset mask other stride?",
        "result",
        types={**_BYTES, **_RESULT},
    ),
)
declare(
    "vector.maskedstore",
    kind=MaskedStore,
    effect=Effect.WRITE,
    verify=_verify_masked_store,
    **assembly(
        " %value, %base[%offset?(, %stride)], %mask{} : !base, !value",
        "base offset value mask stride?",
        types={**_BYTES, **_VALUE},
    ),
)
declare(
    "vector.gather",
    kind=Gather,
    effect=Effect.READ,
    verify=_verify_gather,
    **assembly(
        " %base[%indices]?(, %masked*){} : !base, !indices -> !result",
        "base indices masked*",
        "result",
        types={"masked": _masked_in_text},
    ),
)
declare(
    "vector.scatter",
    kind=Scatter,
    effect=Effect.WRITE,
    verify=_verify_scatter,
    **assembly(
        " %value, %base[%indices]?(, %mask){} : !base, !indices, !value", "base indices value mask?", types=_VALUE
    ),
)
declare(
    "vector.prefetch",
    kind=Prefetch,
    effect=Effect.WRITE,  # it stays, and where it is
    verify=_verify_prefetch,
    **assembly(" %base[%offset]{} : !base", "base offset", types=_BYTES),
)
declare(
    "vector.alloca",
    kind=Alloca,
    effect=Effect.ALLOCATE,
    verify=_verify_address,
    **assembly(" #size{} : !result", "", "result"),
)
declare("vector.table", kind=Table, verify=_verify_address, **assembly("{} : !result", "", "result"))
declare("vector.step", kind=Step, verify=_verify_step, **assembly("{} : !result", "", "result"))
declare(
    "vector.broadcast",
    kind=Broadcast,
    verify=_verify_broadcast,
    **assembly(" %source{} : !source to !result", "source", "result"),
)
declare(
    "vector.shuffle",
    kind=Shuffle,
    verify=_verify_shuffle,
    **assembly(
        " %first?(, %second) [#lanes*]{} : !first -> !result",
        "first second?",
        "result",
        types={"second": type_of("first")},
    ),
)
declare(
    "vector.extract",
    kind=Extract,
    verify=_verify_extract,
    **assembly(" %source[#lane]{} : !source -> !result", "source", "result"),
)
declare(
    "vector.from_elements",
    kind=FromElements,
    verify=_verify_from_elements,
    **assembly(
        " %elements*{} : !result", "elements*", "result", types={"elements": lambda read: read.type("result").scalar}
    ),
)
declare(
    "vector.bitcast",
    kind=BitCast,
    verify=_verify_bit_cast,
    **assembly(" %source{} : !source to !result", "source", "result"),
)
declare("vector.fma", kind=FusedMultiplyAdd, results=1, elementwise=True, verify=_verify_fma, **ELEMENTWISE)
for _name, _kind, _verify in (
    ("dot_accumulate", DotAccumulate, _verify_dot),
    ("matrix_accumulate", MatrixAccumulate, _verify_matrices),
):
    declare(
        f"vector.{_name}",
        kind=_kind,
        verify=_verify,
        **assembly(
            " %a, %b, %accumulator{} : !a -> !result",
            "a b accumulator",
            "result",
            types={"b": type_of("a"), "accumulator": type_of("result")},
        ),
    )
declare(
    "vector.reduction",
    kind=Reduction,
    verify=_verify_reduction,
    **assembly(" <@kind>, %source{} : !source into !result", "source", "result"),
)
