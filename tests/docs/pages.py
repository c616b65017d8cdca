"""The parts of a page: its programs with what they print, and its links.

```python            a program; it runs in a process state of its own, from a file named program.py
```text              directly after a program and the word `prints`: its output
<!-- in: path -->    before a fence: the file has this text, word for word
<!-- text: name -->  before a fence: made by `follow.py`
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md")))

_PROGRAM = re.compile(
    r"(?<!-->\n)^```python\n(.*?)^```\n(?:\nprints\n\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
_QUOTATION = re.compile(r"<!-- in: (\S+) -->\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Program(NamedTuple):
    """A program in a page. `output` is None where the page does not say what it prints."""

    name: str
    code: str
    output: str | None


def programs() -> list[Program]:
    """All programs of all pages."""
    return [program for page in PAGES for program in programs_in(page.read_text(), page.name)]


def programs_in(text: str, page: str = "") -> list[Program]:
    """The programs of a page or of a part of it."""
    return [Program(f"{page}:{n}", found[1], found[2]) for n, found in enumerate(_PROGRAM.finditer(text))]


def quotations() -> list[tuple[str, str, str]]:
    """Every text that a page quotes from a file: the page, the file, the text."""
    return [(page.name, *found) for page in PAGES for found in _QUOTATION.findall(page.read_text())]


def links() -> list[tuple[Path, str]]:
    """Every link to a file, with the page it stands in."""
    found = ((page, target) for page in PAGES for target in _LINK.findall(_CODE.sub("", page.read_text())))
    return [(page, target) for page, target in found if not target.startswith(("http:", "https:"))]
