"""`ttng.tc_gen5_mma` on `tcgen05.mma`: one thread starts a product of operands in shared memory into tensor memory.

ttng.tc_gen5_mma %a, %b, %d, %use, %p, %barrier[%q]

    bar.sync 0;                                                   all operands are there
    if warp 0 and %p:
        elect.sync …, %elected;
        @%elected tcgen05.mma.cta_group::1.kind::f16 [ $0 + 0 ], $1, $2, $3, $4;      for each part of it, and of k
        @%elected tcgen05.commit.….b64 [$1];                      arrives at the barrier when all are done

Pairs of CTAs multiply together (`cta_group::2`): a thread of the even CTA starts the product of twice the rows, of
which each CTA has half, as it has half of the columns of the right operand. The completion arrives at the barriers of
both; with `multicast`, also at those of all CTAs that get the same operands by one copy.

`ttng.tmem_copy` on `tcgen05.cp` copies from shared memory to tensor memory without going through registers; products
that the thread starts afterwards see the copied values. An instruction takes some rows of 16 or 32 bytes each, and
writes them to the rows of one warp or of several.

    ttng.tmem_copy %scales, %m       @$0 tcgen05.cp.cta_group::1.32x128b.warpx4 [$1], $2;     for each 16 bytes of a row
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import WORD
from tilewright.backends.nvidia.lower.buffers import buffer_layout, buffer_pointer
from tilewright.backends.nvidia.lower.dot.instructions import (
    FOUR_BITS,
    TENSOR_KINDS,
    WIDTHS,
    ScaledKind,
    accumulator_kind,
    instruction_bits,
    kind_of,
    scaled_kind,
)
from tilewright.backends.nvidia.lower.dot.operands_in_memory import (
    OF_TCGEN05,
    OperandInMemory,
    Tile,
    contiguous_axis,
    demand_own_operands,
    uniform_warp,
)
from tilewright.backends.nvidia.lower.dot.tensor_access import ROW, ROWS_OF_A_WARP
from tilewright.backends.nvidia.lower.dot.tensor_memory import memory_of
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.mbarriers import first_of, group_mask
from tilewright.dialects.ttg_attributes import SHARED_MEMORY, TENSOR_MEMORY
from tilewright.dialects.ttng_mma import TensorCoreCommit, TensorCoreMma, TensorCoreMmaScaled
from tilewright.dialects.ttng_tensor_memory import TmemCopy
from tilewright.ir.core import Value, buffer_type
from tilewright.ir.types import FloatType
from tilewright.layouts.encodings import TensorMemory, encoding_as
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.tensor_memory import allocated, tensor_memory_encoding
from tilewright.layouts.walk import shape_of_block
from tilewright.transforms.gpu.tile_ops import works_in_pairs

BITS_OF_A_STEP = 256
"""Bits of each row of an operand that one instruction takes."""
MIN_SCALE_COLUMNS = 2
ROWS_OF_A_PAIR = 256
"""The rows of a product of a pair of CTAs."""
ALWAYS = "true"


def lower_mma(lowerer: Lowerer, op: TensorCoreMma) -> None:
    """Write a `ttng.tc_gen5_mma`."""
    a, b, d = op.a, op.b, op.accumulator
    kinds = kind_of(a.type.scalar), kind_of(b.type.scalar), accumulator_kind(d.type.scalar)
    product = _Mma(lowerer, op, BITS_OF_A_STEP // WIDTHS[kinds[0]], buffer_type(a).shape[1])

    def write(at: tuple[int, int], step: int, use: str, operands: Sequence[Typed]) -> None:
        bits = instruction_bits(*kinds, product.all_rows, product.columns, across=product.across)
        _write(product, TENSOR_KINDS[kinds[0]], operands, [("i32", str(bits))], use)

    product.write(write)


def lower_scaled_mma(lowerer: Lowerer, op: TensorCoreMmaScaled) -> None:
    """Write a `ttng.tc_gen5_mma_scaled`."""
    a, b, a_scale, b_scale = op.a, op.b, op.a_scale, op.b_scale
    kinds = op.a_type, op.b_type
    exponents = not all(isinstance(scale.type.scalar, FloatType) for scale in (a_scale, b_scale))
    kind = scaled_kind(*kinds, exponents=exponents, across=_is_across(a, 0) or _is_across(b, 1))
    packing = [2 if name == FOUR_BITS else 1 for name in kinds]
    product = _Mma(lowerer, op, kind.k, buffer_type(a).shape[1] * packing[0], packing)
    scales = _Scales(lowerer, kind, product, (a_scale, b_scale))

    def write(at: tuple[int, int], step: int, use: str, operands: Sequence[Typed]) -> None:
        bits = kind.bits(*kinds, product.all_rows, product.columns, step, across=product.across)
        _write(product, kind.name, operands, [("i32", str(bits)), *scales.at(at, step)], use)

    product.write(write)


Write = Callable[[tuple[int, int], int, str, "Sequence[Typed]"], None]
"""Writes an instruction: part of it, step along k, whether to add, addresses of accumulator and operands."""


class _Mma:
    """A product into tensor memory.

    Attributes:
        rows, columns: of the accumulator of one instruction, the rows in each CTA.
        ctas: that compute together, one or two.
        across: per operand, whether its elements follow each other across K.
    """

    def __init__(
        self, lowerer: Lowerer, op: TensorCoreMma, depth: int, k: int, packing: Sequence[int] = (1, 1)
    ) -> None:
        """See the class.

        Args:
            depth: how much one instruction sums over.
            k: how much all do.
            packing: how many elements of each operand are in one of its buffer's.
        """
        self.lowerer, self.op = lowerer, op
        self.a, self.b, self.d = op.a, op.b, op.accumulator
        type = buffer_type(self.d)
        layout = encoding_as(TensorMemory, type.encoding)
        self.ctas = 2 if works_in_pairs(op) else 1
        demand_own_operands(op, (self.a, self.b), layout.cga, pairs=self.ctas == 2)
        if self.ctas == 2 and layout.block_m != ROWS_OF_A_PAIR // 2:
            _demand_plain(op)
        self.shape = shape_of_block(type.shape[-2:], layout.cga)
        self.rows, self.columns = layout.block_m, min(layout.block_n, self.shape[1])
        if self.ctas == 2 and self.columns < self.shape[1]:
            what = f"a product of pairs of CTAs with several blocks of {self.columns} columns"
            raise refused(op, what, "each CTA has half of all columns of the right operand: take one block")
        self.steps, self._depth = max(k // depth, 1), depth
        self._packing = packing
        self._places = memory_of(type).pseudo_invert()
        self._bits = type.element.bits
        self.across = _is_across(self.a, 0), _is_across(self.b, 1)

    @property
    def all_rows(self) -> int:
        """The rows of the accumulator of one instruction, in all CTAs."""
        return self.rows * self.ctas

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The start of each instruction's part of the accumulator."""
        rows, columns = range(0, self.shape[0], self.rows), range(0, self.shape[1], self.columns)
        return [(m, n) for m in rows for n in columns]

    def write(self, write: Write) -> None:
        """All instructions, by one thread."""
        op, lowerer = self.op, self.lowerer
        predicate, flag = lowerer.scalar(op.predicate), lowerer.scalar(op.uses_accumulator)
        if op.barriers:
            lowerer.barrier()
        with one_thread(lowerer, predicate, pairs=self.ctas == 2) as elected:
            a, b = self._left(), self._right()
            for at in self.parts:
                use = flag
                for step in range(self.steps):
                    accumulator = self._address(lowerer.buffer(self.d).address, at)
                    operands = [accumulator, a(at[0], step), b(at[1], step)]
                    write(at, step, use, [("i1", elected), *operands])
                    use = ALWAYS
            for barrier, chosen in zip(op.barriers, op.barrier_predicates, strict=True):
                commit(lowerer, barrier, elected, lowerer.scalar(chosen), self._sources(), pairs=self.ctas == 2)

    def _sources(self) -> list[Value]:
        """The buffers whose other CTAs' barriers are signalled, too."""
        shared = [value for value in (self.a, self.b) if buffer_type(value).space == SHARED_MEMORY]
        return shared if self.op.multicast else []

    def _address(self, base: str, at: tuple[int, int]) -> Typed:
        """The address of a part of the accumulator."""
        row, column, *_ = self._places.apply(**dict(zip(self._places.ins, at, strict=False)))
        return _moved(self.lowerer, base, row << ROW | column * self._bits // WORD)

    def _left(self) -> Callable[[int, int], Typed]:
        depth = self._depth // self._packing[0]
        type = buffer_type(self.a)
        if type.space == TENSOR_MEMORY:
            places, base = memory_of(type).pseudo_invert(), self.lowerer.buffer(self.a).address

            def at(row: int, step: int) -> Typed:
                first, column, *_ = places.apply(**dict(zip(places.ins, (row, step * depth), strict=True)))
                return _moved(self.lowerer, base, first << ROW | column * type.element.bits // WORD)

            return at
        left = OperandInMemory(self.lowerer, self.op, self.a, Tile(0, self.rows, depth), fixed=OF_TCGEN05)
        return lambda row, step: ("i64", left.at(row, step * depth))

    def _right(self) -> Callable[[int, int], Typed]:
        depth = self._depth // self._packing[1]
        right = OperandInMemory(
            self.lowerer, self.op, self.b, Tile(1, self.columns // self.ctas, depth), fixed=OF_TCGEN05
        )
        return lambda column, step: ("i64", right.at(column, step * depth))


def _demand_plain(op: TensorCoreMma) -> None:
    """Demand that a product of a pair of CTAs with 64 rows in each has no scales, and all operands in shared memory."""
    what = "a product of pairs of CTAs with 64 rows in each"
    if isinstance(op, TensorCoreMmaScaled):
        raise refused(op, f"{what} and scales", "give each 128 rows")
    if buffer_type(op.a).space == TENSOR_MEMORY:
        raise refused(op, f"{what} and its left operand in tensor memory", "take it from shared memory")


def _moved(lowerer: Lowerer, base: str, distance: int) -> Typed:
    """An address in tensor memory as an operand."""
    return "i32", lowerer.w.emit(f"add i32 {base}, {distance}") if distance else base


def _write(
    product: _Mma,
    kind: str,
    operands: Sequence[Typed],
    extra: Sequence[Typed],
    use: str,
) -> None:
    """One instruction: predicate, accumulator and operands, then the instruction descriptor, and whether to add."""
    _, _, (left, _), _ = operands
    given = [*operands, *extra, ("i1", use)]
    places = ["[ $1 + 0 ]", "[ $2 + 0 ]" if left == "i32" else "$2", "$3", "$4"]
    places += [f"[ ${5 + index} + 0 ]" for index in range(len(extra) - 1)]
    text = f"@$0 tcgen05.mma.cta_group::{product.ctas}.kind::{kind} {', '.join([*places, f'${len(given) - 1}'])};"
    product.lowerer.assembly(text, given)


@contextmanager
def one_thread(lowerer: Lowerer, predicate: str, *, pairs: bool) -> Iterator[str]:
    """Code for one thread of the first warp, if `predicate` holds; yields an i1 that only that thread has set.

    Args:
        pairs: only in the even CTA of each pair.
    """
    w = lowerer.w
    first = first_of(lowerer, int(pairs), w.emit(f"icmp eq i32 {uniform_warp(lowerer)}, 0"))
    if predicate not in (ALWAYS, "1"):
        first = w.emit(f"and i1 {first}, {predicate}")
    with w.branch(first) as branch, branch.then():
        chosen = w.call("{ i32, i1 }", "llvm.nvvm.elect.sync", [("i32", "-1")])
        yield w.emit(f"extractvalue {{ i32, i1 }} {chosen}, 1")


def commit(
    lowerer: Lowerer, barrier: Value, elected: str, predicate: str, sources: Sequence[Value] = (), *, pairs: bool
) -> None:
    """`barrier` is signalled when all products that this thread has started are done.

    Args:
        elected: holds in the thread that signals it.
        predicate: whether to.
        sources: buffers; the same barriers of all CTAs that have the same parts of one are signalled.
        pairs: both CTAs of a pair are signalled.
    """
    w = lowerer.w
    chosen = elected if predicate in (ALWAYS, "1") else w.emit(f"and i1 {elected}, {predicate}")
    address = w.emit(f"ptrtoint {SHARED_POINTER} {buffer_pointer(lowerer, barrier)} to i32")
    signalled = _signalled_ctas(lowerer, sources, pairs=pairs)
    form = "mbarrier::arrive::one.shared::cluster" + (".multicast::cluster" if signalled else "")
    text = f"@$0 tcgen05.commit.cta_group::{2 if pairs else 1}.{form}.b64 [$1]{', $2' if signalled else ''};"
    mask: list[Typed] = [("i16", w.emit(f"trunc i32 {signalled} to i16"))] if signalled else []
    lowerer.assembly(text, [("i1", chosen), ("i32", address), *mask])


def _signalled_ctas(lowerer: Lowerer, sources: Sequence[Value], *, pairs: bool) -> str:
    """The mask of the CTAs whose barriers are signalled, an i32; empty for this one alone."""
    groups = {buffer_layout(buffer_type(source)).free_masks()["block"] | int(pairs) for source in sources} or {pairs}
    masks = [group_mask(lowerer, int(bits)) for bits in sorted(groups) if bits]
    while len(masks) > 1:
        masks.append(lowerer.w.emit(f"or i32 {masks.pop()}, {masks.pop()}"))
    return masks[0] if masks else ""


def lower_commit(lowerer: Lowerer, op: TensorCoreCommit) -> None:
    """Write a `ttng.tc_gen5_commit`."""
    predicate, pairs = op.predicate, works_in_pairs(op)
    with one_thread(lowerer, ALWAYS if predicate is None else lowerer.scalar(predicate), pairs=pairs) as elected:
        commit(lowerer, op.barrier, elected, ALWAYS, op.buffers, pairs=pairs)


def _is_across(operand: Value, axis: int) -> bool:
    """Whether elements follow each other across K: then the right operand is turned."""
    type = buffer_type(operand)
    if type.space == TENSOR_MEMORY:
        return False
    return contiguous_axis(type) == axis


class _Scales:
    """The places of the scales of each instruction."""

    def __init__(self, lowerer: Lowerer, kind: ScaledKind, product: _Mma, scales: Sequence[Value]) -> None:
        self.lowerer, self.kind = lowerer, kind
        self._bases = [lowerer.buffer(scale).address for scale in scales]
        self._product = product
        words = -(-product.steps // kind.instructions_per_word)
        rows, columns = product.shape[0] // product.rows, product.shape[1] // product.columns
        self._repeats = rows, columns
        types = map(buffer_type, scales)
        sizes = [allocated(tensor_memory_encoding(type.encoding), type.shape, 8)[1] for type in types]
        self._columns = [-(-size // (count * words)) for size, count in zip(sizes, self._repeats, strict=True)]
        self._columns[1] = max(self._columns[1], MIN_SCALE_COLUMNS)

    def at(self, at: tuple[int, int], step: int) -> list[Typed]:
        """The addresses of both scales."""
        word = step // self.kind.instructions_per_word
        indices = at[0] // self._product.rows, at[1] // self._product.columns
        found = []
        for base, index, repeats, columns in zip(self._bases, indices, self._repeats, self._columns, strict=True):
            found.append(_moved(self.lowerer, base, (index + word * repeats) * columns))
        return found


BITS_OF_ROWS = 5


class Form(NamedTuple):
    """One form of the instruction.

    Attributes:
        name: as in PTX.
        bits: of a row that it copies.
    """

    name: str
    bits: int


COPIED = {
    (False, False): Form("128x256b", 256),
    (True, False): Form("64x128b.warpx2::02_13", 128),
    (False, True): Form("64x128b.warpx2::01_23", 128),
    (True, True): Form("32x128b.warpx4", 128),
}
"""The forms of copies, by whether warps 0 and 1, and warps 0 and 2, get the same rows."""
NARROW = Form("128x128b", 128)


def form_of(places: LinearLayout, bits: int) -> Form:
    """The form that copies to these places.

    Args:
        places: from row, col (in elements) and block of tensor memory to the offset in shared memory.
        bits: bits of an element.
    """
    rows = [row[0] for row in places.bases["row"]]
    first, second = rows[BITS_OF_ROWS] == 0, rows[BITS_OF_ROWS + 1] == 0
    if not first and not second and places.in_size("col") * bits == NARROW.bits:
        return NARROW
    return COPIED[first, second]


def lower_copy(lowerer: Lowerer, op: TmemCopy) -> None:
    """Write a `ttng.tmem_copy`."""
    source, target, barrier = op.source, op.target, op.barrier
    bits = buffer_type(source).element.bits
    places = memory_of(buffer_type(target)).invert_and_compose(buffer_layout(buffer_type(source)))
    form = form_of(places, bits)
    step = form.bits // bits
    one_warp = places.with_columns(row=places.columns["row"][:BITS_OF_ROWS])
    base, pairs = lowerer.buffer(target).address, works_in_pairs(op)
    with one_thread(lowerer, ALWAYS, pairs=pairs) as elected:
        tile = Tile(0, ROWS_OF_A_WARP, step)
        rows = OperandInMemory(lowerer, op, source, tile, fixed=OF_TCGEN05, places=one_warp)
        for column in range(0, places.in_size("col"), step):
            address = _moved(lowerer, base, column * bits // WORD)
            text = f"@$0 tcgen05.cp.cta_group::{2 if pairs else 1}.{form.name} [$1], $2;"
            lowerer.assembly(text, [("i1", elected), address, ("i64", rows.at(0, column))])
        if barrier is not None:
            commit(lowerer, barrier, elected, ALWAYS, pairs=pairs)


LOWERINGS: dict[str, Lowering] = {
    "ttng.tc_gen5_commit": lower_commit,
    "ttng.tc_gen5_mma": lower_mma,
    "ttng.tc_gen5_mma_scaled": lower_scaled_mma,
    "ttng.tmem_copy": lower_copy,
}
