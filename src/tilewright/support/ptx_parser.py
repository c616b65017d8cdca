"""PTX text → data: whole modules for the GPU simulator, inline assembly for machines without a GPU.

    module = parse_ptx(".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { ret; }")
    module.functions["k"].instructions[0].parts       # ("ret",)
    parse_inline("add.u32 $0, $1, 1", {"$0": 32, "$1": 32}).instructions[0].operands[1]      # Register("$1")

Inner scopes (`{ .reg .b32 t; … }`, as inline assembly has them) are flattened: their registers and labels get names of
their own. Comments are replaced by as many blanks first, so that positions do not change.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping

from tilewright.support.ptx_syntax import (
    TYPE_BITS,
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Not,
    Operand,
    Pair,
    PtxError,
    PtxModule,
    Register,
    Sink,
    SourcePlace,
    Special,
    Symbol,
    Variable,
    Vector,
    whole_number,
)

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
_WHOLE = r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)"
_NUMBER = re.compile(rf"-?(?:0[fF][0-9a-fA-F]{{8}}|0[dD][0-9a-fA-F]{{16}}|\d+\.\d*(?:[eE][-+]?\d+)?|{_WHOLE}U?)")
_SUM = re.compile(rf"(.*?)\s*([+-])\s*(-?{_WHOLE})", re.S)
_NAME = re.compile(r"[%A-Za-z_$][\w$@.]*")
_GENERIC = re.compile(r"generic\s*\((.*)\)", re.S)


def parse_ptx(text: str) -> PtxModule:
    """Read a PTX text.

    Raises:
        PtxError: it is no PTX; ptxas would refuse it as well.
    """
    return _Parser(text).module()


def parse_inline(text: str, registers: Mapping[str, int]) -> Function:
    """Read statements that stand in no function; the last one may do without its semicolon.

    Args:
        text: the statements.
        registers: bits of the registers that are declared elsewhere, by name.

    Raises:
        PtxError: it is no PTX, or declares registers of unknown types.
    """
    outer = _Parser(f"{text}\n;}}")
    body = Function("", entry=False, parameters=[], results=[], directives={}, registers=dict(registers))
    end = _BodyParser(outer, body).parse(0)
    if end < len(outer.text):
        raise PtxError("syntax", "a closing brace has no opening one", outer.line(end))
    return body


def split_operands(text: str) -> list[str]:
    """The pieces between commas that stand in no brackets."""
    if not any(bracket in text for bracket in "{[("):
        return [piece.strip() for piece in text.split(",")] if text.strip() else []
    pieces, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and not depth:
            pieces.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces


class OperandParser:
    """Reads operands where some registers are declared, and inner names stand for others; remembers what it read."""

    def __init__(self, registers: Mapping[str, int], names: Mapping[str, str]) -> None:
        self.registers, self.names = registers, names
        self._known: dict[str, Operand] = {}

    def parse_all(self, texts: Iterable[str]) -> tuple[Operand, ...]:
        return tuple(self.parse(text) for text in texts if text)

    def parse(self, text: str) -> Operand:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._parse(text)
        return found

    def _parse(self, text: str) -> Operand:
        if text[0] == "{":
            return Vector(self.parse_all(split_operands(text[1:-1])))
        if text[0] == "(":
            return Group(self.parse_all(split_operands(text[1:-1])))
        if text[0] == "[":
            return self._address(text[1:-1].strip())
        if text[0] == "!":
            return Not(self.parse(text[1:].strip()))
        if "|" in text:
            first, second = text.split("|")
            return Pair(self.parse(first.strip()), self.parse(second.strip()))
        return self._single(text)

    def _single(self, text: str) -> Operand:
        if text == "_":
            return Sink()
        if _NUMBER.fullmatch(text):
            return Immediate(text.rstrip("U"))
        if inner := _GENERIC.fullmatch(text):
            return self.parse(inner[1].strip())
        if _NAME.fullmatch(text):
            name = self.names.get(text, text)
            if name in self.registers:
                return Register(name)
            return Special(name) if name[0] == "%" or name == "WARP_SZ" else Symbol(name)
        if found := _SUM.fullmatch(text):
            base = self.parse(found[1])
            if isinstance(base, Symbol):
                sign = -1 if found[2] == "-" else 1
                return Symbol(base.name, base.offset + sign * whole_number(found[3]))
        raise PtxError("syntax", f"cannot read the operand `{text}`")

    def _address(self, text: str) -> Address:
        base, *rest = split_operands(text)
        coordinates = self.parse_all(rest)
        if found := _SUM.fullmatch(base):
            sign = -1 if found[2] == "-" else 1
            return Address(self.parse(found[1].strip()), sign * whole_number(found[3]), coordinates)
        return Address(self.parse(base), 0, coordinates)


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
            raise PtxError("syntax", "the text has no `.version` and `.target`")
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
        element = TYPE_BITS[found["type"]] // 8
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
                ends = not text[position:].strip()
                what = "an opening brace has no closing one" if ends else "cannot read this statement"
                raise PtxError("syntax", what, self.outer.line(position))
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
        if found is None:
            raise PtxError("syntax", f"cannot read `{text}`", line)
        bits = TYPE_BITS.get(found[1])
        if bits is None:
            raise PtxError("unsupported", f"registers of type `.{found[1]}` are not known here", line)
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
            raise PtxError("syntax", f"cannot read `{text}`", line)
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
