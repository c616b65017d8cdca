"""Drops what a generated kernel assigns and never uses: it would take time in Python and leave nothing in machine code.

without_dead(["x = 1", "y = 2", "store(y)"])  ->  ["y = 2", "store(y)"]
"""

from __future__ import annotations

import re
from collections import Counter

ASSIGNMENT = re.compile(r"\s*([\w, ]+?) [+-]?= (.*)")
NAME = re.compile(r"[A-Za-z_]\w*")
ACTS = ("atomic", "helper")
"""Parts of the names of functions that do more than give a value."""


def without_dead(lines: list[str]) -> list[str]:
    """The lines of a function without assignments to names that nothing uses."""
    assigned = [_targets(line) for line in lines]
    values = [line.partition("= ")[2] if names else line for line, names in zip(lines, assigned, strict=True)]
    read = [NAME.findall(value) for value in values]
    uses = Counter(name for names in read for name in names)
    kept = list(range(len(lines)))
    while dead := {at for at in kept if assigned[at] and not any(uses[name] for name in assigned[at])}:
        uses.subtract(name for at in dead for name in read[at])
        kept = [at for at in kept if at not in dead]
    return _filled([lines[at] for at in kept])


def _targets(line: str) -> list[str]:
    """The names that a line assigns, if it does nothing else."""
    match = ASSIGNMENT.fullmatch(line)
    return NAME.findall(match[1]) if match and not any(word in match[2] for word in ACTS) else []


def _filled(lines: list[str]) -> list[str]:
    """The lines with `pass` in blocks that are empty now."""
    found: list[str] = []
    for line, following in zip(lines, [*lines, ""][1:], strict=True):
        found.append(line)
        depth = len(line) - len(line.lstrip())
        if line.endswith(":") and len(following) - len(following.lstrip()) <= depth:
            found.append(" " * (depth + 4) + "pass")
    return found
