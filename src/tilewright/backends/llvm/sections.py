"""Sections: parts of a function to which code can still be added after later parts were written."""

from __future__ import annotations

from collections.abc import Sequence


class Section:
    """Lines of a function, and sections spliced between them.

    Code may be added at any time, new blocks (loops, branches) as well: a phi behind it names its last label late.
    """

    __slots__ = ("asides", "inner", "lines", "marks", "parent", "place")

    def __init__(self, parent: Section | None, label: str | None = None) -> None:
        self.parent = parent
        self.place = 0 if parent is None else len(parent.marks)  # among the marks there
        self.asides: list[Section] | None = None
        self.lines: list[str] = []
        self.inner: list[tuple[int, Section | Phi]] = []
        self.marks: list[str | Section] = [] if label is None else [label]

    def label(self) -> str:
        """The block that the next line of this section would belong to."""
        own = self._last_label(len(self.marks))
        if own is not None:
            return own
        assert self.parent is not None, "a function starts with a label"
        return self.parent._label_before(self)

    def _last_label(self, end: int) -> str | None:
        for mark in reversed(self.marks[:end]):
            found = mark if isinstance(mark, str) else mark._last_label(len(mark.marks))
            if found is not None:
                return found
        return None

    def _label_before(self, child: Section) -> str:
        own = self._last_label(child.place)
        if own is not None:
            return own
        assert self.parent is not None, "a function starts with a label"
        return self.parent._label_before(self)

    def drop_empty(self, label: str) -> bool:
        """Forget the block `label` if it was just started and has no lines; whether it is so."""
        is_last = not self.inner or self.inner[-1][0] < len(self.lines)
        is_empty = is_last and self.lines[-1] == f"{label}:"
        if is_empty:
            self.lines.pop()
            self.marks.pop()
        return is_empty

    def put(self, part: Section | Phi) -> None:
        """Let `part` stand here: behind the lines and parts that there are, before those to come."""
        self.inner.append((len(self.lines), part))

    def open_aside(self) -> Section:
        """A new section behind all code of the function; a block has to be started there first."""
        function = self
        while function.parent is not None:
            function = function.parent
        function.asides = function.asides or []
        function.asides.append(aside := Section(None))
        return aside

    def flatten(self, into: list[str]) -> None:
        """Append all lines, in order."""
        start = 0
        for place, part in self.inner:
            into += self.lines[start:place]
            part.flatten(into)
            start = place
        into += self.lines[start:]
        for aside in self.asides or ():
            aside.flatten(into)


class Phi:
    """The line of a phi, written out when all code is there: only then is known in which block a section ends.

    Args:
        name: of the result.
        type: of the result.
        ways: the value of each way in, and where it comes from: a label, or the end of a section.
    """

    __slots__ = ("name", "type", "ways")

    def __init__(self, name: str, type: str, ways: Sequence[tuple[str, str | Section]]) -> None:
        self.name = name
        self.type = type
        self.ways = ways

    def flatten(self, into: list[str]) -> None:
        """Append the line."""
        labels = (source if isinstance(source, str) else source.label() for _, source in self.ways)
        ways = ", ".join(f"[ {value}, %{label} ]" for (value, _), label in zip(self.ways, labels, strict=True))
        into.append(f"  {self.name} = phi {self.type} {ways}")


class Loop:
    """A counted loop being written.

    Attributes:
        index: the i64 counter.
        carried: names of the carried values at the start of an iteration.
        next: what they are for the next iteration; set it before the loop is closed.
        results: what they are after the loop; there once the loop is closed.
        step: what is added to the counter; iterations may set another one.
    """

    __slots__ = ("carried", "index", "next", "results", "step")

    def __init__(self, index: str, carried: list[str], step: str | int) -> None:
        self.index = index
        self.step = step
        self.carried = carried
        self.next: Sequence[str] = ()
        self.results: list[str] = []
