"""`tilewright explain`: the results of the three front ends for one kernel, side by side, by source line.

tilewright explain examples/vector_add.py:add_kernel -s "*fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128"
tilewright explain kernels.py:softmax -c BLOCK=1024 --html softmax.html
tilewright explain kernels.py:softmax -c BLOCK=64 --html softmax.html --grid 4 -a columns=50 -a stride=50 --gpu 90

The last command also draws the elements that each program of a small grid accesses, and the layouts of tiles on a GPU.
"""

from __future__ import annotations

import argparse
import ast
import dis
import inspect
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType

from tilewright.backends.base import GPUTarget
from tilewright.backends.registry import make_backend
from tilewright.compiler.parameters import front_end_parameters
from tilewright.compiler.signature import ArgumentSpec
from tilewright.frontends.choice import READERS, make_ttir
from tilewright.frontends.errors import NoSource
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.frontends.hir_text import listing
from tilewright.ir.core import Op
from tilewright.ir.printer import print_op
from tilewright.runtime.build import build, current_backend
from tilewright.runtime.display.listings import Line, Listing, Place, ir_lines, matched_stages, source_listing
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.sources import ASTSource
from tilewright.support.diagnostics import CompilationError, TilewrightError
from tilewright.support.source import syntax_tree
from tilewright.tools import show
from tilewright.tools.explain_page import Explained, page
from tilewright.tools.kernels import UsageError, named_value
from tilewright.tools.memory_map import Access, accesses
from tilewright.transforms.pipeline import optimize_ttir

FRONTENDS = ("ast", "bytecode", "trace")
TITLES = {"loops": "vector loops", "asm": "machine code", "ttgir": "TTGIR", "ptx": "PTX"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    show.add_kernel_arguments(command)
    command.add_argument("--html", metavar="FILE", type=Path, help="write one page instead of printing")
    command.add_argument("--grid", metavar="X,Y,Z", help="on the page: draw what the programs of this grid touch")
    command.add_argument(
        "-a", "--argument", action="append", default=[], metavar="NAME=VALUE", help="a number, for --grid"
    )
    command.add_argument("--gpu", metavar="CAPABILITY", type=int, help="on the page: code and layouts for a GPU: 90")
    command.add_argument("--frontend", action="append", choices=FRONTENDS, help="only this one (may be repeated)")


def run(options: argparse.Namespace) -> int:
    """Print the listings, or write the page."""
    kernel, specs = show.requested(options)
    explained = explain(kernel, specs, options.frontend or FRONTENDS)
    if not options.html:
        if options.grid or options.gpu:
            raise UsageError("--grid and --gpu draw on the page that --html FILE writes")
        if options.argument:
            raise UsageError("-a NAME=VALUE is a number for --grid")
        print("\n".join(text(explained, shutil.get_terminal_size((160, 24)).columns)))
        return 0
    if options.gpu:
        explained.columns[f"GPU {options.gpu}"] = gpu_stages(kernel, specs, options.gpu)
    pictures = memory_pictures(kernel, specs, options.grid, options.argument) if options.grid else []
    options.html.write_text(page(explained, pictures), encoding="utf-8")
    print(f"wrote {options.html}")
    return 0


def memory_pictures(
    kernel: JITFunction, specs: Sequence[ArgumentSpec], grid: str, arguments: Sequence[str]
) -> list[Access]:
    """The elements that the programs of a grid touch; `arguments` give numbers to parameters, as `NAME=VALUE`."""
    try:
        extents = [int(extent) for extent in grid.split(",")]
    except ValueError:
        raise UsageError(f"--grid {grid}: expected one to three numbers: 4 or 4,2") from None
    module = _module(kernel.fn, specs, kernel.frontend if kernel.frontend in FRONTENDS else "ast")
    optimize_ttir(module)
    numbers = dict(named_value("-a", text) for text in arguments)
    return accesses(module, extents, numbers, Place.of(kernel.fn))


def gpu_stages(kernel: JITFunction, specs: Sequence[ArgumentSpec], capability: int) -> list[Listing]:
    """TTGIR and PTX of the kernel for a GPU."""
    backend = make_backend(GPUTarget("cuda", capability, 32))
    source = ASTSource.of(kernel, _symbol(kernel.fn), specs).for_target(backend.target)
    try:
        compiled = build(source, backend, {})
    except TilewrightError as error:
        return [Listing("cannot", [Line(line) for line in str(error).splitlines()])]
    return [Listing(TITLES[s.title], s.lines) for s in matched_stages(compiled) if s.title in TITLES]


def explain(kernel: JITFunction, specs: Sequence[ArgumentSpec], frontends: Sequence[str] = FRONTENDS) -> Explained:
    """Read and compile a kernel through each front end."""
    source = source_listing(kernel.fn)
    columns = {frontend: list(_stages(kernel, specs, frontend)) for frontend in frontends}
    place = f"{kernel.fn.__code__.co_filename}:{source.lines[0].source}"
    return Explained(kernel.fn.__name__, place, _signature(specs), source, columns)


def _signature(specs: Sequence[ArgumentSpec]) -> str:
    """The signature that the kernel is compiled for."""
    return ", ".join(
        f"{spec.name} = {spec.constant!r}" if spec.is_constant else f"{spec.name}: {spec.type}" for spec in specs
    )


def _stages(kernel: JITFunction, specs: Sequence[ArgumentSpec], frontend: str) -> Iterator[Listing]:
    """The text that the front end reads, HIR, TTIR, vector loops, machine code; fewer where the front end cannot."""
    python = kernel.fn
    try:
        yield _READ[frontend](python, specs)
        hir = listing(READERS[frontend](python)) if frontend in READERS else ()
        yield Listing("HIR" if hir else "", [Line(*line) for line in hir])
        module = _module(python, specs, frontend)
        optimize_ttir(module)
        yield Listing("TTIR", _ir(module, python))
        source = ASTSource.of(JITFunction(python, frontend=frontend), _symbol(python), specs)
        compiled = build(source, current_backend(), {})
        yield from (Listing(TITLES[s.title], s.lines) for s in matched_stages(compiled) if s.title in TITLES)
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
    (function,) = syntax_tree(textwrap.dedent("".join(lines))).body
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
    return Listing("trace", _ir(_module(python, specs, "trace"), python))


_READ = {"ast": _syntax, "bytecode": _bytecode, "trace": _recorded}


def _ir(module: Op, python: FunctionType) -> Sequence[Line]:
    """The text of a module, each op with its line in the source."""
    return ir_lines(print_op(module, locations=True), Place.of(python))


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
