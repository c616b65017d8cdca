"""MLIR text of ops, exactly as Triton prints it.

    print_op(module)                    tt.func public @f(%x: i32) … {
                                          %y = arith.addi %x, %x : i32
    print_op(module, locations=True)      … loc(#loc3)   and the #loc aliases around the module

A dialect's `print(printer, op)` writes the text after the op's name; ops without such a function, and ops with missing
operands, are printed in MLIR's generic form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from tilewright.ir.aliases import AttributeAliases, alias_text
from tilewright.ir.attributes import (
    UNIT,
    Attribute,
    Dense,
    DenseArray,
    Keyword,
    Number,
    Opaque,
    Symbol,
    Unit,
)
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.dominance import predecessors
from tilewright.ir.literals import number_text, quoted
from tilewright.ir.location_text import LocationAliases, LocationCollector
from tilewright.ir.naming import Names
from tilewright.ir.operands import operand_groups_fit
from tilewright.ir.types import OLDER_LAYOUTS, VERSIONS, FunctionType, Spelling, TensorType, Type, Version, f64, i1, i64

_BARE_NAME = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_BARE_SYMBOL = re.compile(r"[A-Za-z_][\w$.\-]*", re.ASCII)


def print_op(op: Op, *, locations: bool = False, names: bool = True, triton: str = "3.5") -> str:
    """The text of `op` and everything in it, ending with a line break.

    Args:
        op: usually a module.
        locations: also print where every op comes from.
        names: values are called as the variables of the program.
        triton: the version of Triton whose spelling to use, a key of `VERSIONS`.
    """
    given = Names(op, of_program=names)
    aliases = AttributeAliases()
    version = VERSIONS[triton]
    spelling = Spelling(aliases.mark if version.cga_layout else partial(_older, aliases), version)
    if not locations:
        lines, text = aliases.resolve(_text(op, given, spelling, None))
        return alias_text(lines) + text
    collector = LocationCollector()
    _text(op, given, spelling, collector)
    places = LocationAliases(collector)
    lines, text = aliases.resolve(_text(op, given, spelling, places))
    return alias_text([*lines, *places.leading_lines()]) + text + places.trailing_text()


def _older(aliases: AttributeAliases, text: str) -> str:
    """An attribute for a version of Triton before `cga_layout`."""
    for respell in OLDER_LAYOUTS:
        text = respell(text)
    return aliases.mark(text)


def _text(op: Op, names: Names, spelling: Spelling, places: LocationAliases | LocationCollector | None) -> str:
    printer = Printer(names, places, spelling)
    printer.op(op)
    return "".join(printer.pieces)


class Printer:
    """Collects text; dialects write through it.

    Args:
        names: of values and blocks.
        places: how to print locations; None: not at all.
        spelling: how to write types; by default in full.
    """

    def __init__(
        self,
        names: Names,
        places: LocationAliases | LocationCollector | None = None,
        spelling: Spelling | None = None,
    ) -> None:
        self.pieces: list[str] = []
        self.write = self.pieces.append
        self._values = names.values
        self._blocks = names.blocks
        self._places = places
        self._spelling = spelling or Spelling()
        self._type_texts: dict[Type, str] = {}
        self._indent = ""

    @property
    def version(self) -> Version:
        """The version of Triton for which the text is."""
        return self._spelling.version

    # Values and types

    def value(self, value: Value) -> str:
        """`%x`; a value from outside the printed op is `%<x?>`."""
        name = self._values.get(value)
        return name if name is not None else f"%<{value.name or ''}?>"

    def values(self, values: Iterable[Value]) -> str:
        """`%x, %y`."""
        return ", ".join([self.value(value) for value in values])

    def types(self, values: Iterable[Value]) -> str:
        """The types of values: `i32, f32`."""
        return ", ".join([self.type(value.type) for value in values])

    def type(self, type: Type) -> str:
        """The text of a type."""
        found = self._type_texts.get(type)
        if found is None:
            found = self._type_texts[type] = type.spelled(self._spelling)
        return found

    def type_body(self, type: Type) -> str:
        """The text of a type from its first `<` on, as some formats abbreviate it."""
        text = self.type(type)
        return text[text.index("<") :]

    def signature(self, op: Op) -> str:
        """`(i32, f32) -> f32`: the types of operands and results."""
        return self.function([v.type for v in op.operands], [r.type for r in op.results])

    def function(self, inputs: Iterable[Type], outputs: Iterable[Type]) -> str:
        """`(i32, f32) -> f32`."""
        return self.type(FunctionType(tuple(inputs), tuple(outputs)))

    def successors(self, blocks: Iterable[Block]) -> str:
        return ", ".join(self.block_name(block) for block in blocks)

    def block_name(self, block: Block) -> str:
        return self._blocks.get(block, "^<unknown>")

    # Attributes

    def attributes(self, attributes: Mapping[str, Attribute], skip: Collection[str] = ()) -> str:
        """` {a = 1 : i32, b}` without the names in `skip`; nothing when none is left."""
        if not attributes:
            return ""
        left = {name: a for name, a in attributes.items() if name not in skip} if skip else attributes
        return f" {{{self.entries(left)}}}" if left else ""

    def entries(self, attributes: Mapping[str, Attribute]) -> str:
        """`a = 1 : i32, b`, sorted by name."""
        return ", ".join(
            attribute_name(name) if attribute is UNIT else f"{attribute_name(name)} = {self.attribute(attribute)}"
            for name, attribute in sorted(attributes.items())
        )

    def attribute(self, attribute: Attribute, *, elide: bool = False) -> str:
        """MLIR's text of an attribute; `elide` leaves out the types i64 and f64, as arrays do."""
        if isinstance(attribute, Type):
            return self.type(attribute)
        if isinstance(attribute, Number):
            return self._number(attribute, elide)
        return _ATTRIBUTE_TEXT[attribute.__class__](self, attribute)

    def opaque(self, attribute: Opaque) -> str:
        """`#dialect.name<…>`, or its alias."""
        return self._spelling.attribute(attribute.text)

    def dense(self, dense: Dense) -> str:
        """`dense<[0, 1]> : tensor<2xi32>`."""
        return f"dense<{_nested_text(dense.values, dense.type)}> : {self.type(dense.type)}"

    def _number(self, number: Number, elide: bool) -> str:
        value, type = number
        if type.shape is not None:
            return f"dense<{number_text(value, type)}> : {self.type(type)}"
        if type is i1 or (elide and (type is i64 or type is f64)):
            return number_text(value, type)
        return f"{number_text(value, type)} : {type.text}"

    # Structure

    def line(self, text: str) -> None:
        """Go on in a new line, with `text`."""
        self.write(f"\n{self._indent}{text}")

    def op(self, op: Op) -> None:
        """One line (or more, with regions) for `op`."""
        write = self.write
        if self._places is not None:
            self._places.begin(op.location)
        write(self._indent)
        results = op.results
        if results:
            name = self._values[results[0]]
            if len(results) > 1:
                name = self._result_names(op)
            write(f"{name} = ")
        definition = op.definition
        complete = len(op.operands) >= definition.operands[0]
        if definition.print is not None and complete and (not definition.operand_names or operand_groups_fit(op)):
            write(definition.spelling or op.name)
            definition.print(self, op)
        else:
            self.generic(op)
        if self._places is not None:
            write(self._places.trailing(op.location))
        write("\n")

    def _result_names(self, op: Op) -> str:
        """`%a, %b` where the op kind names its results, else `%a:2`."""
        if op.definition.result_names:
            return self.values(op.results)
        return f"{self._values[op.results[0]].partition('#')[0]}:{len(op.results)}"

    def generic(self, op: Op) -> None:
        """MLIR's generic form; attributes with a dot in their name are not the op's own and stand last."""
        write = self.write
        write(f'"{op.name}"({self.values(op.operands)})')
        if op.successors:
            write(f"[{self.successors(op.successors)}]")
        own = {name: a for name, a in op.attributes.items() if "." not in name}
        if own:
            write(f" <{{{self.entries(own)}}}>")
        if op.regions:
            write(" (")
            for position, region in enumerate(op.regions):
                write(", " if position else "")
                self.region(region)
            write(")")
        write(self.attributes(op.attributes, own))
        write(f" : {self.signature(op)}")

    def argument(self, value: Value, extra: str = "") -> str:
        """`%x: i32`, with its location when those are printed."""
        location = ""
        if self._places is not None:
            location = self._places.inline(value.location)
        return f"{self._values[value]}: {self.type(value.type)}{extra}{location}"

    def region(self, region: Region, *, entry_arguments: bool = True, terminator: bool = True) -> None:
        """`{ … }`.

        Args:
            region: what to print.
            entry_arguments: name the entry block if it has arguments; without, the op's header has done so.
            terminator: print the entry block's last op also when it has no operands.
        """
        self.write("{\n")
        outer, self._indent = self._indent, self._indent + "  "
        before = predecessors(region) if len(region.blocks) > 1 else {}
        for position, block in enumerate(region.blocks):
            if position or (entry_arguments and block.args):
                self.write(outer + self._block_header(block, before.get(block, []), entry=position == 0))
            for op in block:
                hidden = not terminator and op is block.last and op.definition.terminator and not op.operands
                if not hidden:
                    self.op(op)
        self._indent = outer
        self.write(outer + "}")

    def _block_header(self, block: Block, before: Sequence[Block], *, entry: bool) -> str:
        arguments = f"({', '.join(map(self.argument, block.args))})" if block.args else ""
        note = ""
        if len(before) == 1:
            note = f"  // pred: {self.block_name(before[0])}"
        elif before:
            note = f"  // {len(before)} preds: {self.successors(before)}"
        elif not entry:
            note = "  // no predecessors"
        return f"{self.block_name(block)}{arguments}:{note}\n"


@cache
def attribute_name(name: str) -> str:
    return name if _BARE_NAME.fullmatch(name) else quoted(name)


def symbol_text(name: str) -> str:
    """`@name`, quoted where it must be."""
    return f"@{name}" if _BARE_SYMBOL.fullmatch(name) else f"@{quoted(name)}"


def _dense_array_text(array: DenseArray) -> str:
    values = ", ".join(number_text(value, array.element) for value in array.values)
    return f"array<{array.element.text}: {values}>" if values else f"array<{array.element.text}>"


def _nested_text(values: Sequence[int | float], type: Type) -> str:
    assert isinstance(type, TensorType)

    def nest(part: Sequence[int | float], shape: tuple[int, ...]) -> str:
        if not shape:
            return number_text(part[0], type)
        step = len(part) // shape[0] if shape[0] else 0
        return "[" + ", ".join(nest(part[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])) + "]"

    return nest(values, type.shape)


_ATTRIBUTE_TEXT: dict[type, Callable[[Printer, Any], str]] = {
    bool: lambda printer, flag: "true" if flag else "false",
    str: lambda printer, text: quoted(text),
    Keyword: lambda printer, keyword: str(keyword.name),
    Opaque: Printer.opaque,
    Symbol: lambda printer, symbol: symbol_text(symbol.name),
    Unit: lambda printer, unit: "unit",
    Dense: Printer.dense,
    DenseArray: lambda printer, array: _dense_array_text(array),
    dict: lambda printer, entries: f"{{{printer.entries(entries)}}}",
    tuple: lambda printer, parts: f"[{', '.join(printer.attribute(part, elide=True) for part in parts)}]",
}
