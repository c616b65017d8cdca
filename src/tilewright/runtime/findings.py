"""The findings of the sanitizer: data, and their text for users.

error: out-of-bounds store
 --> kernel.py:7:5
7 |     tl.store(out_ptr + offsets, x)
  |     ^^^^^^^^ `out_ptr`[1000] of shape (1000,), by program (7, 0, 0) at tile index (104,)
help: …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from tilewright.support.diagnostics import Diagnostic, TilewrightError, place_lines, render
from tilewright.support.source import Span

BEHAVIOUR = {"atomic": "atomic access", "load": "load", "store": "store"}


class Access(NamedTuple):
    """One access of one program.

    Attributes:
        kind: `load`, `store` or `atomic`.
        span: where it stands in the source.
        program: its place in the grid; None when it is not known.
    """

    kind: str
    span: Span | None
    program: tuple[int, int, int] | None


class Finding(NamedTuple):
    """One mistake.

    Attributes:
        check: `bounds`, `races` or `uninit`.
        lane: the index into its tile; () for a scalar.
        argument: the name of the argument that it went to; "" when the kernel has none that it may go to.
        element, shape: the index of the element in that argument, and the extents of the argument.
        times: the number of tiles that failed this check at this place.
        other: for races the access of another program.
    """

    check: str
    access: Access
    lane: tuple[int, ...]
    argument: str
    element: tuple[int, ...]
    shape: tuple[int, ...]
    times: int
    other: Access | None = None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        element, shape = "memory of no argument", ""
        if self.argument:
            element, shape = f"`{self.argument}`[{', '.join(map(str, self.element))}]", f" of shape {self.shape}"
        diagnostic = _DIAGNOSTICS[self.check](BEHAVIOUR[self.access.kind], element, shape, self._program())
        *text, help = render(diagnostic, self.access.span).splitlines()
        yield from text
        if self.other is not None:
            yield from self._other_lines(self.other)
        yield help

    def _program(self) -> str:
        where = f"by program {self.access.program}"
        if self.lane:
            where += f" at tile index {self.lane}"
        return where + (f", and {self.times - 1} more" if self.times > 1 else "")

    def _other_lines(self, other: Access) -> Iterator[str]:
        program = f"by program {other.program}" if other.program else "by other programs"
        label = f"and the {BEHAVIOUR[other.kind]} {program}"
        if other.span is not None:
            yield from place_lines(other.span, label)
        else:
            yield label


class SanitizerError(TilewrightError):
    """A kernel with `sanitize` did what it must not.

    Attributes:
        findings: all that was found, in program order, atomics last.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(findings)
        self.findings = tuple(findings)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.findings))


class _Bad(Diagnostic):
    """Base of the three kinds of findings."""

    access: str
    element: str
    shape: str
    program: str


class OutOfBounds(_Bad):
    """An access outside of the arguments."""

    title: ClassVar[str] = "out-of-bounds {access}"
    label: ClassVar[str] = "{element}{shape}, {program}"
    help: ClassVar[str] = "the access was left out; give it a mask, or pass a larger array"


class Race(_Bad):
    """Two programs touch one element, without order and not both by atomics."""

    title: ClassVar[str] = "race between programs"
    label: ClassVar[str] = "the {access} of {element}, {program}"
    help: ClassVar[str] = "let each program have its own elements, or use tl.atomic_add and the like for both accesses"


class Unwritten(_Bad):
    """A load of an uninitialised element."""

    title: ClassVar[str] = "{access} of memory that was never written"
    label: ClassVar[str] = "{element}{shape}, {program}"
    help: ClassVar[str] = "store to it in a sanitised kernel first, or call tilewright.initialized(array)"


_DIAGNOSTICS: dict[str, type[_Bad]] = {"bounds": OutOfBounds, "races": Race, "uninit": Unwritten}
