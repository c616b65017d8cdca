"""Running passes over text: what `tilewright opt` and the runner of Triton's lit tests do.

    text = run_text(kernel_text, find_passes("canonicalize"))

Ops that say nothing of where they come from get their place in the text, so that messages can name it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright import dialects
from tilewright.ir.attributes import UNKNOWN, FileLocation
from tilewright.ir.core import Op
from tilewright.ir.parser import Parser
from tilewright.ir.pass_manager import run_passes, verify_after
from tilewright.ir.types import TensorType
from tilewright.ir.verifier import verify
from tilewright.tools.kernels import UsageError
from tilewright.tools.opt_passes import Report, Request, Row, Said

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
        text: MLIR text.
        file: its name, for messages.
        unregistered: accept ops that nobody declared, in generic form.
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
        module: the module.
        requests: what to run, in order.
        verify: check the module after every pass; without, only at the end.
        dump: called with the pass's name and the module after every pass.
        timings: gets the seconds each pass took.
        levels: refuse passes for another kind of module.

    Returns:
        what the reports say, and what passes warn of.

    Raises:
        UsageError: a pass is for another kind of module.
        VerificationError: when a pass leaves malformed IR behind.
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
