"""Index-set splitting: selections between loads of two arrays are marked, so that rows are split there.

    %on = arith.cmpi slt, %column, %n                     %on = arith.cmpi slt, %column, %n
    %off = arith.cmpi sge, %column, %n                    %off = arith.cmpi sge, %column, %n
    %v = tt.load %p, %on                           →      %v = tt.load %p, %on
    %w = tt.load %q, %off                                 %w = tt.load %q, %off
    %x = arith.select %on, %v, %w                         %x = arith.select %on, %v, %w {cpu.splits}

    for lane = low to high step 16      is to be      for lane = low to min(n, high) step 16      loads from p
                                                      for lane = max(n, low) to high step 16      loads from q

Each lane is in one of the two loops, so neither has the other one's load, nor the selection (index-set splitting: J. R.
Allen and K. Kennedy, Automatic translation of FORTRAN programs to vector form, TOPLAS 1987). `nest/pieces.py` splits
the pieces of a row that `//` and `%` divide; such a loop has no version for whole tiles. Two loops cost code, so they
have to save two masked loads: a selection between a load and a constant is kept, and so is one with a volatile load.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.backends.cpu.costs import conjuncts, is_tile, makers
from tilewright.backends.cpu.loop_facts import SPLITS
from tilewright.dialects.arith import CompareIntegers, Select
from tilewright.dialects.cpu import Nest
from tilewright.dialects.tt_memory import Load
from tilewright.ir.attributes import UNIT
from tilewright.ir.core import Op, Value
from tilewright.transforms.arith_rules import MIRRORED, NEGATED


def split_index_sets(module: Op) -> bool:
    """Mark the selections in the nests of `module` (ttcir) at which rows are split; returns whether there are any."""
    nests = [op for op in module.ops_of(Nest) if op.mode == "rows" and not op.optimize_size and not op.square]
    found = [op for nest in nests for op in nest.body.ops_of(Select) if _chooses_array(op)]
    for op in found:
        op.attributes[SPLITS] = UNIT
    return bool(found)


def _chooses_array(op: Select) -> bool:
    """Whether either side of the selection is computed from a load under its own half of the condition."""
    if not is_tile(op.condition):
        return False
    condition = ordering_of(op)
    sides = ((op.chosen, True), (op.other, False))
    return condition is not None and all(_loads_where(value, condition, holds) for value, holds in sides)


def ordering_of(op: Select) -> CompareIntegers | None:
    """The ordering of integers that the selection is by, alone; None if it is by something else."""
    part, *others = (part.op for part in conjuncts(op.condition))
    return part if isinstance(part, CompareIntegers) and not others and part.predicate in MIRRORED else None


def _loads_where(value: Value, condition: CompareIntegers, holds: bool) -> bool:
    """Whether `value` is computed from a load that is masked off wherever `condition` does not turn out as `holds`."""
    loads = [op for op in makers(value) if isinstance(op, Load)]
    parts = [part.op for op in loads if op.mask is not None for part in conjuncts(op.mask)]
    return not any(op.is_volatile for op in loads) and any(says == holds for _, says in truths_of(condition, parts))


def truths_of(condition: CompareIntegers, ops: Iterable[Op | None]) -> list[tuple[Op, bool]]:
    """Those of `ops` that compare what `condition` compares, each with whether it says the same, not the contrary."""
    found: list[tuple[Op, bool]] = []
    for op in ops:
        if isinstance(op, CompareIntegers):
            says = _said_of(op, condition.lhs, condition.rhs)
            if says in (condition.predicate, NEGATED[condition.predicate]):
                found.append((op, says == condition.predicate))
    return found


def _said_of(op: CompareIntegers, lhs: Value, rhs: Value) -> str | None:
    """The predicate by which `op` compares `lhs` with `rhs`; None if it compares something else."""
    if (op.lhs, op.rhs) == (lhs, rhs):
        return op.predicate
    return MIRRORED.get(op.predicate, op.predicate) if (op.rhs, op.lhs) == (lhs, rhs) else None
