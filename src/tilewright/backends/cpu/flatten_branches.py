"""Branches inside of what reductions and scans apply to elements become selections: both sides are computed.

^bb0(%a: i32, %b: i32):                              ^bb0(%a: i32, %b: i32):
  %c = arith.cmpi sgt, %a, %b                          %c = arith.cmpi sgt, %a, %b
  %r = scf.if %c { yield %a } else {          →        %d = arith.addi %b, %one
    %d = arith.addi %b, %one; yield %d }               %r = arith.select %c, %a, %d

No operand traps and nothing in there touches memory, so this changes no result.
"""

from __future__ import annotations

from tilewright.backends.cpu.insertion import insert, op_before
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.spans import span_of
from tilewright.support.diagnostics import NotSupported, located

OF_ELEMENTS = frozenset(("tt.reduce", "tt.scan"))


def flatten_branches(module: Op) -> None:
    """Leave straight code in every region of these ops.

    Raises:
        Unsupported: there is a loop in one, or in a branch something that has effects.
    """
    for op in [op for op in module.walk() if op.name in OF_ELEMENTS]:
        _flatten(op.regions[0].block, is_pure=False)


def _flatten(block: Block, *, is_pure: bool) -> None:
    for op in list(block):
        if op.name == "scf.if":
            for region in op.regions:
                if region.blocks:
                    _flatten(region.block, is_pure=True)
            _select(op)
        elif op.regions or (is_pure and not _computes(op)):
            reason = "the CPU computes all elements at once"
            raise located(NotSupported(f"{op.name} in a function of elements", reason), span_of(op.location))


def _computes(op: Op) -> bool:
    return op.definition.terminator or op.definition.constant or is_elementwise(op)


def _select(branch: Op) -> None:
    """Put the code of both sides in front of the branch, and selections in its place."""
    yielded: list[list[Value]] = []
    for region in branch.regions:
        for op in list(region.block) if region.blocks else ():
            if op.definition.terminator:
                yielded.append(list(op.operands))
            else:
                op.unlink()
                insert(op, branch)
    condition, results = branch.operands[0], []
    for result, *sides in zip(branch.results, *yielded, strict=True) if branch.results else ():
        results.append(op_before(branch, "arith.select", [condition, *sides], result.type))
    branch.replace(results)
