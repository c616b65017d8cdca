"""`tilewright explain`: what the three front ends make of one kernel, side by side, line by line of the source.

tilewright explain examples/vector_add.py:add_kernel -s "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128"
tilewright explain kernels.py:softmax -c BLOCK=1024 --html softmax.html
"""

from __future__ import annotations

import argparse
import ast
import dis
import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType

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
from tilewright.tools.explain_page import Explained, Line, Listing, page
from tilewright.transforms.pipeline import optimize_ttir

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
    """Read and compile a kernel through each front end.

    Args:
        kernel: the kernel.
        specs: what it is compiled for.
        frontends: the front ends.
    """
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
    """The listings: what the front end reads, HIR, TTIR, machine code; fewer where the front end cannot."""
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
