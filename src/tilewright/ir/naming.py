"""The names of values and blocks in text, chosen as in MLIR.

A region's own values are named before those of the regions inside it; if `%x` is taken, the name is `%x_0`, with one
counter for the whole function. Unnamed values get numbers, unnamed block arguments `%arg0`, constants `%c1_i32`.
"""

from __future__ import annotations

import re

from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import FloatType, IndexType, i1

_UNSAFE = re.compile(r"[^\w$.\-]", re.ASCII)


class Names:
    """Names of all values and blocks under one op; without one, no names.

    Args:
        of_program: values are called as the variables that hold them.
    """

    __slots__ = ("_argument", "_conflict", "_number", "_of_program", "_taken", "_used", "blocks", "values")

    def __init__(self, op: Op | None = None, *, of_program: bool = True) -> None:
        self._of_program = of_program
        self.values: dict[Value, str] = {}
        self.blocks: dict[Block, str] = {}
        self._used: set[str] = set()
        self._taken: list[str] = []
        self._number = self._argument = self._conflict = 0
        if op is not None:
            self._name_results(op)
            for region in op.regions:
                self._name_region(region)

    def _name_region(self, region: Region) -> None:
        """Name what the region defines, then, each from the same counters, the regions inside."""
        start = self._number, self._argument, self._conflict
        before = len(self._taken)
        for position, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{position}"
            self._name_arguments(block, entry=position == 0)
            op = block.first
            while op is not None:
                if op.results:
                    self._name_results(op)
                op = op.next
        for block in region.blocks:
            for op in block:
                for inner in op.regions:
                    self._name_region(inner)
        self._number, self._argument, self._conflict = start
        self._used.difference_update(self._taken[before:])
        del self._taken[before:]

    def _name_arguments(self, block: Block, *, entry: bool) -> None:
        for argument in block.args:
            if (hint := self._hint(argument)) is not None:
                self.values[argument] = self._unique(hint)
            elif entry:
                self.values[argument] = self._unique(f"arg{self._argument}")
            else:
                self.values[argument] = self._next_number()
            self._argument += entry

    def _name_results(self, op: Op) -> None:
        results = op.results
        if not results:
            return
        if op.definition.result_names:
            for result, default in zip(results, op.definition.result_names, strict=False):
                self.values[result] = self._unique(self._hint(result) or default)
            return
        first = results[0]
        hint = self._hint(first)
        if hint is None and op.definition.constant:
            hint = constant_name(op)
        name = self._next_number() if hint is None else self._unique(hint)
        self.values[first] = name
        if len(results) > 1:
            for result in results:
                self.values[result] = f"{name}#{result.index}"

    def _hint(self, value: Value) -> str | None:
        return value.name if self._of_program else None

    def _next_number(self) -> str:
        self._number += 1
        return f"%{self._number - 1}"

    def _unique(self, hint: str) -> str:
        base = name = "%" + safe_name(hint)
        used = self._used
        while name in used:
            name = f"{base}_{self._conflict}"
            self._conflict += 1
        used.add(name)
        self._taken.append(name)
        return name


def safe_name(hint: str) -> str:
    """`hint` with what MLIR does not allow in names replaced; a leading digit gets an underscore."""
    if hint.isidentifier() and hint.isascii():
        return hint
    hint = _UNSAFE.sub(lambda match: f"{ord(match[0]):X}", hint)
    return f"_{hint}" if not hint or hint[0].isdigit() else hint


def constant_name(op: Op) -> str:
    """`c1_i32`, `true`, `c0` for an index; `cst` for floats and tensors."""
    attribute, type = op.attributes.get("value"), op.results[0].type
    if type.shape is not None or isinstance(type, FloatType) or not isinstance(attribute, Number):
        return "cst"
    if type is i1:
        return "true" if attribute.value else "false"
    return f"c{attribute.value}" if isinstance(type, IndexType) else f"c{attribute.value}_{type.text}"
