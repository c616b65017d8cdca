"""PTX text → `PtxModule`.

    module = parse_ptx(".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { ret; }")
    module.functions["k"].instructions[0].parts       # ("ret",)

Inner scopes (`{ .reg .b32 t; … }`, as inline assembly has them) are flattened: their registers and labels get names
of their own. Comments go first, by as many blanks, so that lines keep their numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from tilewright.backends.ptxsim.errors import SimulationError, SourcePlace
from tilewright.backends.ptxsim.operand_parser import OperandParser, split_operands
from tilewright.backends.ptxsim.syntax import Function, Instruction, PtxModule, Variable
from tilewright.backends.ptxsim.value_types import TYPES

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_HEADER = re.compile(r"\.version\s+(?P<version>[\d.]+)\s+\.target\s+(?P<target>\w+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_FUNCTION = re.compile(
    r"\.(?P<kind>entry|func)\s*(?P<results>\((?:[^()]|\([^()]*\))*\))?\s*(?P<name>[\w$%]+)\s*"
    r"(?P<parameters>\([^()]*\))?(?P<directives>[^{;]*)(?P<end>[{;])",
)
_VARIABLE = re.compile(
    r"\.(?P<space>global|shared|const|local|param)\s+(?P<attributes>(?:\.(?:align\s+\d+|ptr|global|shared|const)\s+)*)"
    r"\.(?P<type>\w+)\s+(?P<attributes2>(?:\.(?:align\s+\d+|ptr|global|shared|const)\s+)*)"
    r"(?P<name>[\w$%]+)\s*(?P<extents>(?:\[\s*\d*\s*\]\s*)*)(?:=\s*(?P<initial>\{[^}]*\}|[^;,]+))?"
)
_DIRECTIVE = re.compile(r"\.(\w+)((?:\s+\d+(?:\s*,\s*\d+)*)?)")
_STATEMENT = re.compile(
    r"\s*(?:(?P<open>\{)|(?P<close>\})|(?P<label>[\w$%]+)\s*:(?!:)"
    r"|(?P<loc>\.(?:loc|file)\b[^\n;]*);?|(?P<statement>[^;{}]*(?:\{[^{}]*\}[^;{}]*)*);)"
)
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_GUARD = re.compile(r"@\s*(!?)\s*([%\w$]+)\s+(.*)", re.S)
_OPCODE = re.compile(r"([\w.:]+)\s*(.*)", re.S)
_REGISTERS = re.compile(r"\.reg\s+(?:\.v\d\s+)?\.(\w+)\s+(.*)", re.S)
_RANGE = re.compile(r"(\S+?)<(\d+)>")
_INNER_LABEL = re.compile(r"(?:^|[;{}])\s*([A-Za-z_$][\w$]*)\s*:(?!:)", re.M)


def parse_ptx(text: str) -> PtxModule:
    """Read a PTX text.

    Raises:
        SimulationError: it is no PTX; ptxas would refuse it as well.
    """
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
        self.line_starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
        self.files: dict[int, str] = {}

    def line(self, position: int) -> int:
        return bisect_right(self.line_starts, position)

    def module(self) -> PtxModule:
        header = _HEADER.search(self.text)
        if header is None:
            raise SimulationError("syntax", "the text has no `.version` and `.target`")
        for number, name, folder in _FILE.findall(self.text):
            self.files[int(number)] = f"{name}/{folder}" if folder else name
        result = PtxModule(header["version"], header["target"], [], {})
        position = header.end()
        while found := _FUNCTION.search(self.text, position):
            result.variables += self.variables(self.text[position : found.start()], found.start())
            function = self.function_head(found)
            position = found.end()
            if found["end"] == "{":
                position = _BodyParser(self, function).parse(position)
            if function.defined or function.name not in result.functions:
                result.functions[function.name] = function
        tail = re.split(r"\n\s*\.section\b", self.text[position:])[0]
        result.variables += self.variables(tail, position)
        return result

    def function_head(self, found: re.Match[str]) -> Function:
        directives = {
            name: tuple(int(n) for n in numbers.split(",")) if numbers.strip() else ()
            for name, numbers in _DIRECTIVE.findall(found["directives"])
        }
        parameters = self.variables((found["parameters"] or "")[1:-1].replace(",", ";"), found.start())
        results = self.variables((found["results"] or "")[1:-1].replace(",", ";"), found.start())
        return Function(found["name"], found["kind"] == "entry", parameters, results, directives)

    def variables(self, text: str, _position: int) -> list[Variable]:
        return [self.variable(found) for found in _VARIABLE.finditer(text)]

    def variable(self, found: re.Match[str]) -> Variable:
        element = TYPES[found["type"]].bytes
        extents = re.findall(r"\[\s*(\d*)\s*\]", found["extents"])
        size = element
        for extent in extents:
            size *= int(extent or 0)
        # `.ptr .align n` speaks of what the pointer points at.
        attributes = (found["attributes"] or "") + (found["attributes2"] or "")
        align = re.search(r"\.align\s+(\d+)", attributes) if ".ptr" not in attributes else None
        initial = (found["initial"] or "").strip().strip("{}")
        operands = OperandParser({}, {}).parse_all(split_operands(initial)) if initial else ()
        if extents and not size and initial:
            size = element * len(operands)
        return Variable(found["name"], found["space"], int(align[1]) if align else element, size, element, operands)


class _Scope:
    """The meaning of names inside one pair of braces."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.names: dict[str, str] = {}


class _BodyParser:
    """One function's statements, from the brace on."""

    def __init__(self, outer: _Parser, function: Function) -> None:
        self.outer, self.function = outer, function
        function.defined = True
        self.scopes = [_Scope(0)]
        self.made = 0
        self.label = ""
        self.source: SourcePlace | None = None
        self.operands = OperandParser(function.registers, {})

    def parse(self, position: int) -> int:
        """Read up to the closing brace; returns the position behind it."""
        text = self.outer.text
        while True:
            found = _STATEMENT.match(text, position)
            if found is None:
                raise SimulationError("syntax", "cannot read this statement", line=self.outer.line(position))
            position = found.end()
            if found["open"]:
                self.open_scope(position)
            elif found["close"]:
                self.close_scope()
                if not self.scopes:
                    return position
            elif found["label"]:
                self.label = self.resolve(found["label"])
                self.function.labels[self.label] = len(self.function.instructions)
            elif found["loc"]:
                self.note_place(found["loc"])
            else:
                self.statement(found["statement"].strip(), self.outer.line(found.start("statement")))

    def open_scope(self, position: int) -> None:
        self.made += 1
        scope = _Scope(self.made)
        self.scopes.append(scope)
        for label in _INNER_LABEL.findall(self.scope_text(position)):
            scope.names[label] = f"{label}@{scope.number}"
        self.rename()

    def scope_text(self, position: int) -> str:
        depth, end = 1, position
        for found in re.compile(r"[{}]").finditer(self.outer.text, position):
            depth += 1 if found[0] == "{" else -1
            if not depth:
                end = found.start()
                break
        return self.outer.text[position:end]

    def close_scope(self) -> None:
        self.scopes.pop()
        if self.scopes:
            self.rename()

    def rename(self) -> None:
        names: dict[str, str] = {}
        for scope in self.scopes:
            names.update(scope.names)
        self.operands = OperandParser(self.function.registers, names)

    def resolve(self, name: str) -> str:
        return self.operands.names.get(name, name)

    def note_place(self, text: str) -> None:
        found = _LOC.match(text)
        if found is None:
            return
        files = self.outer.files
        caller = None
        if found[4]:
            caller = SourcePlace(files.get(int(found[4]), "?"), int(found[5]), int(found[6]))
        self.source = SourcePlace(files.get(int(found[1]), "?"), int(found[2]), int(found[3]), caller)

    def statement(self, text: str, line: int) -> None:
        if not text or text.startswith((".pragma", ".callprototype")):
            return
        if text.startswith(".reg"):
            self.declare_registers(text, line)
        elif text.startswith(".branchtargets"):
            names = split_operands(text.removeprefix(".branchtargets"))
            self.function.tables[self.label] = tuple(self.resolve(name) for name in names if name)
        elif text.startswith((".local", ".shared", ".param", ".const", ".global")):
            self.declare_variables(text)
        else:
            self.instruction(text, line)

    def declare_registers(self, text: str, line: int) -> None:
        found = _REGISTERS.match(text)
        assert found, f"a declaration of registers has a type: {text}"
        if found[1] not in TYPES:
            raise SimulationError("unsupported", f"registers of .{found[1]} are not simulated", line=line)
        bits = TYPES[found[1]].bits
        for item in found[2].split(","):
            several = _RANGE.match(item.strip())
            if several:
                names = [f"{several[1]}{number}" for number in range(int(several[2]))]
            else:
                names = [item.strip()]
            for name in names:
                self.function.registers[self.declared(name)] = bits

    def declared(self, name: str) -> str:
        """The name inside the function of what the innermost scope declares."""
        if len(self.scopes) == 1:
            return name
        scope = self.scopes[-1]
        scope.names[name] = f"{name}@{scope.number}"
        self.rename()
        return scope.names[name]

    def declare_variables(self, text: str) -> None:
        for variable in self.outer.variables(text, 0):
            variable.name = self.declared(variable.name)
            self.function.variables.append(variable)

    def instruction(self, text: str, line: int) -> None:
        guard = _GUARD.match(text)
        body = guard[3] if guard else text
        opcode = _OPCODE.match(body)
        if opcode is None:
            raise SimulationError("syntax", f"cannot read `{text}`", line=line)
        self.function.instructions.append(
            Instruction(
                parts=tuple(opcode[1].split(".")),
                operands=self.operands.parse_all(split_operands(opcode[2])),
                guard=self.resolve(guard[2]) if guard else None,
                guard_negated=bool(guard and guard[1]),
                line=line,
                text=" ".join(text.split()),
                source=self.source,
            )
        )
