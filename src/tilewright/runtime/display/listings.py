"""The texts of a kernel's stages, each line with its source line, as text or as HTML.

    for listing in matched_stages(kernel):          # source, ttir, loops, asm; of a GPU's kernel ttir, ttgir, ptx
        listing.title, listing.lines[0].text, listing.lines[0].source

A kernel keeps its texts without locations. So it is compiled once more with locations, and lines get theirs from that
as far as the texts agree. A kernel that was compiled from text has nothing but the text.

In HTML, tokens are coloured by kind, and lines that come from one source line have one colour.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from tilewright.backends.base import BaseBackend, StageTable, options_facts
from tilewright.backends.registry import make_backend
from tilewright.compiler.compile import compile_kernel
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.runtime.function_source import source_lines
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.sources import ASTSource
from tilewright.support.diagnostics import TilewrightError
from tilewright.support.named_tuple import NamedTuple


class Line(NamedTuple):
    """A line of a listing, and the line of the source that it comes from (0: none)."""

    text: str
    source: int = 0


class Listing(NamedTuple):
    """The text of one stage."""

    title: str
    lines: Sequence[Line]


SHOWN = ("ttir", "loops", "ttgir", "asm", "ptx")
"""The stages that are shown, as far as a kernel has them."""
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_AT_END = re.compile(r" loc\((.*)\)$")
_WITHIN = re.compile(r" loc\((?:unknown|#loc\d*)\)")
_NAMED = re.compile(r'(#loc\d*)|"([^"]*)":(\d+):')
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', re.MULTILINE)
_LOC = re.compile(r"\s+\.loc\s+(\d+)\s+(\d+)")
_DIRECTIVE = re.compile(r"\s*\.(?:loc|file|cfi_\w+|section\s+\.debug|ident|addrsig)|\.L(?:tmp|func_begin|func_end)\d+:")


class Place(NamedTuple):
    """Where a function stands: a file and its lines."""

    file: str
    lines: range

    @classmethod
    def of(cls, python: Any) -> Place:
        """The place of a Python function."""
        first = python.__code__.co_firstlineno
        return cls(python.__code__.co_filename, range(first, first + len(source_lines(python))))

    def line(self, file: str, number: int) -> int:
        """The number, or 0 for places elsewhere."""
        return number if number in self.lines and file == self.file else 0


def source_listing(python: Any) -> Listing:
    """The text of a function."""
    first = python.__code__.co_firstlineno
    return Listing("source", [Line(line.rstrip("\n"), first + i) for i, line in enumerate(source_lines(python))])


def matched_stages(kernel: CompiledKernel) -> list[Listing]:
    """The source of a kernel, as far as it is known, and its stages."""
    texts = {name: str(kernel.asm[name]) for name in SHOWN if name in kernel.asm}
    source = kernel.src
    if not isinstance(source, ASTSource):
        return [Listing(name, unmatched(text)) for name, text in texts.items()]
    try:
        place = Place.of(source.fn.fn)
    except ValueError:  # bytecode without a source
        return [Listing(name, unmatched(text)) for name, text in texts.items()]
    backend = make_backend(kernel.metadata.target)
    located = located_stages(source, backend, options_of(kernel, backend), place)
    shown = [Listing(name, agreeing(text, located.get(name, ()))) for name, text in texts.items()]
    return [source_listing(source.fn.fn), *shown]


def options_of(kernel: CompiledKernel, backend: BaseBackend) -> dict[str, Any]:
    """The options that a kernel was compiled with."""
    names = options_facts(backend.parse_options({}))
    facts = kernel.metadata._asdict()
    return {name: facts[name] for name in names if name in facts}


def located_stages(
    source: ASTSource, backend: BaseBackend, options: Mapping[str, Any], place: Place
) -> dict[str, list[Line]]:
    """The stages of a kernel by name, lines with their places; none where the kernel does not compile so."""
    recorder = _Recorder(backend, place)
    given = {**options, "debug_info": "lines"}
    try:
        compile_kernel(
            source.origin,
            name=source.name.removeprefix("@"),
            signature=source.specs,
            digest="",
            backend=backend,
            options=backend.parse_options(given),
            edit=recorder.edit,
        )
    except (TilewrightError, ValueError, KeyError):
        return {}
    return recorder.found


class _Recorder:
    """Puts itself around the stages of a table, and notes what they make; the last stage, code, is left out."""

    def __init__(self, backend: BaseBackend, place: Place) -> None:
        self._backend, self._place = backend, place
        self.found: dict[str, list[Line]] = {}

    def edit(self, stages: StageTable) -> None:
        """Record every stage."""
        for name, make in list(stages.items()):
            if name in ("obj", "cubin"):
                stages[name] = lambda product, facts: b""
            else:
                stages[name] = self._recorded(name, make)

    def _recorded(self, name: str, make: Any) -> Any:
        def run(product: Any, facts: dict[str, Any]) -> Any:
            made = make(product, facts)
            self._note(name, made)
            return made

        return run

    def _note(self, name: str, made: Any) -> None:
        if isinstance(made, Op):
            text = print_op(made, locations=True)
            self.found[name] = ir_lines(text, self._place)
            made_of, write = self._backend.on_request.get("loops", ("", str))
            if made_of == name:
                self.found["loops"] = ir_lines(write(text), self._place)
        elif name == "llir" and self._backend.assembly_ext:
            self.found["asm"] = assembly_lines(self._backend.assembly({"llir": str(made)}), self._place)
        elif name == "ptx":
            self.found["ptx"] = assembly_lines(str(made), self._place)


def unmatched(text: str) -> list[Line]:
    """The lines of a text without known locations."""
    return [Line(line) for line in text.splitlines()]


def agreeing(text: str, located: Sequence[Line]) -> list[Line]:
    """The lines of a text with the places that the same lines have in another one, where the two agree.

    In assembly only instructions count: directives differ, and those about places are left out.
    """
    kept = [line for line in text.splitlines() if not _DIRECTIVE.match(line)]
    is_assembly = any(map(_is_instruction, kept))
    counting = [line for line in located if not is_assembly or _is_instruction(line.text)]
    places = iter(counting)
    if [line.text for line in counting] != [line for line in kept if not is_assembly or _is_instruction(line)]:
        return [Line(line) for line in kept]
    return [next(places) if not is_assembly or _is_instruction(line) else Line(line) for line in kept]


def _is_instruction(line: str) -> bool:
    return line.startswith("\t") and not line.startswith("\t.")


def ir_lines(printed: str, place: Place) -> list[Line]:
    """The lines of a module that was printed with its locations, without them."""
    aliases = dict(_ALIAS.findall(printed))
    lines = []
    for line in printed.splitlines():
        if _ALIAS.match(line):
            continue
        found = _AT_END.search(line)
        numbers = [number for number in _lines(found[1], aliases, place) if number] if found else []
        lines.append(Line(_WITHIN.sub("", _AT_END.sub("", line)), numbers[0] if numbers else 0))
    return lines


def _lines(location: str, aliases: Mapping[str, str], place: Place) -> Iterator[int]:
    """The lines of the place that a location names, also by way of other locations."""
    for alias, file, number in _NAMED.findall(location):
        if alias:
            yield from _lines(aliases.get(alias, ""), aliases, place)
        else:
            yield place.line(file, int(number))


def assembly_lines(text: str, place: Place) -> list[Line]:
    """The lines of assembly with debug information; an instruction is from the line that the last `.loc` names."""
    files = {number: f"{folder}/{name}" if name else folder for number, folder, name in _FILE.findall(text)}
    lines, current = [], 0
    for line in text.splitlines():
        if found := _LOC.match(line):
            current = place.line(files.get(found[1], ""), int(found[2]))
        lines.append(Line(line, current if _is_instruction(line) else 0))
    return lines


HUES = (210, 30, 140, 280, 0, 180, 60, 320, 100, 250)
"""Colours of the lines of a source, which begin again after the last one; neighbours are far apart."""
PYTHON = re.compile(
    rf"(?P<comment>\#.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<keyword>@[\w.]+|\b(?:{'|'.join(keyword.kwlist)})\b)"
    r"|(?P<number>\b\d[\w.]*)"
)
CODE = re.compile(
    r"(?P<comment>^\s*[;.][\w.]+.*$|\bloc\(.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<value>%[\w.#:]+|\br\d+\b)"
    r"|(?P<keyword>\b[a-z]\w*\.[a-z_.]+|^\t[a-z]\w*|\b[A-Z][A-Z_]{2,}\b)|(?P<number>\b\d[\w.]*)"
)
COLOURS = """--paper: light-dark(#fff, #15181d); --ink: light-dark(#1f2733, #dde3ea);
  --faint: light-dark(#6b7682, #8b96a3); --edge: light-dark(#d8dee6, #323a45);
  --panel: light-dark(#f6f8fa, #1c2128); --accent: light-dark(#0a6b7c, #5cc8da);
  --comment: light-dark(#6a737d, #8b949e); --string: light-dark(#0a6640, #7ee2a8);
  --keyword: light-dark(#8a1c9c, #d2a8ff); --number: light-dark(#0550ae, #79c0ff);
  --value: light-dark(#9a4a00, #ffa657); --lit: light-dark(#ffe08a, #6b5600)"""
"""The colours of pages, as custom properties; for those that follow `color-scheme`."""
WORDS = "".join(f".{kind} {{ color: var(--{kind}) }} " for kind in ("comment", "string", "keyword", "number", "value"))
"""The rules for the words that `coloured` marks."""


def rows(listing: Listing, first: int, words: re.Pattern[str]) -> str:
    """The lines of a listing; `first` is the line of the source that has the first colour."""
    return "".join(row(line, first, words) for line in listing.lines)


def row(line: Line, first: int, words: re.Pattern[str]) -> str:
    """A line with the number of its line in the source, if it has one."""
    hue = f' style="--hue:{HUES[(line.source - first) % len(HUES)]}"' if line.source else ""
    text = coloured(line.text, words) or " "
    return f'<div data-line="{line.source}"{hue}><i>{line.source or ""}</i>{text}</div>'


def coloured(text: str, words: re.Pattern[str]) -> str:
    """The text with its words marked by kind."""
    parts, end = [], 0
    for found in words.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(f'<span class="{found.lastgroup}">{escape(found[0])}</span>')
        end = found.end()
    return "".join([*parts, escape(text[end:])])
