"""`tilewright explain`: what the three front ends make of one kernel, side by side, line by line of the source.

tilewright explain examples/vector_add.py:add_kernel -s "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128"
tilewright explain kernels.py:softmax -c BLOCK=1024 --html softmax.html

On the HTML page the source stays at the left. Lines that come from one line of the source have its colour in every
column; pointing at one lights all of them.
"""

from __future__ import annotations

import argparse
import ast
import dis
import inspect
import keyword
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path, PurePath
from types import FunctionType
from typing import NamedTuple

from tilewright.compiler.parameters import front_end_parameters
from tilewright.compiler.signature import ArgumentSpec
from tilewright.frontends.choice import READERS, make_ttir
from tilewright.frontends.errors import NoSource
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.frontends.hir_text import listing
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.runtime.build import build, current_backend
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.sources import ASTSource
from tilewright.support.diagnostics import CompilationError, TilewrightError
from tilewright.tools import show
from tilewright.transforms.pipeline import optimize_ttir


class Line(NamedTuple):
    """A line of a listing, and the line of the source that it comes from (0: none)."""

    text: str
    source: int = 0


class Listing(NamedTuple):
    """The text of one stage of one front end."""

    title: str
    lines: Sequence[Line]


class Explained(NamedTuple):
    """A kernel, and for each front end what it reads and makes.

    Attributes:
        columns: the stages by front end.
    """

    name: str
    place: str
    signature: str
    source: Listing
    columns: dict[str, list[Listing]]


HUES = (210, 30, 140, 280, 0, 180, 60, 320, 100, 250)
"""Colours of the lines of a source, which begin again after the last one; neighbours are far apart."""
_PYTHON = re.compile(
    rf"(?P<comment>\#.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<keyword>@[\w.]+|\b(?:{'|'.join(keyword.kwlist)})\b)"
    r"|(?P<number>\b\d[\w.]*)"
)
_CODE = re.compile(
    r"(?P<comment>^\s*[;.][\w.]+.*$|\bloc\(.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<value>%[\w.#:]+|\br\d+\b)"
    r"|(?P<keyword>\b[a-z]\w*\.[a-z_.]+|\b[A-Z][A-Z_]{2,}\b)|(?P<number>\b\d[\w.]*)"
)


def page(explained: Explained) -> str:
    """One page without references to others."""
    first = explained.source.lines[0].source if explained.source.lines else 0
    source = f"<section><h2>source</h2>{_block(explained.source, first, _PYTHON)}</section>"
    columns = "".join(
        f"<section><h2>{escape(name)}</h2>{''.join(_block(stage, first, _CODE) for stage in stages)}</section>"
        for name, stages in explained.columns.items()
    )
    file = PurePath(explained.place)
    title = f"{escape(explained.name)} · {escape(file.name)}"
    head = f"<h1>{escape(explained.name)}</h1><p>{escape(explained.place)}<br>{escape(explained.signature)}</p>"
    return _PAGE.replace("{title}", title).replace("{head}", head).replace("{body}", source + columns)


def _block(stage: Listing, first: int, words: re.Pattern[str]) -> str:
    if not stage.title:
        return ""
    rows = "".join(_row(line, first, words) for line in stage.lines)
    folded = "" if stage.title == "machine code" else " open"
    return f"<details{folded}><summary>{escape(stage.title)}</summary><pre>{rows}</pre></details>"


def _row(line: Line, first: int, words: re.Pattern[str]) -> str:
    hue = f' style="--hue:{HUES[(line.source - first) % len(HUES)]}"' if line.source else ""
    text = _coloured(line.text, words) or " "
    return f'<div data-line="{line.source}"{hue}><i>{line.source or ""}</i>{text}</div>'


def _coloured(text: str, words: re.Pattern[str]) -> str:
    """The text with its words marked by kind."""
    parts, end = [], 0
    for found in words.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(f'<span class="{found.lastgroup}">{escape(found[0])}</span>')
        end = found.end()
    return "".join([*parts, escape(text[end:])])


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #222; --faint: #777; --tint: 94%; --edge: 60%;
  --comment: #6a737d; --string: #0a6640; --keyword: #8a1c9c; --number: #0550ae; --value: #9a4a00; --lit: #ffe08a }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #ddd; --faint: #888; --tint: 16%; --edge: 45%;
  --comment: #8b949e; --string: #7ee2a8; --keyword: #d2a8ff; --number: #79c0ff; --value: #ffa657; --lit: #5c4a00 } }
body { margin: 0; font: 14px sans-serif; background: var(--paper); color: var(--ink) }
header { position: sticky; left: 0; width: max-content; max-width: 100vw; padding: 1em 1em 0; box-sizing: border-box }
h1 { margin: 0; font-size: 1.6em } h2 { margin: .5em 0 0 } p { margin: .3em 0; color: var(--faint) }
main { display: flex; align-items: flex-start; width: max-content; min-width: 100% }
section { flex: none; padding: 0 1em; max-width: 46em; background: var(--paper) }
section:first-of-type { position: sticky; left: 0; top: 0; max-width: 45vw; max-height: 100vh; overflow-y: auto;
  z-index: 1; border-right: 1px solid var(--faint) }
pre { font: 12px/1.5 monospace; margin: 0 }
pre div { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 1em 0 7em; text-indent: -7em;
  border-left: 3px solid transparent }
pre div[style] { background: hsl(var(--hue) 80% var(--tint)); border-left-color: hsl(var(--hue) 60% var(--edge)) }
pre i { display: inline-block; width: 4em; padding-left: .5em; text-indent: 0; color: var(--faint); font-style: normal }
summary { font-weight: bold; margin: .5em 0 } pre div.lit { background: var(--lit) }
.comment { color: var(--comment) } .string { color: var(--string) } .keyword { color: var(--keyword) }
.number { color: var(--number) } .value { color: var(--value) }
</style></head>
<body><header>{head}</header><main>{body}</main>
<script>
function light(event) {
  const at = event.target.closest("[data-line]");
  for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  if (!at || at.dataset.line === "0") return;
  for (const same of document.querySelectorAll(`[data-line="${at.dataset.line}"]`)) same.classList.add("lit");
}
document.addEventListener("mouseover", light);
</script></body></html>
"""


FRONTENDS = ("ast", "bytecode", "trace")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_AT_END = re.compile(r" loc\((.*)\)$")
_NAMED = re.compile(r'(#loc\d*)|"[^"]*":(\d+):')


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    show.add_kernel_arguments(command)
    command.add_argument("--html", metavar="FILE", type=Path, help="write one page instead of printing")
    command.add_argument("--frontend", action="append", choices=FRONTENDS, help="only this one (may be repeated)")


def run(options: argparse.Namespace) -> int:
    """Print the listings, or write the page."""
    kernel, specs = show.requested(options)
    explained = explain(kernel, specs, options.frontend or FRONTENDS)
    if options.html:
        options.html.write_text(page(explained), encoding="utf-8")
        print(f"wrote {options.html}")
    else:
        print("\n".join(text(explained, shutil.get_terminal_size((160, 24)).columns)))
    return 0


def explain(kernel: JITFunction, specs: Sequence[ArgumentSpec], frontends: Sequence[str] = FRONTENDS) -> Explained:
    """Read and compile a kernel through each front end."""
    lines, first = inspect.getsourcelines(kernel.fn)
    source = Listing("source", [Line(line.rstrip("\n"), first + i) for i, line in enumerate(lines)])
    columns = {frontend: list(_stages(kernel, specs, frontend)) for frontend in frontends}
    place = f"{kernel.fn.__code__.co_filename}:{first}"
    return Explained(kernel.fn.__name__, place, _signature(specs), source, columns)


def _signature(specs: Sequence[ArgumentSpec]) -> str:
    """The signature that the kernel is compiled for."""
    return ", ".join(
        f"{spec.name} = {spec.constant!r}" if spec.is_constant else f"{spec.name}: {spec.type}" for spec in specs
    )


def _stages(kernel: JITFunction, specs: Sequence[ArgumentSpec], frontend: str) -> Iterator[Listing]:
    """What the front end reads, HIR, TTIR, vector loops, machine code; fewer where the front end cannot."""
    python = kernel.fn
    try:
        yield _READ[frontend](python, specs)
        hir = listing(READERS[frontend](python)) if frontend in READERS else ()
        yield Listing("HIR" if hir else "", [Line(*line) for line in hir])
        module = _module(python, specs, frontend)
        optimize_ttir(module)
        yield Listing("TTIR", list(_ir(module, python)))
        source = ASTSource.of(JITFunction(python, frontend=frontend), _symbol(python), specs)
        compiled = build(source, current_backend(), {})
        if "loops" in compiled.asm:
            yield Listing("vector loops", [Line(line) for line in str(compiled.asm["loops"]).splitlines()])
        yield Listing("machine code", [Line(line) for line in str(compiled.asm["asm"]).splitlines()])
    except TilewrightError as error:
        yield Listing("cannot", [Line(line) for line in str(error).splitlines()])


def _module(python: FunctionType, specs: Sequence[ArgumentSpec], frontend: str) -> Op:
    parameters = front_end_parameters(specs)
    return make_ttir(python, parameters, name=_symbol(python), options=EvaluateOptions(), frontend=frontend)


def _symbol(python: FunctionType) -> str:
    """The name of the kernel in code, where a lambda needs one."""
    return JITFunction(python, frontend="bytecode").repr()


def _syntax(python: FunctionType, specs: Sequence[ArgumentSpec]) -> Listing:
    """The syntax tree, node by node."""
    lines, first = inspect.getsourcelines(python)
    (function,) = ast.parse(textwrap.dedent("".join(lines))).body
    if not isinstance(function, ast.FunctionDef):
        raise CompilationError(NoSource(python.__name__, python.__code__.co_filename))
    return Listing("AST", [line for statement in function.body for line in _nodes(statement, 0, first - 1)])


def _nodes(node: ast.AST, depth: int, shift: int) -> Iterator[Line]:
    plain = [f"{name}={value!r}" for name, value in ast.iter_fields(node) if isinstance(value, str | int | float)]
    text = f"{'  ' * depth}{type(node).__name__}{f' {chr(32).join(plain)}' if plain else ''}"
    yield Line(text, getattr(node, "lineno", -shift) + shift)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context):
            yield from _nodes(child, depth + 1, shift)


def _bytecode(python: FunctionType, specs: Sequence[ArgumentSpec]) -> Listing:
    lines = []
    for instruction in dis.get_instructions(python):
        line = instruction.positions.lineno if instruction.positions else None
        target = ">>" if instruction.is_jump_target else "  "
        text = f"{target} {instruction.offset:4} {instruction.opname:24} {instruction.argrepr}".rstrip()
        lines.append(Line(text, line or 0))
    return Listing("bytecode", lines)


def _recorded(python: FunctionType, specs: Sequence[ArgumentSpec]) -> Listing:
    return Listing("trace", list(_ir(_module(python, specs, "trace"), python)))


_READ = {"ast": _syntax, "bytecode": _bytecode, "trace": _recorded}


def _ir(module: Op, python: FunctionType) -> Iterator[Line]:
    """The text of a module, each op with its line in the source."""
    first = python.__code__.co_firstlineno
    inside = range(first, first + len(inspect.getsourcelines(python)[0]))
    printed = print_op(module, locations=True)
    aliases = dict(_ALIAS.findall(printed))
    for line in printed.splitlines():
        if _ALIAS.match(line):
            continue
        found = _AT_END.search(line)
        numbers = [number for number in _lines(found[1], aliases) if number in inside] if found else []
        yield Line(_AT_END.sub("", line), numbers[0] if numbers else 0)


def _lines(location: str, aliases: dict[str, str]) -> Iterator[int]:
    """The lines that a location names, also by way of other locations."""
    for alias, number in _NAMED.findall(location):
        if alias:
            yield from _lines(aliases.get(alias, ""), aliases)
        else:
            yield int(number)


def text(explained: Explained, width: int) -> Iterator[str]:
    """The listings for a terminal: stage by stage, the front ends beside each other, source lines in front."""
    yield from (f"{line.source:5}  {line.text}" for line in explained.source.lines)
    depth = max(map(len, explained.columns.values()))
    each = max(20, (width - 3 * (len(explained.columns) - 1)) // len(explained.columns))
    for row in range(depth):
        cells = [
            _cell(f"--- {name}: ", stages[row] if row < len(stages) else Listing("", []))
            for name, stages in explained.columns.items()
        ]
        yield ""
        for number in range(max(map(len, cells))):
            parts = [(cell[number] if number < len(cell) else "")[:each].ljust(each) for cell in cells]
            yield " | ".join(parts).rstrip()


def _cell(title: str, stage: Listing) -> list[str]:
    if not stage.title:
        return []
    return [title + stage.title, *(f"{line.source or '':>4} {line.text}" for line in stage.lines)]
