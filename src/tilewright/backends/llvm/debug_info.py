"""Debug information: the source line of each instruction, and the variables of a kernel.

    %v3 = add i32 %v1, %v2, !dbg !9
      #dbg_value(i32 %v3, !7, !DIExpression(), !9)
    …
    !9 = !DILocation(line: 12, column: 9, scope: !4)

`debug_writer.py` writes modules with debug information. An instruction gets the innermost location of the op from which
it is generated. Locations in other files, of inlined functions, keep the kernel as their scope.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tilewright.backends.llvm.spelling import bits_of, element_of, is_float
from tilewright.ir.attributes import Location, span_of
from tilewright.ir.core import Op, Value
from tilewright.ir.types import PointerType, Type

FIRST_NODE = 2
"""The numbers below are the writer's."""
_FLAGS = ('!{i32 2, !"Debug Info Version", i32 3}', '!{i32 2, !"Dwarf Version", i32 4}')


class DebugInfo:
    """The metadata of one module, and the place that is being written for.

    Attributes:
        suffix: what instructions end with now.
    """

    def __init__(self, *, variables: bool) -> None:
        self.suffix = ""
        self._has_variables = variables
        self._nodes: list[str] = []
        self._numbers: dict[str, str] = {}
        self._unit = self._scope = self._file = ""
        self._variables: dict[tuple[str | None, Location], str] = {}
        self._named: dict[Op, list[Value]] = {}
        self._places: dict[Location, str] = {}

    def subprogram(self, function: Op, name: str) -> str:
        """Begin the function of the program that is written as `name`; the node that describes it."""
        place = span_of(function.location)
        self._file = self._file_node(place.file)
        self._unit = self._unit or self._node(
            f'distinct !DICompileUnit(language: DW_LANG_Python, file: {self._file}, producer: "Tilewright", '
            f"isOptimized: true, emissionKind: {'FullDebug' if self._has_variables else 'LineTablesOnly'})"
        )
        kind, kept = self._node(f"!DISubroutineType(types: {self._node('!{}')})"), self._reserved()
        self._scope = self._node(
            f"distinct !DISubprogram(name: {_quoted(name)}, scope: {self._file}, file: {self._file}, "
            f"line: {place.line}, type: {kind}, unit: {self._unit}, spFlags: DISPFlagDefinition, retainedNodes: {kept})"
        )
        self._places = {}  # of another scope now
        self._variables = self._variables_of(function) if self._has_variables else {}
        self._nodes[int(kept[1:]) - FIRST_NODE] = f"!{{{', '.join(dict.fromkeys(self._variables.values()))}}}"
        self.suffix = f", !dbg {self._place(function.location)}"
        return self._scope

    @contextmanager
    def inside(self, op: Op) -> Iterator[None]:
        """Make the lines written until the end of the `with` belong to `op`."""
        outer = self.suffix
        self.suffix = f", !dbg {self._place(op.location)}"
        yield
        self.suffix = outer

    def shows(self, value: Value, type: str, name: str) -> str | None:
        """The line that says: the variable that holds `value` is `name` from here on."""
        variable = None if value.op is None else self._variables.get((value.name, value.op.location))
        if variable is None or value.op is None:
            return None
        return f"    #dbg_value({type} {name}, {variable}, !DIExpression(), {self._place(value.op.location)})"

    def lines(self) -> list[str]:
        """The nodes."""
        flags = ", ".join(map(self._node, _FLAGS))
        named = [f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{flags}}}"]
        return named + [f"!{number} = {text}" for number, text in enumerate(self._nodes, FIRST_NODE)]

    def remember(self, functions: Iterable[Op]) -> None:
        """Note the named values of functions, which are variables even where lowering leaves nothing of them."""
        for function in functions:
            self._named[function] = [value for op in function.walk() for value in op.results if value.name]

    def _variables_of(self, function: Op) -> dict[tuple[str | None, Location], str]:
        """The variables of all values, by name and place: what values become in loops has both, too."""
        named = self._named.get(function) or [v for op in function.walk() for v in op.results if v.name]
        return {(v.name, v.op.location): self._variable(v) for v in named if v.op}

    def _variable(self, value: Value) -> str:
        assert value.op is not None, "the result of an op"
        line = span_of(value.op.location).line
        name, kind = value.name or "", self._type(value.type)
        return self._node(
            f"!DILocalVariable(name: {_quoted(name)}, scope: {self._scope}, file: {self._file}, line: {line}, "
            f"type: {kind})"
        )

    def _type(self, type: Type) -> str:
        scalar = type.scalar
        element = "ptr" if isinstance(scalar, PointerType) else element_of(scalar)
        size = 64 if element == "ptr" else max(8, bits_of(element))
        encoding = "address" if element == "ptr" else "float" if is_float(element) else "signed"
        return self._node(f"!DIBasicType(name: {_quoted(type.text)}, size: {size}, encoding: DW_ATE_{encoding})")

    def _place(self, location: Location) -> str:
        found = self._places.get(location)
        if found is None:
            found = self._places[location] = self._new_place(location)
        return found

    def _new_place(self, location: Location) -> str:
        span = span_of(location)
        if not span.file:
            return self._node(f"!DILocation(line: 0, scope: {self._scope})")
        file, scope = self._file_node(span.file), self._scope
        if file != self._file:
            scope = self._node(f"!DILexicalBlockFile(scope: {scope}, file: {file}, discriminator: 0)")
        return self._node(f"!DILocation(line: {span.line}, column: {span.column}, scope: {scope})")

    def _file_node(self, path: str) -> str:
        folder, name = os.path.split(path)
        return self._node(f"!DIFile(filename: {_quoted(name)}, directory: {_quoted(folder)})")

    def _node(self, text: str) -> str:
        """The number of a node; equal nodes are one."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = self._reserved()
            self._nodes[int(number[1:]) - FIRST_NODE] = text
        return number

    def _reserved(self) -> str:
        self._nodes.append("")
        return f"!{len(self._nodes) - 1 + FIRST_NODE}"


def _quoted(text: str) -> str:
    """A string of metadata."""
    return '"' + "".join(f"\\{ord(c):02X}" if c in '"\\' or c < " " else c for c in text) + '"'
