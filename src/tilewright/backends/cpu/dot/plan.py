"""The plan of a dot: the block, what is packed, and the bodies, decided before loops are built."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.cpu.dot.arithmetic import Arithmetic, as_matrices, by_tiles, select_arithmetic
from tilewright.backends.cpu.dot.micro import Shape, micro_shape
from tilewright.backends.cpu.dot.spec import DotSpec, Offset
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.cpu_costs import CACHE_LINE, SINGLE_ROW, CpuCosts
from tilewright.backends.llvm.machine import Target
from tilewright.ir.core import Value

MANY_PANELS = 4
"""Min panels for which copying A pays off: a transposed one where vectors are narrow, any where rows are paired."""

FEW_PANELS = 2
"""Max panels of a tile in which the columns of a last one may be computed vector by vector."""


COPIED_BLOCKS = 8
"""Min blocks of C that read a transposed A for which copying pays off if its rows lie on one set of the L1 cache."""


MERGED_ROW_BYTES = 512
"""Max bytes of a row of A in iterations that are multiplied at once by tiles: 1024 take 1 to 5 % longer."""

MAX_MERGED_BY_TILES = 8
"""Max iterations that are multiplied at once by tiles, a power of two."""


@dataclass(frozen=True)
class Plan:
    """All that is decided about a dot before code is written."""

    spec: DotSpec
    by: Arithmetic
    shape: Shape
    costs: CpuCosts

    @property
    def groups(self) -> int:
        return self.spec.k // self.by.group

    @property
    def depth(self) -> Offset:
        """The number of groups that count."""
        return self.groups if self.spec.depth is None else self.spec.depth

    @property
    def packs_a(self) -> bool:
        """Whether A is packed: if transposed, it has each k on another cache line, and every panel reads it again.

        Words of two rows have to lie side by side where one instruction takes both: putting them there takes as long as
        two panels lose by it.
        """
        if self.pairs_a:
            return True
        far = isinstance(self.spec.a_stride, Value) and self.panels >= MANY_PANELS
        is_narrow = self.shape.lanes * self.by.word_bytes < CACHE_LINE
        return self.spec.a_transposed and (self.by.group > 1 or (far and is_narrow))

    @property
    def may_copy_a(self) -> bool:
        """Whether a transposed A is copied if it is known at launch that its rows lie on one set of the L1 cache.

        Each block of C reads a part of every cache line of them.
        """
        spec = self.spec
        lies_apart = spec.a_transposed and isinstance(spec.a_stride, Value) and spec.a_step == 1
        is_read_often = spec.m // self.shape.rows * self.panels >= COPIED_BLOCKS
        return self.costs.copies_colliding and lies_apart and is_read_often and self.by.group == 1

    @property
    def pairs_a(self) -> bool:
        """Whether A, which lies row by row, is packed for an instruction that takes two rows: if it has all rows."""
        is_whole = self.spec.rows is None or not isinstance(self.spec.a_stride, Value)
        pays_off = self.panels >= MANY_PANELS and self.groups % 2 == 0
        return self.by.square and not self.spec.a_transposed and is_whole and pays_off

    @property
    def cuts_a(self) -> bool:
        """Whether A may end behind the last row that counts: it is read in place, row by row."""
        return not self.spec.a_transposed and isinstance(self.spec.a_stride, Value)

    @property
    def copies_last_rows(self) -> bool:
        """Whether a last block of rows that do not all exist is copied, as a tile of A has all of its rows."""
        return self.by.tiles and self.cuts_a and self.spec.rows is not None

    @property
    def prefetches(self) -> bool:
        """Whether the next operands are prefetched: not for few rows, where that takes long beside multiply-adds."""
        return not self.by.tiles and self.spec.m >= self.costs.prefetched_rows

    @property
    def merged_by_tiles(self) -> int:
        """How many iterations are multiplied at once by tiles where that may be, a power of two."""
        return max(1, min(MERGED_ROW_BYTES // (self.spec.k * self.by.element_bytes), MAX_MERGED_BY_TILES))

    @property
    def copy_bytes(self) -> int:
        """The bytes that a block of rows of A takes in the workspace."""
        return _lines(self.shape.rows * self.spec.k * self.by.element_bytes)

    @property
    def adds_bias(self) -> bool:
        return self.by.biased and not self.spec.a_biased

    @property
    def adds_last(self) -> bool:
        """Whether a whole block of C is read after the last step.

        Steps over groups are few, so waiting for C at their start costs 5 to 10 %; fetched early it is there at their
        end. Blocks of one vector wait for their multiply-adds anyway.
        """
        return self.by.group > 1 or self.costs.adds_results_last

    @property
    def packs_b(self) -> bool:
        spec = self.spec
        far = isinstance(spec.b_stride, Value) and self.rereads_b
        return spec.b_transposed or self.by.group > 1 or far or spec.b_step != 1

    @property
    def rereads_b(self) -> bool:
        """Whether B is read so often that packing is cheaper than many rows of it on one set of the L1 cache.

        Where programs share it, half as often is enough.
        """
        most = self.costs.in_place_blocks // 2 if self.spec.b_shared else self.costs.in_place_blocks
        return self.spec.m > most * self.shape.rows

    @property
    def reads_vectors(self) -> bool:
        """Whether the micro-kernel may read B where it lies, vector by vector, if its columns are neighbours."""
        return self.by.group == 1 and not self.spec.b_transposed

    @property
    def column_step(self) -> int:
        """The columns of B that are read and multiplied together, where only some count.

        These are those of one vector where a vector is a good part of the tile, and those of a panel in wider tiles,
        where a second body would cost more to compile than it saves.
        """
        return self.shape.lanes if self.reads_vectors and self.panels <= FEW_PANELS else self.shape.columns

    @property
    def half_rows(self) -> int:
        """The rows of half a block, which has a body where the rows that count may end in one; 0 where it has none."""
        is_long = self.spec.m > 2 * self.shape.rows >= 4 * SINGLE_ROW
        return self.shape.rows // 2 if is_long and self.reads_vectors else 0

    @property
    def expects_few_rows(self) -> bool:
        """Whether there is a second body, for single rows: in tiles of one or two blocks of rows that may end early."""
        is_short = self.spec.rows is not None and self.spec.m <= 2 * self.shape.rows
        return is_short and self.shape.rows >= SINGLE_ROW and self.reads_vectors

    @property
    def fetches_by_rows(self) -> bool:
        """Whether a step of a single row has time to ask for the lines of another row of B: it waits for its chains."""
        return self.spec.n * self.by.word_bytes <= self.costs.chains // 2 * CACHE_LINE

    @property
    def panels(self) -> int:
        return self.spec.n // self.shape.columns

    @property
    def a_bytes(self) -> int:
        """Workspace for the packed A, or for its last rows."""
        if self.copies_last_rows:
            return self.merged_by_tiles * self.copy_bytes
        return _lines(self.spec.m * self.spec.k * self.by.element_bytes) if self.packs_a or self.may_copy_a else 0

    @property
    def panel_bytes(self) -> int:
        """Workspace for one packed panel of B, without its column sums."""
        return _lines(self.groups * self.shape.columns * self.by.word_bytes) if self.packs_b else 0

    @property
    def panel_step(self) -> int:
        """The distance of packed panels: each is followed by its column sums, if there are any."""
        return self.panel_bytes + (_lines(self.shape.columns * 4) if self.by.biased else 0)


def _lines(bytes: int) -> int:
    return -(-bytes // CACHE_LINE) * CACHE_LINE


def plan_of(spec: DotSpec, target: Target) -> Plan | None:
    """The plan to compute the dot by blocks; None when the tile is smaller than one step of the instruction."""
    if any(extent < 1 or extent & (extent - 1) for extent in (spec.m, spec.n, spec.k)):
        raise ValueError(f"the extents of a dot are powers of two, not {spec.m}×{spec.n}×{spec.k}")
    if spec.a_type is not spec.b_type:
        raise ValueError(f"the operands of a dot lie in memory as one type, not {spec.a_type} and {spec.b_type}")
    by = select_arithmetic(spec.a_type, spec.acc_type, target)
    if by.group > 1 and (spec.k < by.group or spec.n < 4):
        return None
    by = by_tiles(as_matrices(by, spec.m, spec.n, spec.k, target), spec, target)
    if by.biased and spec.b_transposed and spec.k < 16:
        return None
    return Plan(spec, by, micro_shape(spec.m, spec.n, by, target), target.costs)


def takes_steps(spec: DotSpec, operand: int, target: Target) -> bool:
    """Whether the columns of A (operand 0) or B (operand 1) may lie apart from each other.

    A is read word by word; B is packed. Neither works with words that are groups of neighbours.
    """
    whole = select_arithmetic(spec.a_type, spec.acc_type, target).group == 1
    return whole and (operand == 0 or not spec.b_transposed)


def columns_read(ops: LoopBuilder, spec: DotSpec, columns: Value, target: Target) -> Value | None:
    """How many columns of B are read where `columns` of them count and neighbours lie side by side; None: all."""
    plan = plan_of(spec, target)
    if plan is None or not plan.reads_vectors:
        return None
    return ops.and_(ops.add(columns, plan.column_step - 1), -plan.column_step)
