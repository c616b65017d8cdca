"""Listings as HTML: words coloured by kind, and lines that come from one line of the source in one colour."""

from __future__ import annotations

import keyword
import re
from html import escape

from tilewright.runtime.display.listings import Line, Listing

HUES = (210, 30, 140, 280, 0, 180, 60, 320, 100, 250)
"""Colours of the lines of a source, which begin again after the last one; neighbours are far apart."""
PYTHON = re.compile(
    rf"(?P<comment>\#.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<keyword>@[\w.]+|\b(?:{'|'.join(keyword.kwlist)})\b)"
    r"|(?P<number>\b\d[\w.]*)"
)
CODE = re.compile(
    r"(?P<comment>^\s*[;.][\w.]+.*$|\bloc\(.*$)|(?P<string>\"[^\"]*\"|'[^']*')|(?P<value>%[\w.#:]+|\br\d+\b)"
    r"|(?P<keyword>\b[a-z]\w*\.[a-z_.]+|^\t[a-z]\w*|\b[A-Z][A-Z_]{2,}\b)|(?P<number>\b\d[\w.]*)"
)
COLOURS = """--paper: light-dark(#fff, #15181d); --ink: light-dark(#1f2733, #dde3ea);
  --faint: light-dark(#6b7682, #8b96a3); --edge: light-dark(#d8dee6, #323a45);
  --panel: light-dark(#f6f8fa, #1c2128); --accent: light-dark(#0a6b7c, #5cc8da);
  --comment: light-dark(#6a737d, #8b949e); --string: light-dark(#0a6640, #7ee2a8);
  --keyword: light-dark(#8a1c9c, #d2a8ff); --number: light-dark(#0550ae, #79c0ff);
  --value: light-dark(#9a4a00, #ffa657); --lit: light-dark(#ffe08a, #6b5600)"""
"""The colours of pages, as custom properties; for those that follow `color-scheme`."""
WORDS = "".join(f".{kind} {{ color: var(--{kind}) }} " for kind in ("comment", "string", "keyword", "number", "value"))
"""The rules for the words that `coloured` marks."""


def rows(listing: Listing, first: int, words: re.Pattern[str]) -> str:
    """The lines of a listing; `first` is the line of the source that has the first colour."""
    return "".join(row(line, first, words) for line in listing.lines)


def row(line: Line, first: int, words: re.Pattern[str]) -> str:
    """A line with the number of its line in the source, if it has one."""
    hue = f' style="--hue:{HUES[(line.source - first) % len(HUES)]}"' if line.source else ""
    text = coloured(line.text, words) or " "
    return f'<div data-line="{line.source}"{hue}><i>{line.source or ""}</i>{text}</div>'


def coloured(text: str, words: re.Pattern[str]) -> str:
    """The text with its words marked by kind."""
    parts, end = [], 0
    for found in words.finditer(text):
        parts.append(escape(text[end : found.start()]))
        parts.append(f'<span class="{found.lastgroup}">{escape(found[0])}</span>')
        end = found.end()
    return "".join([*parts, escape(text[end:])])
