"""The listings of `tilewright explain`, and one HTML page of them.

The source stays at the left. Lines that come from one line of the source have its colour in every column; pointing at
one lights all of them.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from html import escape
from pathlib import PurePath
from typing import NamedTuple


class Line(NamedTuple):
    """A line of a listing, and the line of the source that it comes from (0: none)."""

    text: str
    source: int = 0


class Listing(NamedTuple):
    """The text of one stage of one front end."""

    title: str
    lines: Sequence[Line]


class Explained(NamedTuple):
    """A kernel, and for each front end what it reads and makes.

    Attributes:
        name: the name of the kernel.
        place: file and line.
        signature: what it is compiled for.
        source: its text.
        columns: the stages by front end.
    """

    name: str
    place: str
    signature: str
    source: Listing
    columns: dict[str, list[Listing]]


HUES = (210, 30, 140, 280, 0, 180, 60, 320, 100, 250)
"""Colours of the lines of a source, which begin again after the last one; neighbours are far apart."""
_PYTHON = re.compile(
    rf"(?P<comment>\#.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<keyword>@[\w.]+|\b(?:{'|'.join(keyword.kwlist)})\b)"
    r"|(?P<number>\b\d[\w.]*)"
)
_CODE = re.compile(
    r"(?P<comment>^\s*[;.][\w.]+.*$|\bloc\(.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<value>%[\w.#:]+|\br\d+\b)"
    r"|(?P<keyword>\b[a-z]\w*\.[a-z_.]+|\b[A-Z][A-Z_]{2,}\b)|(?P<number>\b\d[\w.]*)"
)


def page(explained: Explained) -> str:
    """One page without references to others."""
    first = explained.source.lines[0].source if explained.source.lines else 0
    source = f"<section><h2>source</h2>{_block(explained.source, first, _PYTHON)}</section>"
    columns = "".join(
        f"<section><h2>{escape(name)}</h2>{''.join(_block(stage, first, _CODE) for stage in stages)}</section>"
        for name, stages in explained.columns.items()
    )
    file = PurePath(explained.place)
    title = f"{escape(explained.name)} · {escape(file.name)}"
    head = f"<h1>{escape(explained.name)}</h1><p>{escape(explained.place)}<br>{escape(explained.signature)}</p>"
    return _PAGE.replace("{title}", title).replace("{head}", head).replace("{body}", source + columns)


def _block(stage: Listing, first: int, words: re.Pattern[str]) -> str:
    if not stage.title:
        return ""
    rows = "".join(_row(line, first, words) for line in stage.lines)
    folded = "" if stage.title == "machine code" else " open"
    return f"<details{folded}><summary>{escape(stage.title)}</summary><pre>{rows}</pre></details>"


def _row(line: Line, first: int, words: re.Pattern[str]) -> str:
    hue = f' style="--hue:{HUES[(line.source - first) % len(HUES)]}"' if line.source else ""
    text = _coloured(line.text, words) or " "
    return f'<div data-line="{line.source}"{hue}><i>{line.source or ""}</i>{text}</div>'


def _coloured(text: str, words: re.Pattern[str]) -> str:
    """The text with its words marked by kind."""
    parts, end = [], 0
    for found in words.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(f'<span class="{found.lastgroup}">{escape(found[0])}</span>')
        end = found.end()
    return "".join([*parts, escape(text[end:])])


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #222; --faint: #777; --tint: 94%; --edge: 60%;
  --comment: #6a737d; --string: #0a6640; --keyword: #8a1c9c; --number: #0550ae; --value: #9a4a00; --lit: #ffe08a }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #ddd; --faint: #888; --tint: 16%; --edge: 45%;
  --comment: #8b949e; --string: #7ee2a8; --keyword: #d2a8ff; --number: #79c0ff; --value: #ffa657; --lit: #5c4a00 } }
body { margin: 0; font: 14px sans-serif; background: var(--paper); color: var(--ink) }
header { position: sticky; left: 0; width: max-content; max-width: 100vw; padding: 1em 1em 0; box-sizing: border-box }
h1 { margin: 0; font-size: 1.6em } h2 { margin: .5em 0 0 } p { margin: .3em 0; color: var(--faint) }
main { display: flex; align-items: flex-start; width: max-content; min-width: 100% }
section { flex: none; padding: 0 1em; max-width: 46em; background: var(--paper) }
section:first-of-type { position: sticky; left: 0; top: 0; max-width: 45vw; max-height: 100vh; overflow-y: auto;
  z-index: 1; border-right: 1px solid var(--faint) }
pre { font: 12px/1.5 monospace; margin: 0 }
pre div { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 1em 0 7em; text-indent: -7em;
  border-left: 3px solid transparent }
pre div[style] { background: hsl(var(--hue) 80% var(--tint)); border-left-color: hsl(var(--hue) 60% var(--edge)) }
pre i { display: inline-block; width: 4em; padding-left: .5em; text-indent: 0; color: var(--faint); font-style: normal }
summary { font-weight: bold; margin: .5em 0 } pre div.lit { background: var(--lit) }
.comment { color: var(--comment) } .string { color: var(--string) } .keyword { color: var(--keyword) }
.number { color: var(--number) } .value { color: var(--value) }
</style></head>
<body><header>{head}</header><main>{body}</main>
<script>
function light(event) {
  const at = event.target.closest("[data-line]");
  for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  if (!at || at.dataset.line === "0") return;
  for (const same of document.querySelectorAll(`[data-line="${at.dataset.line}"]`)) same.classList.add("lit");
}
document.addEventListener("mouseover", light);
</script></body></html>
"""
