"""If-conversion: branches in combine functions of reductions and scans become selections of both sides.

^bb0(%a: i32, %b: i32):                              ^bb0(%a: i32, %b: i32):
  %c = arith.cmpi sgt, %a, %b                          %c = arith.cmpi sgt, %a, %b
  %r = scf.if %c { yield %a } else {          →        %d = arith.addi %b, %one
    %d = arith.addi %b, %one; yield %d }               %r = arith.select %c, %a, %d

No operand traps and nothing in there accesses memory, so this changes no result.
"""

from __future__ import annotations

from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.scf import If
from tilewright.dialects.tt_reduce import Fold
from tilewright.ir.attributes import span_of
from tilewright.ir.core import Block, Op, Value
from tilewright.support.diagnostics import NotSupported, located
from tilewright.transforms.op_builder import OpBuilder


def if_conversion(module: Op) -> bool:
    """Replace branches in combine functions by selections; returns whether there were any.

    Raises:
        Unsupported: there is a loop in one, in a branch something that has effects, or a number that is no element's.
    """
    changed = False
    for op in module.ops_of(Fold):
        changed |= _flatten(op.combine, is_pure=False)
        for inner in op.combine:
            if not _is_of_elements(inner, op.combine):
                raise _refused(inner, "the CPU computes it from two elements and constants")
    return changed


def _flatten(block: Block, *, is_pure: bool) -> bool:
    changed = False
    for op in list(block):
        if isinstance(op, If):
            for arm in op.arms:
                _flatten(arm.block, is_pure=True)
            _select(op)
            changed = True
        elif op.regions or (is_pure and not _computes(op)):
            raise _refused(op, "the CPU computes all elements at once")
    return changed


def _refused(op: Op, reason: str) -> Exception:
    return located(NotSupported(f"{op.name} in a function of elements", reason), span_of(op.location))


def _is_of_elements(op: Op, combine: Block) -> bool:
    """Whether an op is computed from elements and constants alone."""
    inside = [v.owner is combine if v.op is None else v.op.block is combine for v in op.operands]
    constants = [v.op is not None and v.op.definition.constant for v in op.operands]
    has_elements = bool(op.operands) or op.definition.constant or op.definition.terminator
    return has_elements and all(a or b for a, b in zip(inside, constants, strict=True))


def _computes(op: Op) -> bool:
    return op.definition.terminator or op.definition.constant or is_elementwise(op)


def _select(branch: If) -> None:
    """Put the code of both sides before the branch, and selections in its place."""
    at = OpBuilder(branch)
    yielded: list[list[Value]] = []
    for arm in branch.arms:
        for op in list(arm.block):
            if op.definition.terminator:
                yielded.append(list(op.operands))
            else:
                op.unlink()
                at.insert(op)
    results = []
    for result, *sides in zip(branch.results, *yielded, strict=True) if branch.results else ():
        results.append(at.emit("arith.select", [branch.condition, *sides], result.type))
    branch.replace(results)
