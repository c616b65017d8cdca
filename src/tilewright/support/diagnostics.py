"""Diagnostics: errors as data, and the one renderer that turns them into text.

A kind of error is a class with fields and templates, which are filled from the fields (and properties):

    class NotBroadcastable(Diagnostic):
        title = "shapes do not broadcast"
        label = "{left} and {right} differ in dimension {axis}"
        help = "reshape one side, or index it with [:, None] so that dimension {axis} is 1"
        left: tuple[int, ...]
        right: tuple[int, ...]
        axis: int

    raise SemanticError(NotBroadcastable((128, 64), (128, 32), 1))

Semantics have no source locations: the evaluator catches the `SemanticError` and raises a `CompilationError` with the
location, which prints as

    error: shapes do not broadcast
     --> kernel.py:3:12
    3 |     return a + b
      |            ^^^^^ (128, 64) and (128, 32) differ in dimension 1
     --> kernel.py:7:9
    7 |     z = helper(x, y)
      |         ^^^^^^^^^^^^ called from here
    help: reshape one side, or index it with [:, None] so that dimension 1 is 1
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from enum import Enum, auto
from itertools import islice
from types import ModuleType
from typing import Any, ClassVar, TypeAlias, dataclass_transform

from tilewright.support.named_tuple import NamedTuple, fields_of
from tilewright.support.source import Span, display_width, shown_file, source_line, source_text


class Exit(Enum):
    """The kind of a failure by whose fault it is, which decides the exception class."""

    MISTAKE = auto()
    """The user's program is wrong: CompilationError."""
    LIMIT = auto()
    """The program may be right, but Tilewright cannot compile it: Unsupported."""
    ASSERTION = auto()
    """A check that the user wrote does not hold: CompileTimeAssertionFailure."""


@dataclass_transform(frozen_default=True)
class Diagnostic:
    """A mistake (or limit) as data. Subclasses name their fields as dataclasses do, and templates over them.

    They are no real dataclasses: making a hundred of those would be a quarter of the time to import the package.

    Attributes:
        title: what is wrong, in general; the first line.
        label: what is wrong here; stands beside the caret.
        help: what to do about it; may be empty.
        exit: which exception the diagnostic becomes.
    """

    title: ClassVar[str] = "invalid program"
    label: ClassVar[str] = ""
    help: ClassVar[str] = ""
    exit: ClassVar[Exit] = Exit.MISTAKE
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = fields_of(cls)

    def __init__(self, *args: Any, **fields: Any) -> None:
        for name, value in zip(self._fields, args, strict=False):
            assert name not in fields, f"{type(self).__name__} gets {name} twice"
            fields[name] = value
        assert len(args) <= len(self._fields), f"{type(self).__name__} has the fields {self._fields}"
        assert fields.keys() <= set(self._fields), f"{type(self).__name__} has the fields {self._fields}"
        missing = [name for name in self._fields if name not in fields and not hasattr(type(self), name)]
        assert not missing, f"{type(self).__name__} needs {missing}"
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"

    def fill(self, template: str, *, package: str = "tilewright") -> str:
        """`template` with `{field}` replaced by this diagnostic's field or property.

        Args:
            package: what stands for `{package}`: the program's name for this package.
        """
        return template.format_map(_Fields(self, package))

    @property
    def headline(self) -> str:
        """Title and label in one line, for places without a source span."""
        label = self.fill(self.label)
        return self.fill(self.title) + (f": {label}" if label else "")


class Limit(Diagnostic):
    """Base of diagnostics about what Tilewright itself cannot do (yet); they become `Unsupported`."""

    exit: ClassVar[Exit] = Exit.LIMIT


class NotSupported(Limit):
    """A Triton feature, by name, that this compiler refuses."""

    title: ClassVar[str] = "{feature} is not supported"
    label: ClassVar[str] = "{reason}"
    feature: str
    reason: str = ""


class StaticAssertionFailed(Diagnostic):
    """`tl.static_assert` (or `assert` on constants) with a false condition."""

    title: ClassVar[str] = "static assertion failed"
    label: ClassVar[str] = "{message}"
    exit: ClassVar[Exit] = Exit.ASSERTION
    message: str = ""


class ProgramsWait(Diagnostic):
    """A loop that waits for what no program that runs will do."""

    title: ClassVar[str] = "all programs of {kernel} that run are waiting for others"
    label: ClassVar[str] = "program {program} has been waiting for {seconds} s"
    help: ClassVar[str] = (
        "a program starts when a thread is free for it, in order: let no more programs wait for later ones at a time "
        "than there are threads (TILEWRIGHT_NUM_THREADS); TILEWRIGHT_SPIN_SECONDS is how long they may"
    )
    kernel: str
    program: tuple[int, int, int]
    seconds: int


class DeviceAssertionFailed(Diagnostic):
    """`tl.device_assert`, `assert` or an overflow check that does not hold in a running program."""

    title: ClassVar[str] = "device-side assertion failed{detail}"
    label: ClassVar[str] = "false in program {program}{element}"
    message: str
    program: tuple[int, int, int]
    index: tuple[int, ...] = ()

    @property
    def detail(self) -> str:
        return f": {self.message}" if self.message else ""

    @property
    def element(self) -> str:
        return f" at element [{', '.join(map(str, self.index))}]" if self.index else ""


class TilewrightError(Exception):
    """Base of every exception that the compiler raises on purpose."""

    @property
    def _render_traceback_(self) -> Callable[[], list[str]]:
        """The text of an exception for IPython, which calls it; not there where the whole traceback is wanted."""
        if not _notebook_texts or isinstance(self, InternalError):
            raise AttributeError("_render_traceback_")
        return _notebook_texts[0](self)


class SemanticError(TilewrightError):
    """A diagnostic that is raised to a caller that knows the source location."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic

    def __str__(self) -> str:
        return self.diagnostic.headline


class Wording(NamedTuple):
    """An error in other words than ours.

    Attributes:
        message: what is wrong, in one line.
        text: the whole text.
        own: the text in our words, for users that do not expect others.
    """

    message: str
    text: str
    own: str


class CompilationError(TilewrightError):
    """The user's program is wrong; the text shows where, why and what to do."""

    wording: Wording | None = None

    def __init__(self, diagnostic: Diagnostic, span: Span | None = None) -> None:
        super().__init__(diagnostic, span)
        self.diagnostic = diagnostic
        self.span = span

    def __str__(self) -> str:
        return render(self.diagnostic, self.span) if self.wording is None else self.wording.text

    @property
    def error_message(self) -> str:
        """The message in one line, without the place."""
        return self.diagnostic.headline if self.wording is None else self.wording.message

    @property
    def message(self) -> str:
        """The whole text."""
        return str(self)

    @property
    def src(self) -> str | None:
        """The text of the file, where it is known."""
        return source_text(self.span.file) or None if self.span else None

    @property
    def node(self) -> Span | None:
        """The place in the file; it has `lineno` and `col_offset` as nodes of Python's syntax tree have."""
        return self.span


class Unsupported(CompilationError):  # noqa: N818 - reads as a sentence
    """The program may be right, but Tilewright does not compile it; the text names the Triton feature."""


class CompileTimeAssertionFailure(CompilationError):  # noqa: N818 - Triton's name
    """A static assertion of the user's program does not hold."""


class DeviceAssertError(TilewrightError, RuntimeError):
    """An assertion does not hold in a running program; the text shows which, where, and for which element.

    Attributes:
        message: what the assertion says.
        program: the program's place in the grid.
        index: the index of the first element of the tile for which it does not hold; empty for scalars.
        span: the place in the source, if it is known.
    """

    def __init__(
        self, message: str, program: tuple[int, int, int], index: tuple[int, ...] = (), span: Span | None = None
    ) -> None:
        super().__init__(message, program, index, span)
        self.message, self.program, self.index, self.span = message, program, index, span

    def __str__(self) -> str:
        return render(DeviceAssertionFailed(self.message, self.program, self.index), self.span)


class DeadlockError(TilewrightError, RuntimeError):
    """All programs of a launch that run do nothing but wait for others; the text shows where one of them does.

    Attributes:
        kernel: its name.
        program: the place in the grid of a program that waits.
        seconds: the time for which it waited.
        span: the place of the loop in the source, if it is known.
    """

    def __init__(self, kernel: str, program: tuple[int, int, int], seconds: int, span: Span | None = None) -> None:
        super().__init__(kernel, program, seconds, span)
        self.kernel, self.program, self.seconds, self.span = kernel, program, seconds, span

    def __str__(self) -> str:
        return render(ProgramsWait(self.kernel, self.program, self.seconds), self.span)


class InternalError(TilewrightError):
    """A bug in Tilewright. `ir` is the text of the op or module at hand."""

    def __init__(self, message: str, ir: str = "") -> None:
        super().__init__(message, ir)
        self.message, self.ir = message, ir

    def __str__(self) -> str:
        lines = [f"internal error: {self.message}"]
        if self.ir:
            lines += ["while working on:", self.ir]
        lines.append("help: this is a bug in Tilewright, not in your program; please report it with this text")
        return "\n".join(lines)


NotebookText: TypeAlias = Callable[[TilewrightError], Callable[[], list[str]]]
_notebook_texts: list[NotebookText] = []


def show_in_notebooks(by: NotebookText) -> None:
    """Have notebooks show of every error what `by` gives of it; AttributeError: the whole traceback."""
    _notebook_texts[:] = [by]


Presentation: TypeAlias = Callable[[CompilationError], CompilationError]
_presentations: list[Presentation] = []


def present_errors(by: Presentation | None) -> None:
    """Make the compiler raise what `by` makes of its errors from now on; None: the errors themselves."""
    _presentations[:] = [] if by is None else [by]


def presented(error: CompilationError) -> CompilationError:
    """The error as it leaves the compiler."""
    return _presentations[0](error) if _presentations else error


def located(diagnostic: Diagnostic, span: Span | None) -> CompilationError:
    """The exception for `diagnostic` at `span`."""
    return _EXCEPTIONS[diagnostic.exit](diagnostic, span)


def render(diagnostic: Diagnostic, span: Span | None = None) -> str:
    """The full text of a diagnostic: headline, source lines with carets along the call chain, help."""
    if span is None:
        lines = [f"error: {diagnostic.headline}"]
    else:
        lines = [f"error: {diagnostic.fill(diagnostic.title)}"]
        lines += place_lines(span, diagnostic.fill(diagnostic.label))
        for caller, count in callers(span):
            if caller is None:
                lines.append(f"… {count} more calls")
            else:
                lines += place_lines(caller, "called from here" + (f", {count} times" if count > 1 else ""))
    return "\n".join([*lines, *advice(diagnostic, span)])


def advice(diagnostic: Diagnostic, span: Span | None) -> list[str]:
    """The line with what to do, if there is something to say."""
    return [f"help: {diagnostic.fill(diagnostic.help, package=name_of_package(span))}"] if diagnostic.help else []


def name_of_package(span: Span | None) -> str:
    """The name by which the program at `span` calls this package: `tw`, `triton`."""
    found = re.search(_IMPORT, source_text(span.file), re.MULTILINE) if span is not None else None
    if found is not None:
        return found[2] or found[1]
    notebook = vars(sys.modules["__main__"])  # where cells import what others use
    named = (name for name, value in notebook.items() if isinstance(value, ModuleType) and value.__name__ in _NAMES)
    return next(named, _NAMES[0])


_NAMES = ("tilewright", "triton")
_IMPORT = r"^\s*import (tilewright|triton)(?: as (\w+))?\s*(?:#.*)?$"


_EXCEPTIONS: dict[Exit, type[CompilationError]] = {
    Exit.MISTAKE: CompilationError,
    Exit.LIMIT: Unsupported,
    Exit.ASSERTION: CompileTimeAssertionFailure,
}


INNER_CALLS, OUTER_CALLS = 2, 1
"""The numbers of calls that are shown at the inner and at the outer end of a long chain."""


def callers(span: Span) -> list[tuple[Span | None, int]]:
    """The calls that led to a place, inner ones first, each with how often it is repeated.

    The middle of a long chain is left out: None stands for calls, with their number.
    """
    found: list[tuple[Span | None, int]] = []
    for caller in islice(span.chain(), 1, None):
        place = caller._replace(called_from=None)
        if found and found[-1][0] == place:
            found[-1] = place, found[-1][1] + 1
        else:
            found.append((place, 1))
    left_out = sum(count for _, count in found[INNER_CALLS:-OUTER_CALLS])
    if left_out:
        found[INNER_CALLS:-OUTER_CALLS] = [(None, left_out)]
    return found


class _Fields:
    """The attributes of an object as the mapping that `str.format_map` wants."""

    def __init__(self, owner: Diagnostic, package: str) -> None:
        self._owner, self._package = owner, package

    def __getitem__(self, name: str) -> Any:
        return self._package if name == "package" else getattr(self._owner, name)


def place_lines(span: Span, label: str) -> list[str]:
    """The three lines of one place: where, the source line, the carets with `label`."""
    margin = " " * len(str(span.line))
    where = f"{margin}--> {shown_file(span.file)}:{span.line}:{span.column}"
    text = source_line(span.file, span.line)
    if not text:
        return [where, f"{margin} | {label}"] if label else [where]
    before = " " * display_width(text[: span.column - 1])
    carets = "^" * max(1, display_width(text[span.column - 1 : _end_column(span, text)]))
    return [where, f"{span.line} | {text}", f"{margin} | {before}{carets} {label}".rstrip()]


def _end_column(span: Span, text: str) -> int:
    """The column at which the carets end: a span over several lines is marked to the end of its first line."""
    if span.end_line > span.line:
        return len(text)
    return span.end_column - 1 if span.end_column > span.column else span.column


class OutOfResources(TilewrightError):  # noqa: N818 - Triton's name
    """A kernel needs more of something than there is.

    Attributes:
        required, limit: how much is needed, and how much there is.
        name: the name of the resource.
    """

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(required, limit, name)
        self.required, self.limit, self.name = required, limit, name

    def __str__(self) -> str:
        return f"out of resource: {self.name}, Required: {self.required}, Hardware limit: {self.limit}."


class PTXASError(TilewrightError):
    """NVIDIA's assembler failed; the text is what it said, with the lines of PTX that it was about."""
