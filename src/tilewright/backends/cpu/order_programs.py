"""The order in which a thread runs the programs of a grid: programs that are neighbours in memory run in sequence.

    rows = program_id(0) * 32 + range;  columns = program_id(1) * 32 + range
    store(out + rows[:, None] * stride + columns[None, :], …)

`program_id(0)` varies fastest by default, so the programs would walk down a column of tiles, and access 32 other lines
of memory, mostly on other pages, each time. Here the step along y is 128 bytes and the one along x is large, so the
function gets `program_order = "yx"`: y varies fastest.

A kernel cannot rely on an order of programs. Programs that might observe one another keep the default order all the
same.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.integer_forms import Form
from tilewright.analysis.value_forms import ValueForms
from tilewright.backends.llvm.cpu_costs import PAGE
from tilewright.dialects.traits import Atomic, DotLike
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.core import Op, Value
from tilewright.transforms.functions import functions_of, is_public

NEAR = PAGE
"""Max distance, in bytes, of the tiles of neighbours."""
ORDER = "program_order"
"""The attribute of a function, the axes of the grid from the one that runs fastest on."""


def order_programs(module: Op) -> bool:
    """Make y the fastest axis of functions whose tiles are neighbours along y, not x; returns whether any was.

    Products of tiles share the rows of one factor or the columns of the other, in either order: they keep theirs.
    """
    changed = False
    for function in functions_of(module):
        if is_public(function) and ORDER not in function.attributes and _is_better_by_y(function):
            function.attributes[ORDER] = "yx"
            changed = True
    return changed


def order_of(function: Func) -> str:
    """The axes of the grid, from the one that runs fastest on."""
    return "yxz" if ORDER in function.attributes else "xyz"


def _is_better_by_y(function: Func) -> bool:
    if not {"x", "y"} <= {op.axis for op in function.ops_of(ProgramId)}:
        return False
    ops = list(function.walk())
    moving_x, moving_y = (_dependents(ops, axis) for axis in "xy")
    if not moving_x or not moving_y or any(sees_others(op) or isinstance(op, DotLike) for op in ops):
        return False
    forms = ValueForms(sees_scalars=True)
    addresses = [forms.of(op.pointer) for op in ops if isinstance(op, (Load, Store))]
    steps = [_Steps(_step(address, moving_x), _step(address, moving_y)) for address in addresses]
    both = [step for step in steps if step.x != 0 and step.y != 0]
    return bool(both) and all(step.is_near_along_y() for step in both)


def sees_others(op: Op) -> bool:
    """Whether programs may see one another's work through `op`; or whether it is a call of whatever."""
    return isinstance(op, (Atomic, Call)) or (isinstance(op, Load) and op.is_volatile)


class _Steps(NamedTuple):
    """The distance of the tiles of neighbours along each axis, in bytes; None if known only at launch."""

    x: int | None
    y: int | None

    def is_near_along_y(self) -> bool:
        """Whether neighbours along y are near, and nearer than along x."""
        return self.y is not None and self.y <= NEAR and (self.x is None or self.x > self.y)


def _dependents(ops: list[Op], axis: str) -> set[Value]:
    """The values that are computed from the number of the program along `axis`."""
    found = set[Value]()
    for op in ops:
        if _is_program_id(op, axis) or not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _step(address: Form, moving: set[Value]) -> int | None:
    """How far an address moves from program to program; `moving`: the values that do."""
    found: int | None = 0
    for monomial, table in address.terms.items():
        if any(symbol.source in moving for symbol in monomial):
            is_number = len(monomial) == 1 and isinstance(monomial[0].source.op, ProgramId) and table.is_uniform
            found = abs(table.first) if is_number and found == 0 else None
    return found


def _is_program_id(op: Op, axis: str) -> bool:
    return isinstance(op, ProgramId) and op.name == "tt.get_program_id" and op.axis == axis
