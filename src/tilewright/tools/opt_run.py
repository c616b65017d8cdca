"""`tilewright opt`: runs passes over text.

    tilewright opt kernel.ttir --pass canonicalize --pass combine
    tilewright opt kernel.ttir --pass ttir --timing --print-after cse
    tilewright opt kernel.ttir --pass combine --explain
    tilewright show kernels.py:softmax --stage source | tilewright opt - --pass ttir

The text goes to standard output, everything else to standard error. Passes run in the order of the command line. Ops
without a location get their position in the text, so that messages can name it.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tilewright import dialects
from tilewright.ir.attributes import UNKNOWN, FileLocation
from tilewright.ir.core import Op
from tilewright.ir.errors import ParseError, VerificationError, source_of
from tilewright.ir.observe import Firing, observing
from tilewright.ir.parser import Parser
from tilewright.ir.pass_manager import run_passes, verify_after
from tilewright.ir.printer import print_op
from tilewright.ir.rewriter import RewriteLimitError
from tilewright.ir.types import TensorType
from tilewright.ir.verifier import verify
from tilewright.tools.kernels import UsageError
from tilewright.tools.opt_passes import Report, Request, Row, Said, find_passes, listing

assert dialects.__all__, "importing the dialects declares the ops"
_SEPARATOR = re.compile(r"^[ \t]*// -----[^\n]*$", re.MULTILINE)


class Segment(NamedTuple):
    """A part of a file that is a module of its own.

    Attributes:
        text: with the lines of the parts before it left empty, so that line numbers stay those of the file.
        first_line: where it starts.
    """

    text: str
    first_line: int


class PlacingParser(Parser):
    """A parser that gives ops without a location their place in the text."""

    def operation(self) -> Op:
        """One op."""
        start = self.position
        op = super().operation()
        if op.location is UNKNOWN:
            op.location = self.place(start)
        for region in op.regions:
            first = region.blocks[0].first if region.blocks else None
            if first is not None and first.location is UNKNOWN:  # no text of its own
                first.location = op.location
        return op

    def place(self, position: int) -> FileLocation:
        """The place in the file of a position in the text."""
        line_start = self.text.rfind("\n", 0, position) + 1
        return FileLocation(self.file, self.text.count("\n", 0, position) + 1, position - line_start + 1)


def split_segments(text: str) -> list[Segment]:
    """The parts of `text` between lines `// -----`."""
    segments, start = [], 0
    for end in (*(match.start() for match in _SEPARATOR.finditer(text)), len(text)):
        line = text.count("\n", 0, start)
        segments.append(Segment("\n" * line + text[start:end], line + 1))
        start = text.find("\n", end) + 1 or len(text)
    return segments


def read_module(text: str, file: str, *, unregistered: bool = False, names: bool = True) -> Op:
    """The verified module in `text`.

    Args:
        unregistered: accept undeclared ops, in generic form.
        names: values keep their names; without, they are numbered, as MLIR does it.

    Raises:
        ParseError: when the text cannot be read.
        VerificationError: when an op breaks a rule.
    """
    module = PlacingParser(text, file, unregistered=unregistered).module()
    verify(module)
    if not names:
        _forget_names(module)
    return module


def _forget_names(module: Op) -> None:
    for op in module.walk():
        blocks = (block for region in op.regions for block in region.blocks)
        for value in (*op.results, *(argument for block in blocks for argument in block.args)):
            value.name = None


def run_requests(
    module: Op,
    requests: Sequence[Request],
    *,
    verify: bool = True,
    dump: Callable[[str, Op], None] | None = None,
    timings: dict[str, float] | None = None,
    levels: bool = True,
) -> list[Said]:
    """Run passes and reports over `module`, which the passes change in place.

    Args:
        verify: check the module after every pass; without, only at the end.
        dump: called with the pass's name and the module after every pass.
        timings: gets the seconds each pass took.
        levels: refuse passes for another kind of module.

    Returns:
        what the reports say, and what passes warn of.

    Raises:
        UsageError: a pass is for another kind of module.
        VerificationError: when a pass leaves malformed IR.
    """
    said: list[Said] = []
    for request in requests:
        row = request.row
        if isinstance(row, Report):
            said += (Said(*remark) for remark in row.function(module))
            continue
        if levels:
            _check_level(module, row)
        if row.warnings is not None:
            said += [Said(*warning, "warning") for warning in row.warnings(module)]
        run_passes(module, (request.step,), verify=verify, dump=dump, timings=timings)
    if not verify and requests:
        verify_after(module, requests[-1].row.name)
    return said


def level_of(module: Op) -> str:
    """TTGIR for modules that say how many warps run them, or whose tiles have layouts; else TTIR."""
    if "ttg.num-warps" in module.attributes:
        return "TTGIR"
    values = (value for op in module.walk() for value in op.results)
    has_layout = any(isinstance(value.type, TensorType) and value.type.encoding for value in values)
    return "TTGIR" if has_layout else "TTIR"


def _check_level(module: Op, row: Row) -> None:
    level = level_of(module) if row.level != "any" else "any"
    if level != row.level:
        reason = "it has no layouts" if level == "TTIR" else "it has layouts"
        raise UsageError(f"pass {row.name} works on {row.level}, and this module is {level}: {reason}")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add = command.add_argument
    add("file", nargs="?", help="a file of TTIR or TTGIR; - for standard input")
    add("--pass", dest="passes", action="append", default=[], metavar="PASS", help="may be repeated; see --list")
    add("--list", action="store_true", help="print all passes")
    add("--split-input-file", action="store_true", help="lines `// -----` separate modules")
    add("--verify-each", action=argparse.BooleanOptionalAction, default=True, help="check the IR after every pass")
    add(
        "--print-after", nargs="?", const="", action="append", metavar="PASS", help="print the IR after a pass, or each"
    )
    add("--timing", action="store_true", help="print how long each pass took")
    add("--explain", action="store_true", help="print every rule that applied, with the op before and after")
    add("--locations", action="store_true", help="print where every op comes from")
    add("--allow-unregistered-dialect", action="store_true", help="accept ops that nobody declared, in generic form")


def run(options: argparse.Namespace) -> int:
    """Print what the passes make of the text."""
    if options.list:
        print("\n".join(listing()))
        return 0
    requests = [request for text in options.passes for request in find_passes(text)]
    name, text = _read(options.file)
    whole = Segment(text, 1)
    session = _Session(options, requests)
    parts = split_segments(text) if options.split_input_file else [whole]
    try:
        printed = [session.run(segment.text, name) for segment in parts]
    except (ParseError, VerificationError, RewriteLimitError) as error:
        raise UsageError(str(error)) from error
    finally:
        session.report_timings()
    print("// -----\n".join(printed), end="")
    return 0


def _read(file: str | None) -> tuple[str, str]:
    """The name and the text of what is to be read."""
    if file is None:
        raise UsageError("expected a file, or - for standard input")
    if file == "-":
        return "<stdin>", sys.stdin.read()
    try:
        return file, Path(file).read_text()
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


class _Session:
    """One run of the command over the modules of a file."""

    def __init__(self, options: argparse.Namespace, requests: Sequence[Request]) -> None:
        self.options, self.requests = options, requests
        self.timings: dict[str, float] = {}
        self._firings: list[Firing] = []
        self._text = ""

    def run(self, text: str, file: str) -> str:
        """The text of the module after the passes."""
        module = read_module(text, file, unregistered=self.options.allow_unregistered_dialect)
        with ExitStack() as stack:
            if self.options.explain:
                stack.enter_context(observing(self._firings.append))
                self._text = print_op(module)
            said = run_requests(
                module, self.requests, verify=self.options.verify_each, dump=self._after, timings=self.timings
            )
        for remark in said:
            print(remark_text(remark), file=sys.stderr)
        return print_op(module, locations=self.options.locations)

    def _after(self, name: str, module: Op) -> None:
        wanted = self.options.print_after or ()
        if "" in wanted or name in wanted:
            print(f"// ----- after {name} -----\n{print_op(module)}", file=sys.stderr)
        if self.options.explain:
            self._explain(name, print_op(module))

    def _explain(self, name: str, text: str) -> None:
        """The rules that applied; for a pass that does without rules the lines that changed."""
        print(f"// ----- {name} -----", file=sys.stderr)
        for part in self._firings or _changed_lines(self._text, text):
            print(part, file=sys.stderr)
        self._firings.clear()
        self._text = text

    def report_timings(self) -> None:
        """Print the time that each pass took, verification included."""
        if self.options.timing:
            total = sum(self.timings.values())
            for name, seconds in (*self.timings.items(), ("all", total)):
                print(f"{name:36} {seconds * 1000:10.3f} ms", file=sys.stderr)


def _changed_lines(before: str, after: str) -> Iterator[str]:
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0):
        if not line.startswith(("---", "+++", "@@")):
            yield f"  {line[0]} {line[1:].strip()}"


def remark_text(said: Said) -> str:
    """`file:line:column: remark: …`."""
    place = source_of(said.op.location)
    return f"{place.file}:{place.line}:{place.column}: {said.kind}: {said.text}"
