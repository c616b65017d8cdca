"""Sections: lines of a function into which code may still go while what follows is written."""

from __future__ import annotations


class Section:
    """Lines of a function, and sections spliced between them.

    Straight-line code may be added at any time. New blocks (loops, branches) may be added until the section is sealed,
    which happens when code behind it has named its last label.
    """

    __slots__ = ("marks", "parent", "parts", "sealed")

    def __init__(self, parent: Section | None, label: str | None = None) -> None:
        self.parent = parent
        self.parts: list[str | Section] = []
        self.marks: list[str | Section] = [] if label is None else [label]
        self.sealed = False

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
        own = self._last_label(self.marks.index(child))
        if own is not None:
            return own
        assert self.parent is not None, "a function starts with a label"
        return self.parent._label_before(self)

    def flatten(self, into: list[str]) -> None:
        """Append all lines, in order."""
        for part in self.parts:
            if isinstance(part, str):
                into.append(part)
            else:
                part.flatten(into)
