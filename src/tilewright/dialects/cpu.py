"""The `cpu` dialect: tiles in scratch buffers, fused loop nests, register-blocked dot.

    %b = "cpu.alloc"() : () -> !tt.ptr<tensor<64x64xf32>, 5>        a tile in the thread's scratch arena
    "cpu.write"(%tile, %b)                                          fills it, element by element
    %t = "cpu.read"(%b)                                             reads its elements on demand
    %s = "cpu.nest"() <{mode = rows, outer = array<i64: 64>}> ({    one loop nest for all ops inside
      …tile ops…                                                    outer loops over 64 rows, inner loops over columns
      "cpu.yield"(%sum)
    })
    %r = "cpu.accumulate"(%low, %high, %step, %zero) ({     a loop that only reads memory: in a nest it is the inner one
    ^bb0(%i: i32, %sum: tensor<64x64xf32>):
      …ops on elements…
      "cpu.yield"(%next)
    })
    "cpu.clip"(%on) <{extent = 64, phase = 0, …}>        a loop of its nest ends at the first false element of this mask
    "cpu.assume"(%on) <{extent = 64, phase = 0, …}>      the loop has a version in which this mask is on
    "cpu.dot"(%a, %b, %c)                                           c += a · b, all three in scratch
    "cpu.matmul"(%p, %q, %c, %n, …) <{shape = array<i64: 64, 64, 32>}>    the same, of matrices anywhere in memory
    "cpu.network"(%b) <{distances = array<i64: 1, 2, 1>, …}>   sorts the rows of a tile, step by step
    "cpu.store"(%p, %tile, %b)                                      a store that may have to go through a buffer
    %q = "cpu.redirect"(%overlaps, %b, %p)                          in a buffer if the condition holds, else %p
    %q = "cpu.within"(%p, %low, %high)                              the same; those outside of [%low, %high) are unused
    "cpu.print"(%b) <{text = " x: ", format = "%d", …}>             prints the tile in a buffer
    "cpu.assert"(%holds, %first) <{message = "…", …}>               fails, at element number %first of a tile
    %n = "cpu.programs_ahead"() <{axis = x}>                        programs that run next along x with this one
    "cpu.take"(%k) <{axis = x}>                                     this program also does the work of the next k - 1
    %a = "cpu.runs_alone"()                                         no other thread runs programs of this launch
    %a = "cpu.is_first"()                                           no program of this claim has run yet

A buffer is a pointer to a tile in address space 5. Ops inside a nest keep their meaning on whole tiles, so a nest
computes what its ops would compute one after the other; the lowering may only interleave them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.rules import pointer
from tilewright.dialects.traits import Indexing, PointerAccess, WritesMemory
from tilewright.dialects.tt_program import AXES
from tilewright.ir.attributes import DenseArray, Keyword, Number
from tilewright.ir.core import Op, Value, integer_in
from tilewright.ir.declare import Effect, declare, declares
from tilewright.ir.errors import require
from tilewright.ir.fields import Body, Flag, Integer, Integers, Operand, Operands, OptionalOperand, RegionOf, Word
from tilewright.ir.types import PointerType, TensorType, Type, f32, f64, i1, i32, i64, with_element

ALL_PHASES = -1
"""The phase of a `cpu.clip` that ends the loop over rows, in which all phases are."""
SCRATCH = 5
"""The address space of buffers."""


@declares("cpu.alloc")
class Alloc(Op):
    """A buffer in the thread's scratch arena; with `outlives` the thread's next program finds there what it held."""

    __slots__ = ()
    outlives = Flag("outlives")

    @property
    def offset(self) -> int | None:
        """The offset of its scratch memory, in bytes; None before allocation."""
        return integer_in(self, "offset")

    @offset.setter
    def offset(self, offset: int) -> None:
        self.attributes["offset"] = Number(offset, i64)


@declares("cpu.read", effect=Effect.READ)
class Read(Op):
    """The elements of `buffer`; with `row` it holds one row of the nest at a time."""

    __slots__ = ()
    buffer = Operand(0)
    row = Flag("row")


def _verify_seen(op: Write | CpuDot) -> None:
    buffer = op.buffer if isinstance(op, Write) else op.accumulator
    numbers = [value.type for value in op.seen]
    require(numbers in ([], [i64] * len(tile_of(buffer.type).shape)), op, "is told an i64 along each axis, or none")


@declares("cpu.write", effect=Effect.WRITE, verify=_verify_seen)
class Write(Op):
    """Puts `value` into `buffer`; with `elide_copy` its reader may read the memory that `value` was loaded from.

    Beyond `seen` elements along each axis the buffer may hold anything; none: all are seen.
    """

    __slots__ = ()
    value, buffer, seen = Operand(0), Operand(1), Operands(2)
    row, elide_copy = Flag("row"), Flag("elide_copy")


def _verify_nest(op: Nest) -> None:
    require(op.given is None or op.given.type in (i1, i64), op, "is given an i1 or an i64")
    require(op.programs is None or op.mode == "rows", op, "has rows that go on")
    require(min(op.lanes, op.together, *op.chunks) > 0, op, "takes vectors and rows, one at least")


@declares("cpu.nest", regions=1, effect=Effect.RECURSIVE, verify=_verify_nest)
class Nest(Op):
    """Tile ops that share loops.

    Attributes:
        given: `overlaps` or `programs`.
        overlaps: an i1, whether each `cpu.store` inside goes to its buffer first.
        programs: an i64: it is for so many programs, each of which continues the rows of the one before; None: for one.
        mode: `rows`, whose inner loop runs along the last axis, or `columns`, along `axis`.
        outer: the extents of the outer loops.
        runs: what the grid runs it once for: `program`, or `iteration` of the loop around; "" where neither is known.
        optimize_size: little code counts for more than speed.
        wraps: ranges modulo something probably wrap, which is rare enough for loops that are not unrolled.
        lanes: the lanes of a vector, at most; columns take as many side by side.
        chunks: the number of vectors in an iteration of each inner loop, phase by phase; without it: one.
        square: it goes by blocks of so many rows and columns, which are transposed in registers; 0: it does not.
        together: the number of rows that go side by side.
    """

    __slots__ = ()
    given = OptionalOperand(0)
    mode = Word("mode")
    outer = Integers("outer")
    axis = Integer("axis", -1)
    runs, optimize_size, wraps = Word("runs", ""), Flag("optimize_size"), Flag("wraps")
    lanes, chunks = Integer("lanes", 1), Integers("chunks")
    square, together = Integer("square", 0), Integer("together", 1)
    region = RegionOf()
    body = Body()

    @property
    def copy(self) -> Write | None:
        """The write of a nest that does no more than to copy a load for a product; None for other nests."""
        return next((op for op in self.body.ops_of(Write) if op.elide_copy), None)

    @property
    def overlaps(self) -> Value | None:
        return self.given if self.given is not None and self.given.type is i1 else None

    @property
    def programs(self) -> Value | None:
        return self.given if self.given is not None and self.given.type is i64 else None

    def mark(
        self,
        *,
        runs: str = "",
        optimize_size: bool = False,
        wraps: bool = False,
        lanes: int = 1,
        chunks: Sequence[int] = (),
        square: int = 0,
        together: int = 1,
    ) -> None:
        """Set those of these attributes that say something."""
        numbers = {"lanes": lanes, "square": square, "together": together}
        self.attributes |= {"runs": Keyword(runs)} if runs else {}
        self.attributes |= {"chunks": DenseArray(i64, tuple(chunks))} if max(chunks, default=1) > 1 else {}
        flags = {"optimize_size": optimize_size, "wraps": wraps}
        self.attributes |= {name: True for name, is_so in flags.items() if is_so}
        self.attributes |= {name: Number(number, i64) for name, number in numbers.items() if number > 1}


def _verify_accumulate(op: Accumulate) -> None:
    require(not isinstance(op.parent, Nest) or op.parent.mode == "rows", op, "goes along the rows of a nest")


@declares("cpu.accumulate", regions=1, effect=Effect.RECURSIVE, verify=_verify_accumulate)
class Accumulate(Op):
    """A counted loop that only reads memory and carries tiles; elements of the same index depend on each other only.

    Only nests of rows have one: those of columns count their rows on another axis.

    Attributes:
        low, high, step: the bounds of the counter and its step.
        inits: the values that the carried ones start with.
        body: its block, whose arguments are the counter and the carried values.
        at_once: so many vectors of each carried tile go through one loop.
    """

    __slots__ = ()
    low, high, step = Operand(0), Operand(1), Operand(2)
    inits, at_once = Operands(3), Integer("at_once", 1)
    region = RegionOf()
    body = Body()

    @property
    def extent(self) -> int:
        """The length of the rows of all tiles that are carried."""
        return next(shape[-1] for value in self.results if (shape := value.type.shape))

    @property
    def captured(self) -> list[Value]:
        """The values from around the loop that its body uses."""
        used = {value: None for op in self.body for value in op.operands if value not in self.body.args}
        return [value for value in used if value.op is None or value.op.block is not self.body]


def _verify_clip(op: Clip) -> None:
    require(isinstance(op.parent, Nest) and op.parent.mode == "rows", op, "ends a loop along the rows of a nest")
    shape = op.mask.type.shape or ()
    require(op.mask.type.scalar is i1 and len(shape) == len(op.axes), op, "has a mask, and a loop for each axis of it")


@declares("cpu.clip", effect=Effect.WRITE, results=0, verify=_verify_clip)
class Clip(Op):
    """Says that a loop of the nest around may end where `mask` is off, which is on up to some lane unless a sum wraps.

    If a loop has several, it ends where all their masks are off. A loop that fills buffers for other nests goes on as
    far as these show them, a loop that reduces goes on for one lane more.

    Attributes:
        extent, phase: the extent of the loop, and the phase of the nest that it is in; ALL_PHASES: that over its rows.
        axes: for each axis of the mask, which of the nest's loops runs along it, -1 where it has one element.
    """

    __slots__ = ()
    mask = Operand(0)
    extent, phase, axes = Integer("extent"), Integer("phase"), Integers("axes")


def _verify_assume(op: Assume) -> None:
    require(isinstance(op.parent, (Nest, Accumulate)), op, "says what a loop of a nest may rely on")
    shape = op.value.type.shape or ()
    require(len(shape) == len(op.axes), op, "has a loop for each axis of its value")


@declares("cpu.assume", effect=Effect.WRITE, results=0, verify=_verify_assume)
class Assume(Op):
    """Says that a loop of the nest around has a version that relies on how `value` is made, and tests that in front.

    A mask is on everywhere, quotients by a number are one number, a division of floats is a product with a reciprocal.

    Attributes:
        extent, phase: the extent of the loop, and the phase of the nest that it is in.
        axes: for each axis of the value, which of the nest's loops runs along it, -1 where it has one element.
    """

    __slots__ = ()
    value = Operand(0)
    extent, phase, axes = Integer("extent"), Integer("phase"), Integers("axes")


@declares("cpu.dot", effect=Effect.READ_WRITE, verify=_verify_seen)
class CpuDot(Op):
    """`accumulator` += a · b, all three in scratch; of its rows and columns so many are `seen`, without these: all.

    Attributes:
        a_transposed, b_transposed: A lies as k rows of m, B as n rows of k.
        b_shared: programs that follow one another have the same B.
        zero_init: what `accumulator` held before is not read …
        first_iteration: … in the first iteration of the loop around the op.
    """

    __slots__ = ()
    a, b, accumulator, seen = Operand(0), Operand(1), Operand(2), Operands(3)
    a_transposed, b_transposed, zero_init = Flag("a_transposed"), Flag("b_transposed"), Flag("zero_init")
    b_shared, first_iteration = Flag("b_shared"), Flag("first_iteration")


def _verify_matmul(op: Matmul) -> None:
    a, b, c = (pointer(op, value).pointee for value in op.operands[:3])
    require(a is b and c in (f32, f64, i32, i64), op, f"multiplies no {a} and {b} into {c}")
    require(len(op.shape) == 3, op, "has three extents: m, n and k")
    require(all(value.type is i64 for value in op.operands[3:10]), op, "strides, steps and counts are i64")
    require(op.zero_init.type is i1, op, "whether sums begin at zero is an i1")
    require(op.keeps or not op.waits, op, "waits with its B packed")
    told = [value.type for value in op.waiting]
    is_told = not told or (told[:2] == [i1, i64] and isinstance(told[2], PointerType))
    require(is_told, op, "is told whether it waits, and which products have waited")
    kept = [value.type for value in op.further[: 2 * op.keeps]]
    is_told = not op.keeps or (len(kept) == 2 and isinstance(kept[0], PointerType) and kept[1] is i1)
    require(is_told, op, "is told where B is kept, and by an i1 whether it is there")
    pairs = [value.type for value in op.soon]
    fits = all(isinstance(type, PointerType) for type in pairs[::2]) and all(type is i64 for type in pairs[1::2])
    fits = fits and 3 * len(pairs) == 2 * len(op.soon_extents)
    require(fits, op, "what is read soon is addresses, with strides and extents")


@declares("cpu.matmul", effect=Effect.READ_WRITE, results=0, verify=_verify_matmul)
class Matmul(Op):
    """`sums` (+)= a · b: matrices of `shape` (m, n, k) in memory, from whose addresses elements lie at any distance.

    Attributes:
        a_stride, b_stride: the distance of the rows, as they lie in memory, in elements; those of `sums` are n apart.
        a_step, b_step: the distance of neighbours in a row.
        depth, rows, columns: how many of k, m and n count; beyond, `sums` may hold anything, and the operands end.
        further: `panels` and `kept`, if there are these, `waiting`, and `soon`.
        soon: an address for each matrix that will be read next, and the distance of its rows in bytes.
        soon_extents: of each such matrix, whether it is the next A (0), B (1), or where C goes to (2); its rows, and
            their bytes.
        a_transposed, b_transposed: A lies as k rows of m, B as n rows of k.
        b_shared: programs that follow one another have the same B.
        zero_init: an i1, whether what `sums` held before is not read.
        keeps: there are `panels` and `kept`.
        panels: an address; B is left there in the order in which the product reads it, if it reads it in another one.
        kept: an i1, whether B is there already, left by a product of the same shape that was told the same numbers.
        waits: several iterations may be multiplied at once: there is `waiting`.
        waiting: an i1, whether this product is left to the next iteration, once its B is packed; the number of
            iterations to multiply, this one included; and the address of a table of their A and their packed B.
    """

    __slots__ = ()
    a, b, sums = Operand(0), Operand(1), Operand(2)
    a_stride, a_step, b_stride, b_step = Operand(3), Operand(4), Operand(5), Operand(6)
    depth, rows, columns = Operand(7), Operand(8), Operand(9)
    zero_init, further = Operand(10), Operands(11)
    shape, soon_extents = Integers("shape"), Integers("soon_extents")
    a_transposed, b_transposed, b_shared = Flag("a_transposed"), Flag("b_transposed"), Flag("b_shared")
    keeps, waits = Flag("keeps"), Flag("waits")

    @property
    def panels(self) -> Value | None:
        return self.further[0] if self.keeps else None

    @property
    def kept(self) -> Value | None:
        return self.further[1] if self.keeps else None

    @property
    def waiting(self) -> list[Value]:
        return self.further[2:5] if self.waits else []

    @property
    def soon(self) -> list[Value]:
        return self.further[2 * self.keeps + 3 * self.waits :]

    @property
    def asked_operands(self) -> Sequence[int]:
        """For each matrix of `soon`, the number of its operand."""
        return self.soon_extents[::3]

    def keep(self, panels: Value, kept: Value) -> None:
        """Let B be kept at `panels`, where it is already if `kept` holds."""
        self.set_operands([*self.operands[:11], panels, kept, *self.soon])
        self.attributes["keeps"] = True

    def wait(self, waiting: Sequence[Value], zero_init: Value) -> None:
        """Let several iterations be multiplied at once; the sums of all begin as `zero_init` says."""
        self.set_operands([*self.operands[:10], zero_init, *self.further[:2], *waiting, *self.soon])
        self.attributes["waits"] = True


def _verify_network(op: Network) -> None:
    count = len(op.distances)
    counts = len(op.direction_bits), len(op.descending)
    require(counts == (count, count), op, "has a direction bit and a direction for each distance")
    columns = tile_of(op.buffer.type).shape[-1]
    steps = [number for number in (*op.distances, *op.direction_bits) if number]
    require(all(op.distances), op, "compares different elements")
    require(all(0 < n < columns and not n & (n - 1) for n in steps), op, "has powers of two below the extent of a row")


@declares("cpu.network", effect=Effect.READ_WRITE, results=0, verify=_verify_network)
class Network(Op):
    """A sorting network on each row of the tile in `buffer`.

    A step compares elements whose places differ in one bit, `distance`. The smaller one goes to the place without that
    bit, the larger one to the other place; the other way around where places have the direction bit, and again where
    the step is descending. Elements of which `predicate` does not hold, as NaN, stay where they are.

    Attributes:
        distances, direction_bits, descending: three numbers for each step; a direction bit of 0 is none.
        predicate: of a comparison, by which the first of two elements is the larger one.
    """

    __slots__ = ()
    buffer = Operand(0)
    distances, direction_bits, descending = Integers("distances"), Integers("direction_bits"), Integers("descending")
    predicate = Word("predicate")


@declares("cpu.store", effect=Effect.WRITE)
class GuardedStore(PointerAccess, WritesMemory):
    """A store that may have to go through `buffer`; `kept_mask` holds a mask that may have changed by then."""

    __slots__ = ()
    value, buffer = Operand(1), Operand(2)
    mask, kept_mask = OptionalOperand(3), OptionalOperand(4)


def _verify_redirect(op: Redirect) -> None:
    require(op.condition.type is i1 and op.result.type is op.pointer.type, op, "chooses by an i1")


@declares("cpu.redirect", verify=_verify_redirect)
class Redirect(Indexing):
    """The places of the elements of `buffer` where `condition` holds, else `pointer`."""

    __slots__ = ()
    condition, buffer, pointer = Operand(0), Operand(1), Operand(2)


def _verify_within(op: Within) -> None:
    low, high = op.low.type, op.high.type
    bounds = with_element(op.tile.type, i64 if isinstance(op.tile.type.scalar, PointerType) else op.tile.type.scalar)
    require(op.result.type is op.tile.type and low is high is bounds, op, "has bounds for each element")


@declares("cpu.within", elementwise=True, verify=_verify_within, semantics=lambda op, tile, low, high: tile)
class Within(Op):
    """The integers or addresses in `tile`. Where one is not from `low` to `high`, nothing is loaded or stored.

    It says what a tile that is loaded reaches: addresses are compared in bytes, up to the first one of an element.
    """

    __slots__ = ()
    tile, low, high = Operand(0), Operand(1), Operand(2)


class Report(Op):
    """A report to whoever launches; `shape` is that of the user's tile."""

    __slots__ = ()
    shape = Integers("shape")


@declares("cpu.print", effect=Effect.READ_WRITE)
class PrintBuffer(Report):
    """Prints `text` and the tile in `buffer`, if there is one."""

    __slots__ = ()
    buffer = OptionalOperand(0)
    text, format, signed = Word("text"), Word("format", ""), Flag("signed")


@declares("cpu.assert", effect=Effect.WRITE)
class AssertAt(Report):
    """Fails where `condition` does not hold, at element number `first` of the tile."""

    __slots__ = ()
    condition, first = Operand(0), Operand(1)
    message = Word("message")


def _verify_programs(op: Programs) -> None:
    numbers = [value.type for value in (*op.operands, *op.results)]
    require(op.axis in AXES and numbers == [i64], op, "has a number of programs along x, y or z, an i64")


class Programs(Op):
    """Programs that one thread runs one after the other, along `axis`."""

    __slots__ = ()
    axis = Word("axis")


@declares("cpu.programs_ahead", verify=_verify_programs)
class ProgramsAhead(Programs):
    """How many of them are to run now, this one included; at least 1."""

    __slots__ = ()


@declares("cpu.take", effect=Effect.WRITE, results=0, verify=_verify_programs)
class Take(Programs):
    """This program does the work of `count`, of which the others are left out."""

    __slots__ = ()
    count = Operand(0)


declare("cpu.yield", terminator=True)


def _verify_runs_alone(op: Op) -> None:
    require(op.result.type is i1, op, "gives an i1")


declare("cpu.runs_alone", verify=_verify_runs_alone)
declare("cpu.is_first", verify=_verify_runs_alone)


def buffer_type(tile: TensorType) -> PointerType:
    """The type of a buffer that holds `tile`."""
    return PointerType(TensorType(tile.shape, tile.element), SCRATCH)


def tile_of(buffer: Type) -> TensorType:
    """The tile that a buffer of this type holds."""
    assert isinstance(buffer, PointerType), f"{buffer} is no buffer"
    assert isinstance(buffer.pointee, TensorType), f"{buffer} is no buffer"
    return buffer.pointee
