"""`tilewright opt`: passes over text.

    tilewright opt kernel.ttir --pass canonicalize --pass combine
    tilewright opt kernel.ttir --pass ttir --timing --print-after cse
    tilewright opt kernel.ttir --pass combine --explain
    tilewright show kernels.py:softmax --stage source | tilewright opt - --pass ttir

The text goes to standard output, everything else to standard error. Passes run in the order they are named in.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tilewright.ir.core import Op
from tilewright.ir.errors import ParseError, VerificationError, source_of
from tilewright.ir.observe import Firing, observing
from tilewright.ir.printer import print_op
from tilewright.ir.rewriter import RewriteLimitError
from tilewright.tools.kernels import UsageError
from tilewright.tools.opt_passes import Request, Said, find_passes, listing
from tilewright.tools.opt_run import Segment, read_module, run_requests, split_segments


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
    """Print what the passes make of the text.

    Raises:
        UsageError: the file or a pass does not exist, or the text or what a pass made of it is wrong.
    """
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
    except (OSError, UnicodeDecodeError) as error:
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
